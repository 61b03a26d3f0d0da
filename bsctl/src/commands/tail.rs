//! `tail`: jobs as they arrive.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use beanstalk_client::{
    Epoch,
    protocol::{Release, Stats},
};
use beanstalk_client::{Job, JobRef, JobStats, ReleaseOptions, Released, TubeName};
use clap::{Args, ValueEnum};
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::link::absence::Absence;
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::{Wait, Waiting};
use ctl_core::output::{BodiesArgs, Handover, List};
use ctl_core::rules::filter::Filters;
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;

use crate::commands::bury_release::buried_instead;
use crate::error::{NOT_FOUND, cli_error};
use crate::jobs::arrivals::{Arrivals, Questions};
use crate::jobs::leaving::hand_over;
use crate::jobs::scan::{Wanted, existing, fitting, heads};
use crate::jobs::select::{Candidate, SelectArgs, filter_help};
use crate::jobs::taker::{Taker, bury_all, stats_of};
use crate::jobs::{self, PASSING};
use crate::link::{Link, SLICE};
use crate::names::Tube;
use crate::tool::{Tool, tubes_or_watched};
use crate::tube_stats;

/// The end of `tail --help`.
pub const HELP: &str = concat!(
    "\
Protocol: stats, then stats-job and peek for new ids (--action peek); otherwise reserve-with-timeout, stats-job and
release, bury or delete.
peek shows jobs put from now on and changes nothing. beanstalkd does not announce new jobs, so it is polled
(--interval): jobs that come and go between two polls are missed, and counted on stderr; `tap` shows every job that
passes through it. On a server restarted with its log, tail starts after the newest job found.
The other actions reserve ready jobs, which disturbs workers: `reserves` grows. release takes up to 100 jobs at a time
and gives them back, so `releases` grows too and workers may find the tube empty for a moment; bury and delete keep jobs
from workers and ask for confirmation first. A job is deleted once it is written, as `pop` does.
If a server goes away, tail says so and waits for it. With bury and delete, losing the connection while finishing jobs
ends tail, because their state is then unknown. Stop with Ctrl-C.
",
    filter_help!(),
    "

Examples:
  bsctl tail -t mail
  bsctl tail -t mail -t sms --filter 'body~=error' -o ndjson
  bsctl tail -t mail-failed --action delete --yes -o ndjson >> failed.ndjson"
);

/// Arguments of `tail`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tubes [default: all for peek, else default]")))]
pub struct TailArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// What to do with the jobs
    #[arg(long, value_name = "ACTION", default_value = "peek")]
    action: Then,

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

/// The value of `--action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Then {
    /// Only show them.
    Peek,
    /// Reserve and release them.
    Release,
    /// Bury them.
    Bury,
    /// Delete them.
    Delete,
}

impl TailArgs {
    /// Whether it changes nothing.
    #[must_use]
    pub fn only_looks(&self) -> bool {
        self.action == Then::Peek
    }
}

/// Maximum number of jobs taken at once.
const WINDOW: usize = 100;
/// Maximum number of jobs remembered as shown.
const REMEMBERED: usize = 100_000;

/// Runs `tail`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: TailArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("tail", "without --action, it is read-only")?;
    let filters = args.select.read()?;
    if !filters.is_empty() && matches!(args.action, Then::Bury | Then::Delete) {
        return Err(CliError::usage(
            "filters cannot select what is reserved: a job must be reserved before its fields are known",
        )
        .hint("bsctl drain --filter, or bury-all --filter"));
    }
    args.bodies.prepare(&mut tool.out, &PASSING)?;
    let mut tubes = args.tubes.given()?;
    if !args.only_looks() {
        tubes = tubes_or_watched(tool, tubes)?;
    }
    if matches!(args.action, Then::Bury | Then::Delete) {
        let (tubes, address) = (units::which("tube", &tubes), tool.link.dialer.address()?);
        let verb = if args.action == Then::Bury { "bury" } else { "delete" };
        let question = format!("{verb} every job that arrives in {tubes} on {address}");
        tool.confirm().unrehearsed().many(&question, &tool.messages)?;
    }
    let interrupts = tool.interrupts()?;
    let left = args.count.unwrap_or(u64::MAX);
    let wait = Wait::new(&tool.messages, "waiting for jobs", None);
    let waiting = wait.showing(&tool.messages).shown();
    match args.action {
        Then::Peek => {
            let wanted = Wanted { tubes, filters, ..Wanted::default() };
            let list = stream(tool.out.list(&PASSING)?)?;
            let absence = Absence::new(&tool.messages);
            let link = &mut tool.link;
            let missed = Missed { interval: args.interval, ..Missed::default() };
            Looker { link, wanted, list, left, server: None, missed, waiting }.run(
                absence,
                args.interval,
                &interrupts,
            )
        }
        Then::Release => {
            let link = tool.link.side();
            link.watch_only(&tubes)?;
            let list = stream(tool.out.list(&PASSING)?)?;
            let absence = Absence::new(&tool.messages);
            let taker = Taker::new(None, interrupts.clone(), &tool.messages);
            let (epoch, server, shown) = (None, String::new(), BTreeSet::new());
            Passer { link, taker, filters, list, left, epoch, server, shown, waiting }.run(
                absence,
                args.interval,
                &interrupts,
            )
        }
        Then::Bury | Then::Delete => take(tool, &tubes, (args.action, left), waiting, &interrupts),
    }
}

