//! `drain`: takes the queued jobs of functions, as a worker that writes them as records before it ends them.

pub mod clear;
pub mod relocate;
mod slots;
mod waiting;

use std::ffi::{OsStr, OsString};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use ctl_core::bulk::{Action, Bulk};
use ctl_core::context::fleet::{Answered, Fleet, name_at};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::tell_unmatched;
use ctl_core::input::named::Several;
use ctl_core::output::{Column, Handover, Record, Shape, records};
use ctl_core::rules::filter::{self, FilterArgs, Filters};
use ctl_core::text::units;
use gearman_client::{FunctionName, FunctionStatus};

use crate::error::UNSUPPORTED;
use crate::filters::{Candidate, FILTER};
use crate::link::{Link, statuses};
use crate::names::{Function, show_function};
use crate::submit::tasks::PaceArgs;
use crate::tool::Tool;
use relocate::Resubmit;
use slots::{News, Slots, Taken};

/// The end of `drain --help`.
pub const HELP: &str = "\
Protocol: status, show unique jobs, show jobs, GET_STATUS_UNIQUE; CAN_DO, GRAB_JOB_UNIQ, WORK_COMPLETE or WORK_FAIL.
drain acts as a worker. A job is ended once its record has arrived: in a file, when it is on disk; in a pipe, when the
reader has read it. So an interruption, a full disk or a closed pipe loses nothing: at worst, a job is both in the file
and in the queue. If the reader of a pipe does not read a job, drain waits, and says so after 10 s; only the last one is
ended regardless. With more connections (-j), more jobs share one disk sync. The records are in the format that `import`
reads; the server does not report a job's priority. `clear` removes jobs without writing them.
Clients may be waiting for the results of foreground jobs. While there is such a job, nothing is drained, unless --as
fail tells those clients that their job failed, or --background-only skips such jobs: they are given back at the end,
which counts as a retry, so a server with --job-retries may drop them. Servers other than gearmand do not report which
jobs clients wait for: there, only --as fail works.
Drains as many jobs as are queued at the start; --until-empty continues until there are none. Running jobs and jobs
scheduled for later stay. Asks for confirmation; --yes skips it.
With filters, all jobs are taken, but only those that match are drained; the others are given back, which needs gearmand.
Filters: see `gearctl help filters`.

Examples:
  gearctl drain mail --to mail.ndjson --yes && gearctl import mail.ndjson
  gearctl drain mail --filter 'unique==order-7' --to order-7.ndjson --yes
  gearctl drain mail --as fail --to mail.ndjson --yes";

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    functions: Several<Function>,

    /// New file to write, or - for stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: OsString,

    #[command(flatten)]
    end: EndArgs,

    #[command(flatten)]
    take: TakeArgs,
}

/// How taken jobs are ended.
#[derive(Debug, Args)]
struct EndArgs {
    /// How to end the jobs [default: complete]
    #[arg(long = "as", value_name = "HOW")]
    end: Option<End>,
}

/// How jobs are taken.
#[derive(Debug, Args)]
#[command(mut_args(filter::described(FILTER)))]
pub(super) struct TakeArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// Skip jobs that clients wait for
    #[arg(long)]
    background_only: bool,

    /// Continue until empty, including jobs submitted in the meantime
    #[arg(long)]
    until_empty: bool,

    #[command(flatten)]
    pace: PaceArgs,
}

impl TakeArgs {
    /// Number of jobs that will be drained.
    fn total(&self, targets: &[Target]) -> u64 {
        let queued: u64 = targets.iter().map(|target| target.queued).sum();
        queued.min(self.pace.items.count.unwrap_or(u64::MAX))
    }
}

/// The value of `--as`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum End {
    /// With an empty result.
    Complete,
    /// As failed, also those that clients wait for.
    Fail,
}

pub(super) static RECORDS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE").escaped(),
        Column::new("function", "FUNCTION").escaped(),
        Column::new("unique", "UNIQUE").escaped(),
        Column::new("body", "BODY"),
    ],
);

/// A function with the numbers of its queued jobs and of its workers.
pub(super) struct Target {
    /// The server, if there are several.
    pub(super) server: Option<String>,
    pub(super) function: FunctionName,
    /// Whether the server knows the function.
    exists: bool,
    pub(super) queued: u64,
    pub(super) workers: i64,
}

impl Target {
    pub(super) fn name(&self) -> String {
        name_at(show_function(&self.function), self.server.as_deref())
    }
}

