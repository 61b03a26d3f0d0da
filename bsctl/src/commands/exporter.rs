//! `exporter`: the server's and its tubes' statistics as metrics.

use std::collections::HashMap;

use beanstalk_client::protocol::{ListTubes, StatsTube};
use beanstalk_client::{TubeName, TubeStats};
use ctl_core::commands::exporter::{Choice, Counts, Exports, Kind, Known, Metrics};
use ctl_core::error::CliError;
use ctl_core::output::{Field, Record};
use serde_json::Value;

use crate::attendance::Workers;
use crate::link::Link;
use crate::tool::Bsctl;
use crate::tube_stats::{self, Answer, oldest_ages, record};

/// The end of `exporter --help`.
pub const HELP: &str = "\
Protocol: stats, list-tubes, stats-tube; use, peek-ready and stats-job for the age of the oldest job.
GET /metrics queries all servers in parallel, each for at most --timeout (2s): beanstalkd_up is 0 for a server that does
not answer, and its other metrics are omitted. GET /scale?queue=NAME[&queue=NAME] returns JSON for autoscalers such as
KEDA's metrics-api: ready, reserved, delayed, buried, and value, the sum of ready and reserved (with &include=delayed, of
delayed as well); 503 unless all servers answer, because a sum of some of them would look like less work.
GET /healthz covers only the exporter itself.
The exporter's own connection is in no figure. Every connection watches the tube default, also idle producers: its
workers are known only within beanstalkd_tube_workers_min and _max; for other tubes both are the number of watchers.

Examples:
  bsctl exporter --listen 127.0.0.1:9419 --only '!tmp.*'
  bsctl exporter -c 1 > /var/lib/node_exporter/beanstalkd.prom";

/// The exported metrics. `top`, the dashboard and the alerts in `docs/monitoring` find their figures by these names.
pub static EXPORTS: Exports<Bsctl> = Exports {
    prefix: "beanstalkd",
    noun: "tube",
    scrape,
    valid: |name| crate::names::tube(name).map(drop),
    scale,
    work: &["ready", "reserved"],
    more_work: &["delayed"],
};

/// The bounds of the number of workers of a tube.
pub const WORKERS_MIN: &str = "beanstalkd_tube_workers_min";
/// The other one.
pub const WORKERS_MAX: &str = "beanstalkd_tube_workers_max";

/// A figure, by its key in the server's words.
#[derive(Clone, Copy)]
struct Figure {
    key: &'static str,
    kind: Kind,
    help: &'static str,
    /// Its own name, if different from the key.
    name: Option<&'static str>,
    /// The state of the jobs that it counts in a family of all states.
    state: Option<&'static str>,
}

impl Figure {
    const fn named(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }
}

const fn gauge(key: &'static str, help: &'static str) -> Figure {
    Figure { key, kind: Kind::Gauge, help, name: None, state: None }
}

const fn counter(key: &'static str, help: &'static str) -> Figure {
    Figure { kind: Kind::Counter, ..gauge(key, help) }
}

const fn jobs(state: &'static str, key: &'static str) -> Figure {
    Figure { name: Some("jobs"), state: Some(state), ..gauge(key, "Jobs of the tube, by state.") }
}

/// The figures of a server.
static SERVER: &[Figure] = &[
    gauge("current-jobs-urgent", "Ready jobs with a priority below 1024."),
    gauge("current-jobs-ready", "Ready jobs."),
    gauge("current-jobs-reserved", "Jobs reserved by any connection."),
    gauge("current-jobs-delayed", "Delayed jobs."),
    gauge("current-jobs-buried", "Buried jobs."),
    counter("cmd-put", "put commands, including refused ones."),
    counter("job-timeouts", "Reservations whose time to run expired."),
    counter("total-jobs", "Jobs put since the server started.").named("jobs_put"),
    gauge("max-job-size", "Maximum body size of a put, in bytes.").named("max_job_size_bytes"),
    gauge("current-tubes", "Tubes that exist."),
    gauge("current-connections", "Open connections."),
    gauge("current-producers", "Open connections that have put a job."),
    gauge("current-workers", "Open connections that have reserved."),
    gauge("current-waiting", "Open connections waiting in a reserve."),
    counter("total-connections", "Connections since the server started.")
        .named("connections_opened"),
    counter("rusage-utime", "User CPU time of the server, in seconds.")
        .named("rusage_utime_seconds"),
    counter("rusage-stime", "System CPU time of the server, in seconds.")
        .named("rusage_stime_seconds"),
    gauge("uptime", "Seconds since the server started.").named("uptime_seconds"),
    gauge("binlog-oldest-index", "Index of the oldest log file still needed."),
    gauge("binlog-current-index", "Index of the current log file."),
    counter("binlog-records-migrated", "Records written to compact the log."),
    counter("binlog-records-written", "Records written to the log."),
    gauge("binlog-max-size", "Maximum size of a log file, in bytes.")
        .named("binlog_max_size_bytes"),
    gauge("draining", "Whether the server is draining and refuses new jobs."),
];

