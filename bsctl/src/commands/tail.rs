//! `tail`: jobs as they arrive.

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use beanstalk_client::protocol::Stats;
use beanstalk_client::{JobStats, TubeName};
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::link::absence::Absence;
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::{Wait, Waiting};
use ctl_core::output::{BodiesArgs, List};
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;

use crate::jobs::arrivals::{Arrivals, Questions};
use crate::jobs::scan::{Wanted, existing, fitting, heads};
use crate::jobs::select::SelectArgs;
use crate::jobs::{self, PASSING};
use crate::link::Link;
use crate::names::Tube;
use crate::tool::Tool;
use crate::tube_stats;

/// The end of `tail --help`.
pub const HELP: &str = "\
Protocol: stats, then stats-job and peek for new ids.
Shows jobs put from now on and changes nothing. beanstalkd does not announce new jobs, so it is polled (--interval):
jobs that come and go between two polls are missed, and counted on stderr; `tap` shows every job that passes through it.
On a server restarted with its log, tail starts after the newest job found. If a server goes away, tail says so and waits
for it. Stop with Ctrl-C.
Filters: see `bsctl help filters`.

Examples:
  bsctl tail -t mail
  bsctl tail -t mail -t sms --filter 'body~=error' -o ndjson
  bsctl tail -t mail -c 1 -o raw";

/// Arguments of `tail`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tubes [default: all]")))]
pub struct TailArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// Exit after N jobs
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Polling interval
    #[arg(short, long, value_name = "DUR", default_value = "500ms", value_parser = units::duration)]
    interval: Duration,

    #[command(flatten)]
    bodies: BodiesArgs,

    #[command(flatten)]
    select: SelectArgs,
}

/// Runs `tail`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: TailArgs) -> Result<Exit, CliError> {
    let filters = args.select.read()?;
    args.bodies.prepare(&mut tool.out, &PASSING)?;
    let wanted = Wanted::of(args.tubes.given()?, [], filters);
    let interrupts = tool.interrupts()?;
    let wait = Wait::new(&tool.messages, "waiting for jobs", None);
    let waiting = wait.showing(&tool.messages).shown();
    let list = tool.out.list(&PASSING)?.eager();
    let (absence, link) = (Absence::new(&tool.messages), &mut tool.link);
    let missed = Missed { interval: args.interval, ..Missed::default() };
    let left = args.count.unwrap_or(u64::MAX);
    let looker = Looker { link, wanted, list, left, server: None, missed, waiting };
    looker.run(absence, args.interval, &interrupts)
}

/// The delay before the next poll: even with an interval of 0, it must not flood an unreachable server.
fn pause(interval: Duration, is_away: bool) -> Duration {
    if is_away { interval.max(SHORTEST) } else { interval }
}

/// What a person should know when the server's own id has changed.
const RESTARTED: &str = "the server restarted: ids may name other jobs now";

/// The shortest delay while a server is unreachable.
const SHORTEST: Duration = Duration::from_millis(50);

/// Watches for jobs put from now on.
struct Looker<'a> {
    link: &'a mut Link,
    wanted: Wanted,
    list: List<'a>,
    left: u64,
    /// The server's own id, which changes with a restart.
    server: Option<String>,
    missed: Missed,
    waiting: Waiting,
}