/// A list whose rows are shown as they arrive.
fn stream(list: List<'_>) -> Result<List<'_>, CliError> {
    let list = list.eager();
    if list.streams() {
        return Ok(list);
    }
    Err(CliError::usage("--sort-by cannot be used with tail, which has no end")
        .hint("bsctl jobs --sort-by, for the current jobs"))
}

/// Ends a list that continues until it is interrupted.
fn end(list: List<'_>, interrupts: &Interrupts) -> Result<Exit, CliError> {
    list.finish()?;
    Ok(interrupts.requested().unwrap_or(Exit::Done))
}

/// The delay before the next poll: even with an interval of 0, it must not flood an unreachable server.
fn pause(interval: Duration, is_away: bool) -> Duration {
    if is_away { interval.max(SHORTEST) } else { interval }
}

/// What a person should know when the server's own id has changed.
const RESTARTED: &str = "the server was restarted: its ids may name other jobs now";

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
        self.missed.start(put_counts(self.link, &self.wanted.tubes)?);
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
        end(self.list, interrupts)
    }

    fn look(&mut self, arrivals: &mut Arrivals, messages: &Messages) -> Result<(), CliError> {
        // Counted first: what is put later may be found as well, and is counted by the next poll.
        let counts = put_counts(self.link, &self.wanted.tubes)?;
        let (mut found, mut was_restarted) = (0, false);
        arrivals.look(self.link, |link, server, jobs| {
            if self.server.as_deref() != Some(server) {
                messages.note(RESTARTED);
                self.server = Some(server.to_owned());
                was_restarted = true;
            }
            let tubes = &self.wanted.tubes;
            let is_of_tubes = |job: &&JobStats| tubes.is_empty() || tubes.contains(&job.tube);
            found += jobs.iter().filter(is_of_tubes).count() as u64;
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

/// Takes jobs, shows them, and gives them back.
struct Passer<'a> {
    link: &'a mut Link,
    taker: Taker,
    filters: Filters,
    list: List<'a>,
    left: u64,
    /// The connection that the last jobs came by.
    epoch: Option<Epoch>,
    /// The server's own id, which changes with a restart.
    server: String,
    /// The ids that were shown.
    shown: BTreeSet<u64>,
    waiting: Waiting,
}

impl Passer<'_> {
    fn run(
        mut self,
        mut absence: Absence,
        interval: Duration,
        interrupts: &Interrupts,
    ) -> Result<Exit, CliError> {
        let mut is_away = false;
        while self.left > 0 && interrupts.requested().is_none() {
            // Its return is reported before its jobs.
            is_away = is_away && absence.settle(self.link.call(Stats))?.is_none();
            if !is_away {
                let passed = self.pass(absence.messages());
                is_away = absence.settle(passed)?.is_none();
            }
            let pause = pause(interval, is_away);
            if self.left > 0 && self.waiting.sleep(interrupts, pause, "").is_err() {
                break;
            }
        }
        drop(self.waiting);
        end(self.list, interrupts)
    }

    fn pass(&mut self, messages: &Messages) -> Result<(), CliError> {
        let taken = self.taker.next(self.link, WINDOW, &[])?;
        self.note_restart(messages)?;
        let stats = stats_of(self.link, &taken)?;
        // Give back before waiting for the output.
        self.release(&taken, &stats, messages)?;
        for (job, stats) in taken.iter().zip(&stats) {
            self.show(job, stats.as_ref())?;
        }
        self.list.flush()
    }

    /// A server that was restarted between two looks was never missed, and gives its ids anew.
    fn note_restart(&mut self, messages: &Messages) -> Result<(), CliError> {
        let epoch = Some(self.link.client()?.epoch());
        if epoch == self.epoch {
            return Ok(());
        }
        let server = self.link.call(Stats)?.id;
        if self.epoch.is_some() && server != self.server {
            messages.note(RESTARTED);
            self.shown.clear();
        }
        (self.epoch, self.server) = (epoch, server);
        Ok(())
    }

    fn release(
        &mut self,
        jobs: &[Job],
        stats: &[Option<JobStats>],
        messages: &Messages,
    ) -> Result<(), CliError> {
        let releases: Result<Vec<Release>, _> = jobs
            .iter()
            .zip(stats)
            .map(|(job, stats)| {
                let pri = stats.as_ref().map(|stats| stats.pri).unwrap_or_default();
                Release::new(job, ReleaseOptions::new(pri)).map_err(cli_error)
            })
            .collect();
        for (job, reply) in jobs.iter().zip(self.link.pipeline(releases?)?) {
            match reply {
                Ok(Released::Queued) => {}
                Ok(Released::Buried) => messages.warn(buried_instead(job.id).message),
                // Its time had expired.
                Err(error) if error.code == NOT_FOUND => {}
                // The end of the connection has made it ready again if the release has not.
                Err(error) if error.exit == Exit::Unknown => {
                    return Err(CliError::unavailable(error.message));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn show(&mut self, job: &Job, stats: Option<&JobStats>) -> Result<(), CliError> {
        let fits = |stats: &JobStats| {
            self.filters.fit(&Candidate { stats, body: Some(job.body.as_ref()) })
        };
        if self.left == 0 || !stats.is_none_or(fits) || !self.shown.insert(job.id.get()) {
            return Ok(());
        }
        if self.shown.len() > REMEMBERED {
            self.shown.pop_first();
        }
        self.left -= 1;
        self.waiting.over();
        self.list.push(jobs::record_with_body(job.id, stats, &job.body))
    }
}

/// Takes every arriving job for good.
fn take(
    tool: &mut Tool,
    tubes: &[TubeName],
    (then, mut left): (Then, u64),
    mut waiting: Waiting,
    interrupts: &Interrupts,
) -> Result<Exit, CliError> {
    let past = if then == Then::Bury { "buried" } else { "deleted" };
    let action = Action { past, noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, OnError::Continue, None)?;
    let is_shown = tool.out.style.terminal;
    let messages = tool.messages.clone();
    let link = tool.link.side();
    let mut absence = Absence::new(&messages);
    absence.settle(link.watch_only(tubes))?;
    let list = stream(tool.out.list(&PASSING)?)?;
    bulk.beside(&list);
    let mut sink = match then {
        Then::Delete => Sink::Leaving(Handover::new(list, interrupts.clone(), &tool.messages)?),
        _ => Sink::Shown(list),
    };
    while left > 0 && interrupts.requested().is_none() {
        let taker = Taker::new(Some(SLICE), interrupts.clone(), &tool.messages);
        let most = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW);
        let taken = taker.next(link, sink.window(most), &[]);
        let Some(taken) = absence.settle(taken)? else {
            // A signal ends the loop.
            let _ = interrupts.sleep(SHORTEST);
            continue;
        };
        if taken.is_empty() {
            // Away from the terminal, jobs are counted.
            if is_shown {
                waiting.see("");
            } else {
                bulk.see();
            }
            continue;
        }
        waiting.over();
        left -= taken.len() as u64;
        let taken = sink.take(link, &taken, &mut bulk);
        bulk = bulk.after(taken)?;
    }
    drop(waiting);
    let ended = match sink {
        Sink::Leaving(mut out) => out.finish(&mut |_| Ok(())),
        Sink::Shown(list) => list.finish(),
    };
    bulk.after(ended)?.finish_quietly()
}

/// Where taken jobs go.
enum Sink<'a> {
    /// Written first, then deleted.
    Leaving(Handover<'a, JobRef>),
    /// Written first, then buried.
    Shown(List<'a>),
}

impl Sink<'_> {
    fn window(&mut self, most: usize) -> usize {
        match self {
            Self::Leaving(out) => out.window(most),
            Self::Shown(_) => most,
        }
    }

    fn take(&mut self, link: &mut Link, taken: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        match self {
            Self::Leaving(out) => hand_over(link, out, taken, false, bulk),
            Self::Shown(list) => {
                let stats = stats_of(link, taken)?;
                for (job, stats) in taken.iter().zip(&stats) {
                    list.push(jobs::record_with_body(job.id, stats.as_ref(), &job.body))?;
                }
                list.flush()?;
                bury_all(link, taken, &stats, bulk)
            }
        }
    }
}
