//! The figures of a check.

use std::time::{Duration, Instant};
use std::{slice, thread};

use beanstalk_client::protocol::{ListTubes, Stats, StatsJob};
use beanstalk_client::{JobId, JobState, JobStats, TubeName, TubeStats};
use ctl_core::bulk::Gate;
use ctl_core::commands::check::{CheckFlags, Measured, Metric};
use ctl_core::error::CliError;
use ctl_core::input::glob::Patterns;
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::Progress;
use ctl_core::rules::filter::Filters;
use ctl_core::system::signals::Interrupts;
use ctl_core::text::spelling::did_you_mean;
use ctl_core::text::units::milliseconds;

use super::What;
use super::roundtrip::roundtrip;
use crate::attendance::{Load, Problem, Workers};
use crate::jobs;
use crate::jobs::scan::{Wanted, fetch, find, tell_missing};
use crate::link::Link;
use crate::tube_stats::{oldest_ages, unaskable};

/// Asks the server.
pub(super) fn measure(
    link: &mut Link,
    what: &What,
    flags: &CheckFlags,
    messages: &Messages,
) -> Result<Measured, CliError> {
    match what {
        What::Server => server(link, flags.ask_for(TIMEOUTS)).map(Measured::from),
        What::Tube { tube, select } => {
            let tube = tube.name_or_usual(link.dialer.settings())?;
            let filters = select.read()?;
            let mut measured = one_tube(link, &tube)?;
            if !filters.is_empty() {
                let count = if measured.absent.is_some() {
                    0
                } else {
                    matching(link, tube.clone(), filters, messages)?
                };
                let metric = Metric::new(MATCHING, count as f64, "").of(tube.as_str());
                measured.metrics.push(metric.usual().asked());
            }
            Ok(measured)
        }
        What::Tubes(patterns) => tubes(link, patterns, messages),
        What::Job { ids } => jobs(link, ids),
        What::Roundtrip => roundtrip(link).map(Measured::from),
    }
}

/// Number of jobs that match the filters.
const MATCHING: &str = "matching";

/// Finds the jobs of a tube that match.
fn matching(
    link: &mut Link,
    tube: TubeName,
    filters: Filters,
    messages: &Messages,
) -> Result<usize, CliError> {
    const CHUNK: usize = 100;
    let gate = Gate::of(&Interrupts::none());
    let mut progress = Progress::start(&messages.without_progress(), "querying ids", None);
    let wanted = Wanted::of(vec![tube], [], filters);
    let found = find(link, &wanted, &gate, &mut progress)?;
    progress.finish();
    tell_missing(messages, found.missing);
    let fitting = found.ids.chunks(CHUNK).map(|ids| Ok(fetch(link, ids, &wanted, false)?.len()));
    fitting.sum()
}

/// Number of reservations that expired, per second.
const TIMEOUTS: &str = "timeouts/s";
/// How long they are counted.
const WHILE: Duration = Duration::from_secs(1);

fn server(link: &mut Link, with_rates: bool) -> Result<Vec<Metric>, CliError> {
    link.client()?;
    let start = Instant::now();
    let stats = link.server_stats()?;
    let rtt = milliseconds(start.elapsed());
    let draining = u64::from(stats.draining == Some(true));
    let binlog_lag = stats.binlog_current_index.saturating_sub(stats.binlog_oldest_index);
    let metric = |name, value: u64, unit| Metric::new(name, value as f64, unit);
    let mut metrics = vec![
        metric("ready", stats.current_jobs_ready, "").usual(),
        metric("buried", stats.current_jobs_buried, "").usual(),
        metric("delayed", stats.current_jobs_delayed, ""),
        metric("reserved", stats.current_jobs_reserved, ""),
        metric("urgent", stats.current_jobs_urgent, ""),
        metric("waiting", stats.current_waiting, ""),
        metric("workers", stats.current_workers, ""),
        metric("connections", stats.current_connections, ""),
        metric("uptime", stats.uptime, "s"),
        metric("draining", draining, ""),
        metric("binlog-lag", u64::try_from(binlog_lag).unwrap_or(0), ""),
        Metric::new("rtt", rtt, "ms").usual(),
    ];
    if with_rates {
        thread::sleep(WHILE);
        let later = link.call(Stats)?.job_timeouts;
        // A server that was restarted in between counts from 0 again.
        let more = later.saturating_sub(stats.job_timeouts);
        metrics.push(Metric::new(TIMEOUTS, more as f64 / start.elapsed().as_secs_f64(), ""));
    }
    Ok(metrics)
}