/// What happens to a taken job before it is ended: its record is written, or it is submitted again, if anything.
struct Way<'a> {
    write: Option<Handover<'a, Taken>>,
    submit: Option<Resubmit>,
}

/// Runs `drain`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: DrainArgs) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, &args.to, &RECORDS)?;
    let what = Removal::of("drain", "drained", args.functions.names()?);
    remove(tool, what, (args.end, &args.take), Some(&args.to), |_| Ok(None))
}

/// The purpose for which jobs of functions are removed.
struct Removal {
    verb: &'static str,
    past: &'static str,
    functions: Vec<FunctionName>,
    /// Where they go, if that is another function.
    place: String,
    /// Advice about clients that wait for jobs.
    advice: &'static str,
}

impl Removal {
    fn of(verb: &'static str, past: &'static str, functions: Vec<FunctionName>) -> Self {
        Self { verb, past, functions, place: String::new(), advice: AS_FAIL }
    }
}

/// Advice about clients that wait for jobs which do not stay.
const AS_FAIL: &str = "--as fail, to tell the clients that their jobs failed";

/// Removes jobs, whose records are written `to` this file first; `prepare` connects to where they are submitted again.
fn remove(
    tool: &mut Tool,
    Removal { verb, past, functions, place, advice }: Removal,
    (end, take): (EndArgs, &TakeArgs),
    to: Option<&OsStr>,
    prepare: impl FnOnce(&mut Tool) -> Result<Option<Resubmit>, CliError>,
) -> Result<Exit, CliError> {
    let filters = take.filter.read::<Candidate<'_>>()?;
    if !filters.is_empty() {
        let hint = "gearctl export --filter, which gives every job back";
        tool.refuse_dry_run(&format!("{verb} --filter"), hint)?;
    }
    let (end, mut fleet) = (end.end.unwrap_or(End::Complete), Fleet::of(tool)?);
    let targets = targets(tool, &mut fleet, &functions)?;
    let total = take.total(&targets);
    let what = describe(&targets, take.pace.items.count);
    if tool.globals.dry_run {
        let record = Record::new().with("dry_run", true).with("jobs", total);
        return tool.out.done_with(&record, &["jobs"], &format!("would {verb} {what}{place}"));
    }
    let submit = prepare(tool)?;
    let mut question = match filters.is_empty() {
        true => format!("{verb} {what}"),
        false => format!("{verb} those matching {filters} of {what}"),
    };
    if !fleet.is_several() {
        question.push_str(&format!(" on {}", tool.link.dialer.address()?));
    }
    question.push_str(&place);
    let advised = |error| waiting::advised(error, advice);
    agree(tool, (&mut fleet, &targets), (take, &filters), end, &question).map_err(advised)?;
    let interrupts = tool.interrupts()?;
    let names: Vec<String> = functions.iter().map(show_function).collect();
    let action = Action { past, noun: "job", place: format!("of {}{place}", names.join(", ")) };
    let mut bulk = tool.bulk(action, &take.pace.items, Some(total))?;
    let mut file = to.map(|to| records::create(to, &tool.out.style)).transpose()?.flatten();
    let removed = {
        let mut write = None;
        if to.is_some() {
            let list = fleet.list(file.as_mut().unwrap_or(&mut tool.out), &RECORDS)?;
            bulk.beside(&list);
            write = Some(Handover::new(list, interrupts, &tool.messages)?);
        }
        let (fleet, own, gate) = (&mut fleet, &mut tool.link, bulk.gate());
        let mut slots = Slots { fleet, own, args: take, end, filters, gate };
        drain(&mut slots, &targets, &mut bulk, Way { write, submit })
    };
    let bulk = bulk.after(removed.map_err(advised))?;
    let exit = match to {
        Some(_) => bulk.finish_beside(file.as_ref(), &mut tool.out)?,
        None => bulk.finish(&mut tool.out)?,
    };
    Ok(if exit.is_done() { fleet.exit() } else { exit })
}

/// Refuses to take jobs that clients wait for, and asks for confirmation.
fn agree(
    tool: &mut Tool,
    (fleet, targets): (&mut Fleet<Link>, &[Target]),
    (take, filters): (&TakeArgs, &Filters),
    end: End,
    question: &str,
) -> Result<(), CliError> {
    let mut servers: Vec<Option<&str>> =
        targets.iter().map(|target| target.server.as_deref()).collect();
    servers.dedup();
    for server in servers {
        let link = fleet.at(&mut tool.link, server);
        if !filters.is_empty() && !link.is_gearmand()? {
            let why = "the server is not gearmand: it loses the jobs of a worker that disconnects";
            let error = CliError::new(Exit::Negative, UNSUPPORTED, why);
            return Err(error.hint("without --filter into a file, and import the jobs to keep"));
        }
        let looked = match end {
            _ if take.background_only => waiting::require_lookout(link),
            End::Complete => waiting::refuse(link),
            End::Fail => Ok(()),
        };
        looked.map_err(|error| match server {
            Some(server) => error.context(server),
            None => error,
        })?;
    }
    if take.total(targets) > 0 || take.until_empty {
        tool.confirm().many(question, &tool.messages)?;
    }
    Ok(())
}

