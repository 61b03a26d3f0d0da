//! `submit`: background jobs.

use std::time::{Duration, SystemTime};

use clap::Args;
use ctl_core::bulk::{Action, Manner};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::would;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;
use gearman_client::Priority;
use gearman_client::blocking::Client;

use crate::names::{show_handle_of, show_unique};
use crate::submit::merged::Guard;
use crate::submit::pool::{Kind, Pool, What};
use crate::submit::tasks::{TaskArgs, Tasks, Wanted};
use crate::tool::Tool;

/// The end of `submit --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB_BG, SUBMIT_JOB_HIGH_BG, SUBMIT_JOB_LOW_BG; SUBMIT_JOB_EPOCH with --at and --delay;
`show jobs` before jobs with ids of your own, to find those that the server merges with one that it skips.
Prints the handle of each job once the server has accepted it; with several servers, as SERVER//HANDLE. Those that do
not answer get no job, and are named. The server keeps no results of background jobs:
`wait --for handle-done=HANDLE --assume-done` notices when one ends, not how; `run` waits for results.
With --ndjson, each record may name its own function; FUNCTION is for those that name none, and otherwise not needed.
In servers up to 1.1, a job whose time has come does not wake a worker; it runs the next time a worker asks for jobs.

Examples:
  gearctl submit mail @letter.eml
  gearctl submit resize --lines -j 4 < files
  gearctl submit --ndjson < jobs.ndjson
  gearctl submit report --delay 1h now";

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    #[command(flatten)]
    task: TaskArgs,

    /// Run no earlier than this time, e.g. 2026-12-24T18:00:00Z, or seconds since 1970
    #[arg(hide_short_help = true, long, value_name = "TIME", conflicts_with = "delay", value_parser = units::point)]
    at: Option<SystemTime>,

    /// Run no earlier than after this delay
    #[arg(short, long, alias = "in", value_name = "DUR", value_parser = units::duration)]
    delay: Option<Duration>,
}

/// The time after this delay; without one, a job that is to run never would run at once.
fn from_now(delay: Duration) -> Result<SystemTime, CliError> {
    let too_long = || CliError::usage("the delay is too long");
    SystemTime::now().checked_add(delay).ok_or_else(too_long)
}

pub(super) static SUBMITTED: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE").escaped(),
        Column::on_request("unique", "UNIQUE").escaped(),
        Column::on_request("n", "N"),
    ],
);

/// Runs `submit`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: SubmitArgs) -> Result<Exit, CliError> {
    let at = args.delay.map(from_now).transpose()?.or(args.at);
    if at.is_some() && (args.task.priority != Priority::Normal || args.task.reduce.is_some()) {
        let text = "jobs scheduled for later have normal priority and no reducer";
        return Err(CliError::usage(text));
    }
    tool.out.expect(&SUBMITTED)?;
    let wanted = args.task.read()?;
    let tasks = wanted.tasks((&mut tool.input, &tool.messages), None)?;
    if tool.globals.dry_run {
        return would(&mut tool.out, tasks, ("submit", "job", ""));
    }
    let clients = connect(tool, &wanted)?;
    wanted.note_first_body(&mut tool.link, &tool.messages);
    let place = format!("to {}", wanted.place());
    let action = Action { past: "submitted", noun: "job", place };
    let guard = Guard::new(&mut tool.link, &tool.messages)?;
    let submission = Submission { tasks, at, is_single: wanted.is_single(), guard };
    let submitted = submit_all(tool, clients, submission, action, &wanted.args.pace.items);
    submitted.map_err(|error| tool.link.naming_silent(error))
}

/// Background jobs.
pub(super) struct Submission {
    pub(super) tasks: Tasks,
    /// The earliest time to run.
    pub(super) at: Option<SystemTime>,
    /// Whether there is exactly one.
    pub(super) is_single: bool,
    /// Finds those that never run.
    pub(super) guard: Guard,
}

/// Submits jobs and prints their handles.
pub(super) fn submit_all(
    tool: &mut Tool,
    clients: Vec<Client>,
    submission: Submission,
    action: Action,
    pace: impl Into<Manner>,
) -> Result<Exit, CliError> {
    let Submission { tasks, at, is_single, guard } = submission;
    let mut bulk = tool.bulk(action, pace, None)?;
    let kind = Kind::Background { at };
    let mut pool = Pool::start(clients, tasks, kind, None, (&bulk.gate(), guard))?;
    let is_several = tool.link.is_several();
    tool.out.style.prefer_names();
    let mut list = tool.out.list(&SUBMITTED)?;
    bulk.beside(&list);
    // A signal closes the gate, but what is in flight still arrives.
    while let Some(news) = pool.next(&Interrupts::none())? {
        let outcome = match news.what {
            What::Taken(handle, unique, _) => {
                bulk.success();
                let record = Record::new()
                    .with("handle", show_handle_of(&handle, is_several))
                    .with("unique", unique.as_ref().map(show_unique))
                    .with("n", news.job);
                list.push(record)
            }
            What::Error(error) => match bulk.failure(news.label, error) {
                Err(error) if is_single => return Err(error),
                other => other,
            },
            What::Event(_) => Ok(()),
        };
        bulk = bulk.after(outcome)?;
    }
    let exit = bulk.finish_list(Ok(()), list)?;
    tool.out.flush()?;
    Ok(exit)
}

/// The connections: one, or as many as jobs may run concurrently.
pub(super) fn connect(tool: &mut Tool, wanted: &Wanted) -> Result<Vec<Client>, CliError> {
    clients(tool, if wanted.is_single() { 1 } else { wanted.args.pace.jobs })
}

/// This number of connections.
pub(super) fn clients(tool: &mut Tool, count: u16) -> Result<Vec<Client>, CliError> {
    (0..count).map(|_| tool.link.open_client()).collect()
}