/// The figures of a tube.
static TUBE: &[Figure] = &[
    jobs("ready", "current-jobs-ready"),
    jobs("reserved", "current-jobs-reserved"),
    jobs("delayed", "current-jobs-delayed"),
    jobs("buried", "current-jobs-buried"),
    gauge("current-jobs-urgent", "Ready jobs with a priority below 1024."),
    counter("total-jobs", "Jobs put into the tube since it was created.").named("jobs_put"),
    gauge("current-using", "Connections that use the tube."),
    gauge("current-watching", "Connections that watch the tube."),
    gauge("current-waiting", "Connections waiting for its jobs."),
    counter("cmd-delete", "Jobs deleted from the tube."),
    counter("cmd-pause-tube", "pause-tube commands for the tube."),
    gauge("pause", "Length of the current pause, in seconds.").named("pause_seconds"),
    gauge("pause-time-left", "Remaining time of the pause, in seconds.")
        .named("pause_time_left_seconds"),
];

fn scrape(link: &mut Link, choice: &Choice, _: &mut Known) -> Result<Metrics, CliError> {
    let mut metrics = Metrics::default();
    let stats = link.server_stats()?;
    add(&mut metrics, ("", SERVER), &record(&stats)?, None);
    let labels = [("version", &stats.version), ("hostname", &stats.hostname), ("id", &stats.id)];
    let labels = labels.map(|(key, text)| (key, text.as_str()));
    let help = "Information about the server.";
    metrics.add(Kind::Gauge, "beanstalkd_server_info", help, labels, 1.0);
    let all = link.call(ListTubes)?;
    let (tubes, more) = choice.of(all, |tube| tube.as_str().to_owned());
    let tubes: Vec<TubeName> = tubes.into_iter().map(|(_, tube)| tube).collect();
    let answers = tube_stats::ask(link, &tubes)?;
    let waiting = tubes.iter().zip(&answers).filter_map(|(tube, answer)| match answer {
        Answer::Stats(stats) if stats.current_jobs_ready > 0 => Some(tube),
        _ => None,
    });
    let waiting: Vec<TubeName> = waiting.cloned().collect();
    let ages = oldest_ages(link, &waiting)?;
    let ages: HashMap<&TubeName, u64> = waiting.iter().zip(ages).collect();
    for (tube, answer) in tubes.iter().zip(answers) {
        // Tubes that have disappeared in the meantime, or that this server cannot report on because of their names, are
        // left out.
        let Answer::Stats(tube_stats) = answer else { continue };
        let label = ("tube", tube.as_str());
        add(&mut metrics, ("tube_", TUBE), &record(&*tube_stats)?, Some(label));
        let workers = Workers::of(&tube_stats, Some(&stats));
        for (name, help, count) in [
            (WORKERS_MIN, "Workers of the tube, at least.", workers.least),
            (WORKERS_MAX, "Workers of the tube, at most.", workers.most),
        ] {
            metrics.add(Kind::Gauge, name, help, [label], count as f64);
        }
        let age = ages.get(tube).copied().unwrap_or(0);
        let help = "Age of the job that would be reserved next, in seconds; 0 if there is none.";
        let name = "beanstalkd_tube_oldest_job_age_seconds";
        metrics.add(Kind::Gauge, name, help, [label], age as f64);
    }
    let help = "Tubes not exported because of --max.";
    metrics.add(Kind::Gauge, "beanstalkd_tubes_left_out", help, [], more as f64);
    Ok(metrics)
}

/// Adds these figures of what the server reports, with this label; their names begin with `before`. Counters of commands
/// that are in no table are of the server.
fn add(
    metrics: &mut Metrics,
    (before, figures): (&str, &[Figure]),
    stats: &Record,
    label: Option<(&str, &str)>,
) {
    for (key, field) in stats.fields() {
        let Field::Value(value) = field else { continue };
        let Some(value) = number(value) else { continue };
        let figure = figures.iter().find(|figure| figure.key == key);
        let (kind, help) = match figure {
            Some(figure) => (figure.kind, figure.help),
            None if key.starts_with("cmd-") => (Kind::Counter, "Commands of this kind."),
            None => continue,
        };
        let plain = key.replace('-', "_");
        let own = figure.and_then(|figure| figure.name);
        let name = format!("beanstalkd_{before}{}", own.unwrap_or(&plain));
        let state = figure.and_then(|figure| figure.state).map(|state| ("state", state));
        metrics.add(kind, &name, help, label.into_iter().chain(state), value);
    }
}

/// The server writes numbers, `true` and `false`, and text. Text is not exported, unless it is a number.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is_set) => Some(f64::from(u8::from(*is_set))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

fn scale(link: &mut Link, tube: &str) -> Result<Counts, CliError> {
    let tube = crate::names::tube(tube)?;
    // A tube exists only while it is in use.
    let stats = link.call(StatsTube(tube))?;
    let of = |figure: fn(&TubeStats) -> u64| {
        stats.as_ref().map_or(0, |stats| i64::try_from(figure(stats)).unwrap_or(i64::MAX))
    };
    Ok(vec![
        ("ready", of(|stats| stats.current_jobs_ready)),
        ("reserved", of(|stats| stats.current_jobs_reserved)),
        ("delayed", of(|stats| stats.current_jobs_delayed)),
        ("buried", of(|stats| stats.current_jobs_buried)),
        ("waiting", of(|stats| stats.current_waiting)),
    ])
}
