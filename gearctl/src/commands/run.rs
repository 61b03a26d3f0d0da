//! `run`: foreground jobs, and their results as they arrive.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use clap::Args;
use ctl_core::bulk::{Action, Bulk};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::would;
use ctl_core::link::Link as _;
use ctl_core::program::LONGER;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionStatus};

use super::submit::connect;
use crate::link::{Answer, LOOK, or_near};
use crate::names::show_function;
use crate::submit::merged::Guard;
use crate::submit::pool::{Kind, Pool};
use crate::submit::results::{ResultArgs, Shape};
use crate::submit::running::Running;
use crate::submit::tasks::{TaskArgs, Tasks, Wanted};
use crate::tool::Tool;

/// The end of `run --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB, SUBMIT_JOB_HIGH, SUBMIT_JOB_LOW.
Results go to stdout byte for byte, and data as it arrives (with -j, once each job has ended; with --ordered, only for
the first unfinished job). Warnings and exceptions go to stderr; the worker's status is a progress bar on a terminal. -o
ndjson prints every event as a record, -o json the outcome. If the job failed, the exit code is 1; if only some of
several failed, 3. --timeout limits each job; there is no limit otherwise, and a function without workers is only noted:
`gearctl wait --for 'workers>0' -f FUNCTION --timeout 1s` fails if no worker serves it.
Data that cannot be streamed is buffered: with -o json, and with -j each job's data. A result larger than --max-result
is an error (exit 65). With --ordered, results are buffered up to that size, and anything beyond it waits at the server.

Examples:
  gearctl run wc < file
  gearctl run reverse 'some text' --timeout 10s
  gearctl run resize --lines -j 8 -o ndjson < files";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,

    #[command(flatten)]
    results: ResultArgs,
}

/// Runs `run`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RunArgs) -> Result<Exit, CliError> {
    let (running, function) = match start(tool, args)? {
        ControlFlow::Continue(started) => started,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    running.follow(tool).map_err(|error| match function {
        Some(function) if error.exit == Exit::Timeout && is_unserved(tool, &function) => {
            unserved(error, &show_function(&function), tool.messages.is_terminal())
        }
        _ => tool.link.naming_silent(error),
    })
}

/// Jobs whose events are still arriving, with the function of all of them, if they have one; or the exit of a dry run.
pub type Started = ControlFlow<Exit, (Running, Option<FunctionName>)>;

/// Submits the jobs without waiting for anything.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn start(tool: &mut Tool, args: RunArgs) -> Result<Started, CliError> {
    let timeout = tool.link.dialer.timeout();
    let RunArgs { task, results } = args;
    let wanted = task.read()?;
    let tasks = wanted.tasks((&mut tool.input, &tool.messages), timeout)?;
    if tool.globals.dry_run {
        return would(&mut tool.out, tasks, ("run", "job", "")).map(ControlFlow::Break);
    }
    wanted.note_first_body(&mut tool.link, &tool.messages);
    if let Some(function) = wanted.common_function() {
        note_missing_worker(tool, function)?;
    }
    let running = begin(tool, results, &wanted, tasks)?;
    Ok(ControlFlow::Continue((running, wanted.common_function().cloned())))
}

/// Says at the start that no worker serves the function, usually because of a misspelt name.
fn note_missing_worker(tool: &mut Tool, function: &FunctionName) -> Result<(), CliError> {
    if is_unserved(tool, function) {
        let name = show_function(function);
        let meant = or_near(&mut tool.link, function);
        // From here on, Ctrl-C ends the command as it should.
        tool.interrupts()?;
        tool.messages
            .note(format!("no worker serves {name}{meant}: waiting for one; Ctrl-C stops"));
    }
    Ok(())
}

/// Whether the only server reports at once that no worker serves this function: the job's own time is not for this.
fn is_unserved(tool: &mut Tool, function: &FunctionName) -> bool {
    if tool.link.dialer.options().is_ok_and(|all| all.len() > 1) {
        return false;
    }
    let mut link = tool.link.sibling();
    link.dialer.bound(Some(LOOK));
    let Ok(Answer::Came(all)) = link.probe_listing::<FunctionStatus>(&AdminCommand::Status) else {
        return false;
    };
    all.iter().find(|row| row.name == *function).is_none_or(|row| row.workers == 0)
}

/// The error for a job that no worker took; a terminal showed that at the start. More time helps only with a worker.
fn unserved(mut error: CliError, name: &str, is_told: bool) -> CliError {
    error.hints.retain(|hint| hint != LONGER);
    let error = error.hint(format!("a worker of {name}: gearctl work --help"));
    if is_told { error } else { error.remark(format!("(no worker serves {name})")) }
}

/// The least time for a job, however long it took to find its server.
const LEAST: Duration = Duration::from_millis(1);

fn begin(
    tool: &mut Tool,
    results: ResultArgs,
    wanted: &Wanted,
    tasks: Tasks,
) -> Result<Running, CliError> {
    let usual = tool.link.dialer.clone();
    if tool.session.is_some() {
        tool.link.dialer.outlive();
    }
    let start = Instant::now();
    let clients = connect(tool, wanted);
    tool.link.dialer = usual;
    let (clients, spent) = (clients?, start.elapsed());
    // The time that it took to find a server that answers is a part of that of the only job.
    let tasks: Tasks = match tool.link.dialer.timeout().filter(|_| wanted.is_single()) {
        Some(limit) => {
            let left = limit.saturating_sub(spent).max(LEAST);
            Box::new(tasks.map(move |task| task.map(|task| task.within(left))))
        }
        None => tasks,
    };
    let encoding = tool.out.style.encoding();
    let shape = Shape {
        single: wanted.is_single(),
        several: tool.link.is_several(),
        // With ordered results, one job has its turn at a time.
        streams: (clients.len() == 1 || results.ordered) && !encoding.is_of_a_whole(),
        null: wanted.args.null,
        most: results.most(),
    };
    // A single job needs no count: its worker reports its progress.
    let messages = match shape.single {
        true => tool.messages.without_progress(),
        false => tool.messages.clone(),
    };
    let action = Action { past: "ran", noun: "job", place: String::new() };
    let interrupts = tool.interrupts()?;
    let bulk = Bulk::start(action, &wanted.args.pace, None, interrupts, &messages);
    let guard = Guard::new(&mut tool.link, &tool.messages)?;
    wanted.require_free(&guard)?;
    let kept = results.kept_in_order();
    let pool = Pool::start(clients, tasks, Kind::Foreground, kept, (&bulk.gate(), guard))?;
    Ok(Running::new(wanted.place(), shape, pool, bulk))
}