impl Looker<'_> {
    fn run(
        mut self,
        mut absence: Absence,
        interval: Duration,
        interrupts: &Interrupts,
    ) -> Result<Exit, CliError> {
        let mut arrivals = Arrivals::after_newest(self.link)?;
        self.server = Some(arrivals.server().to_owned());
        self.missed.start(put_counts(self.link, self.wanted.jobs.tubes())?);
        absence.settle(Ok(()))?;
        let mut is_away = false;
        while self.left > 0 && self.waiting.sleep(interrupts, pause(interval, is_away), "").is_ok()
        {
            // Its return is reported before its jobs.
            if is_away && absence.settle(self.link.call(Stats))?.is_none() {
                continue;
            }
            let seen = self.look(&mut arrivals, absence.messages());
            is_away = absence.settle(seen)?.is_none();
        }
        drop(self.waiting);
        self.missed.tell_rest(absence.messages());
        self.list.finish()?;
        Ok(interrupts.requested().unwrap_or(Exit::Done))
    }

    fn look(&mut self, arrivals: &mut Arrivals, messages: &Messages) -> Result<(), CliError> {
        // Counted first: what is put later may be found as well, and is counted by the next poll.
        let counts = put_counts(self.link, self.wanted.jobs.tubes())?;
        let (mut found, mut was_restarted) = (0, false);
        arrivals.look(self.link, |link, server, jobs| {
            if self.server.as_deref() != Some(server) {
                messages.note(RESTARTED);
                self.server = Some(server.to_owned());
                was_restarted = true;
            }
            found += jobs.iter().filter(|job| self.wanted.jobs.includes(job)).count() as u64;
            for (stats, body) in fitting(link, jobs, &self.wanted, true)? {
                if self.left == 0 {
                    break;
                }
                let record = jobs::record(&stats);
                self.waiting.over();
                self.list.push(match body {
                    Some(Ok(body)) => record.with_body(body),
                    _ => record,
                })?;
                self.left -= 1;
            }
            self.list.flush()?;
            Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        match was_restarted {
            true => self.missed.start(counts),
            false if self.left > 0 => {
                self.missed.note(counts, found);
                self.missed.tell(messages);
            }
            // It did not look at the rest.
            false => {}
        }
        Ok(())
    }
}

/// The numbers of jobs put into these tubes, or into any.
fn put_counts(link: &mut Link, tubes: &[TubeName]) -> Result<Vec<u64>, CliError> {
    if tubes.is_empty() {
        return Ok(vec![link.call(Stats)?.total_jobs]);
    }
    let answers = tube_stats::ask(link, tubes)?;
    Ok(answers.iter().map(|answer| answer.stats().map_or(0, |stats| stats.total_jobs)).collect())
}

/// The number of jobs that came and went between two polls, as far as the counts of puts show it.
#[derive(Debug, Default)]
struct Missed {
    /// The counts at the last poll. That of a tube starts anew when the tube does.
    counts: Vec<u64>,
    put: u64,
    found: u64,
    /// As many as were reported.
    told: u64,
    /// Those of earlier runs of the server.
    before: u64,
    interval: Duration,
}

impl Missed {
    fn start(&mut self, counts: Vec<u64>) {
        self.before = self.number();
        (self.counts, self.put, self.found) = (counts, 0, 0);
    }

    fn note(&mut self, counts: Vec<u64>, found: u64) {
        let more = self.counts.iter().zip(&counts);
        let more = more.map(|(before, now)| now.checked_sub(*before).unwrap_or(*now));
        self.put += more.sum::<u64>();
        self.found += found;
        self.counts = counts;
    }

    fn number(&self) -> u64 {
        self.before + self.put.saturating_sub(self.found)
    }

    /// Reports it at first, and then whenever it has doubled.
    fn tell(&mut self, messages: &Messages) {
        let number = self.number();
        if number == 0 || number < self.told.saturating_mul(2) {
            return;
        }
        let (more, interval) = (units::count(number, "job"), units::show_duration(self.interval));
        messages.warn(format!("{more} came and went between two polls, {interval} apart"));
        if self.told == 0 {
            messages.note(
                "a shorter --interval shows more; bsctl tap shows every job that passes through it",
            );
        }
        self.told = number;
    }

    fn tell_rest(&mut self, messages: &Messages) {
        let number = self.number();
        if number > self.told {
            let more = units::count(number, "job");
            messages.warn(format!("{more} came and went between two polls, and are not shown"));
        }
    }
}

impl Questions for Link {
    type Job = JobStats;
    type Error = CliError;

    fn count(&mut self) -> Result<(String, u64), CliError> {
        let stats = self.call(Stats)?;
        Ok((stats.id, stats.total_jobs))
    }

    fn heads(&mut self) -> Result<Vec<u64>, CliError> {
        heads(self)
    }

    fn existing(&mut self, ids: Range<u64>) -> Result<Vec<(u64, JobStats)>, CliError> {
        let jobs = existing(self, ids.map(Into::into))?;
        Ok(jobs.into_iter().map(|stats| (stats.id.get(), stats)).collect())
    }
}