/// Counts the queued jobs and the workers of functions, server by server.
pub(super) fn targets(
    tool: &mut Tool,
    fleet: &mut Fleet<Link>,
    functions: &[FunctionName],
) -> Result<Vec<Target>, CliError> {
    let all = fleet.ask(&mut tool.link, statuses)?;
    let of = |(server, rows): &Answered<Vec<FunctionStatus>>| {
        let target = |function: &FunctionName| {
            let status = rows.iter().find(|row| row.name == *function);
            Target {
                server: server.clone(),
                function: function.clone(),
                exists: status.is_some(),
                queued: u64::try_from(status.map_or(0, FunctionStatus::queued)).unwrap_or(0),
                workers: status.map_or(0, |status| status.workers),
            }
        };
        functions.iter().map(target).collect::<Vec<_>>()
    };
    let known = all.iter().flat_map(|(_, rows)| rows.iter().map(|row| show_function(&row.name)));
    let (known, wanted): (Vec<_>, Vec<_>) =
        (known.collect(), functions.iter().map(show_function).collect());
    tell_unmatched(&tool.messages, "functions", &wanted, known.iter().map(String::as_str));
    Ok(all.iter().flat_map(of).collect())
}

fn describe(targets: &[Target], limit: Option<u64>) -> String {
    let each: Vec<String> = targets
        .iter()
        .map(|target| format!("{} of {}", units::count(target.queued, "job"), target.name()))
        .collect();
    match limit {
        Some(limit) => format!("at most {limit} among {}", each.join(", ")),
        None => each.join(", "),
    }
}

fn drain(
    slots: &mut Slots<'_>,
    targets: &[Target],
    bulk: &mut Bulk,
    mut way: Way<'_>,
) -> Result<(), CliError> {
    let args = slots.args;
    let mut left = args.pace.items.count.unwrap_or(u64::MAX);
    for target in targets {
        let most = if args.until_empty { left } else { target.queued.min(left) };
        // A worker's function exists on gearmand from then on.
        if most == 0 || !target.exists || !bulk.gate().is_open() {
            continue;
        }
        let all_news = slots.start(target, (most, args.until_empty))?;
        while let Some(news) = next(&all_news, &mut way, bulk)? {
            match news {
                News::Taken(job) => {
                    left = left.saturating_sub(1);
                    // Unless it continues, the slot gives the job back.
                    if let Some(resubmit) = &mut way.submit {
                        resubmit.submit(&job)?;
                    }
                    match &mut way.write {
                        Some(handover) => {
                            let record = job.record(&target.function);
                            let record = record.of_server(target.server.as_deref());
                            let name = format!("job {}", job.handle);
                            handover.push(record, name, job, &mut go_on)?;
                        }
                        None => job.go_on(),
                    }
                }
                News::Ended => bulk.success(),
                News::LeftAlone => bulk.skip(),
                News::Unconfirmed(jobs) => bulk.doubt(jobs),
                News::Failed(handle, error) => bulk.failure(handle, error)?,
                News::Broken(error) => return Err(error),
            }
        }
    }
    way.write.map_or(Ok(()), |mut handover| handover.finish(&mut go_on))
}

/// How often a wait for the slots is shown.
const SLICE: Duration = Duration::from_millis(100);

/// The next event of the slots. While there is none, all slots wait for their jobs to be safe.
fn next(
    news: &Receiver<News>,
    way: &mut Way<'_>,
    bulk: &mut Bulk,
) -> Result<Option<News>, CliError> {
    if let Ok(news) = news.try_recv() {
        return Ok(Some(news));
    }
    if let Some(handover) = &mut way.write {
        handover.settle(&mut go_on)?;
    }
    loop {
        match news.recv_timeout(SLICE) {
            Ok(news) => return Ok(Some(news)),
            Err(RecvTimeoutError::Timeout) => bulk.see(),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

fn go_on(jobs: Vec<Taken>) -> Result<(), CliError> {
    for job in jobs {
        job.go_on();
    }
    Ok(())
}