/// The figures of jobs; all zero for a job that is gone.
fn jobs(link: &mut Link, ids: &[JobId]) -> Result<Measured, CliError> {
    let (mut metrics, mut gone) = (Vec::new(), Vec::new());
    let answers = link.pipeline(ids.iter().copied().map(StatsJob))?;
    for (id, stats) in ids.iter().zip(answers) {
        let stats = stats?;
        if stats.is_none() {
            gone.push(id.to_string());
        }
        let subject = format!("job {id}");
        let metric = |name, value: f64, unit| Metric::new(name, value, unit).of(&subject);
        let of = |figure: fn(&JobStats) -> f64| stats.as_ref().map_or(0.0, figure);
        let is =
            |state| f64::from(u8::from(stats.as_ref().is_some_and(|stats| stats.state == state)));
        metrics.extend([
            metric("age", of(|stats| stats.age as f64), "s").usual(),
            metric("time-left", of(|stats| stats.time_left as f64), "s"),
            metric("reserves", of(|stats| stats.reserves as f64), ""),
            metric("timeouts", of(|stats| stats.timeouts as f64), ""),
            metric("releases", of(|stats| stats.releases as f64), ""),
            metric("buries", of(|stats| stats.buries as f64), ""),
            metric("kicks", of(|stats| stats.kicks as f64), ""),
            metric("ready", is(JobState::Ready), ""),
            metric("reserved", is(JobState::Reserved), ""),
            metric("delayed", is(JobState::Delayed), ""),
            metric("buried", is(JobState::Buried), "").usual(),
        ]);
    }
    let absent = (!gone.is_empty()).then(|| format!("there is no job {}", gone.join(", ")));
    Ok(Measured { metrics, absent, ..Measured::default() })
}

fn one_tube(link: &mut Link, tube: &TubeName) -> Result<Measured, CliError> {
    let (is_there, metrics) = tube_metrics(link, tube)?;
    Ok(match is_there {
        true => metrics.into(),
        false => {
            let meant = jobs::near(link, tube).map(|meant| format!(": {}", did_you_mean(&meant)));
            let why = format!("there is no tube {tube}{}", meant.unwrap_or_default());
            Measured::absent(why, metrics)
        }
    })
}

/// Whether the tube exists, and its figures; a tube that does not exist counts as empty.
fn tube_metrics(link: &mut Link, tube: &TubeName) -> Result<(bool, Vec<Metric>), CliError> {
    link.client()?;
    let start = Instant::now();
    let known = Workers::ask(link, tube)?;
    let rtt = milliseconds(start.elapsed());
    let is_idle = known.as_ref().is_none_or(|(stats, _)| stats.current_jobs_ready == 0);
    let waiting = if is_idle { &[] } else { slice::from_ref(tube) };
    let oldest = oldest_ages(link, waiting)?.into_iter().sum();
    Ok((known.is_some(), figures(tube.as_str(), known.as_ref(), oldest, rtt)))
}

/// A tube that does not exist counts as empty. The age is in seconds, the round trip in milliseconds.
fn figures(tube: &str, known: Option<&(TubeStats, Workers)>, oldest: u64, rtt: f64) -> Vec<Metric> {
    let of = |figure: fn(&TubeStats) -> u64| known.map_or(0, |(stats, _)| figure(stats));
    let load = known.map(|(stats, workers)| Load::of(stats, *workers)).unwrap_or_default();
    let problems: Vec<_> = load.problems().map(Problem::in_check).collect();
    let metric = |name, value: u64, unit| {
        let problem = problems.iter().find(|(metric, _)| *metric == name).map(|(_, why)| *why);
        Metric { problem, ..Metric::new(name, value as f64, unit).of(tube) }
    };
    let Load { ready, workers, pause_left, buried } = load;
    let most = (workers.most > workers.least).then_some(workers.most as f64);
    let pause = metric("pause-left", pause_left, "s");
    let mut metrics = vec![
        metric("ready", ready, "").usual(),
        metric("buried", buried, ""),
        metric("delayed", of(|stats| stats.current_jobs_delayed), ""),
        metric("reserved", of(|stats| stats.current_jobs_reserved), ""),
        metric("urgent", of(|stats| stats.current_jobs_urgent), ""),
        metric("waiting", of(|stats| stats.current_waiting), ""),
        metric("watching", of(|stats| stats.current_watching), ""),
        Metric { most, ..metric("workers", workers.least, "").usual() },
        metric("oldest-age", oldest, "s"),
        Metric::new("rtt", rtt, "ms").of(tube).usual(),
    ];
    // Jobs that only seem to be ready: the reader has to see it at once.
    match pause_left {
        0 => metrics.push(pause),
        _ => metrics.insert(1, pause.usual()),
    }
    metrics
}

fn tubes(link: &mut Link, patterns: &Patterns, messages: &Messages) -> Result<Measured, CliError> {
    let mut all = link.call(ListTubes)?;
    all.retain(|tube| patterns.want(tube.as_str()));
    all.sort();
    let mut metrics = Vec::new();
    let mut unasked = None;
    for tube in &all {
        match tube_metrics(link, tube) {
            Ok((true, more)) => metrics.extend(more),
            // It has disappeared in the meantime.
            Ok((false, _)) => {}
            Err(error) => {
                let error = unaskable(tube, error)?;
                messages.warn(&error.message);
                unasked = Some(error);
            }
        }
    }
    match unasked {
        Some(error) if metrics.is_empty() => Err(error),
        _ if metrics.is_empty() => {
            let known = figures("", None, 0, 0.0);
            Ok(Measured::nothing(format!("no tube matches {patterns}"), known))
        }
        _ => Ok(metrics.into()),
    }
}
