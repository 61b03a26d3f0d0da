//! `run`: foreground jobs, and their results as they arrive.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ctl_core::bulk::{Action, Bulk};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::would;
use ctl_core::link::Link as _;
use ctl_core::program::LONGER;
use ctl_core::repl::guest::lock;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionStatus};

use super::submit::connect;
use crate::link::{Answer, LOOK, Link, or_near};
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
    let (running, look) = match start(tool, args)? {
        ControlFlow::Continue(started) => started,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    running.follow(tool).map_err(|error| match &look {
        Some(Look { function, .. })
            if error.exit == Exit::Timeout && is_unserved(tool.link.sibling(), function, LOOK) =>
        {
            unserved(error, &show_function(function), tool.messages.is_terminal())
        }
        _ => tool.link.naming_silent(error),
    })
}

/// Jobs whose events are still arriving, with a look at the function of all of them, if they have one; or the exit of a
/// dry run.
pub type Started = ControlFlow<Exit, (Running, Option<Look>)>;

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
    let look = wanted.common_function().map(|function| Look::begin(tool, function)).transpose()?;
    Ok(ControlFlow::Continue((begin(tool, results, &wanted, tasks)?, look)))
}

/// A look at whether a worker serves a function, which goes on while jobs of it run.
pub struct Look {
    function: FunctionName,
    /// Whether its note is still wanted.
    is_wanted: Arc<Mutex<bool>>,
}

/// Nobody waits for it.
const LOOKING: Duration = Duration::from_secs(60);

impl Look {
    /// Says that no worker serves the function, usually because of a misspelt name: at the start, if the server answers
    /// at once, because the job's own time is not for this.
    fn begin(tool: &mut Tool, function: &FunctionName) -> Result<Self, CliError> {
        let (mut link, messages) = (tool.link.behind(), tool.messages.clone());
        let (is_wanted, (tell, told)) = (Arc::new(Mutex::new(true)), mpsc::channel());
        let look = Self { function: function.clone(), is_wanted: Arc::clone(&is_wanted) };
        let function = function.clone();
        let looking = move || {
            let is_unserved = is_unserved(link.behind(), &function, LOOKING);
            if is_unserved {
                let (name, meant) = (show_function(&function), or_near(&mut link, &function));
                let is_wanted = lock(&is_wanted);
                if *is_wanted {
                    messages.note(format!(
                        "no worker serves {name}{meant}: waiting for one; Ctrl-C stops"
                    ));
                }
            }
            drop(link);
            let _ = tell.send(is_unserved);
        };
        // Without a thread, only a job that is late says so.
        let _ = thread::Builder::new().name("looking".to_owned()).spawn(looking);
        if told.recv_timeout(LOOK) == Ok(true) {
            // From here on, Ctrl-C ends the command as it should.
            tool.interrupts()?;
        }
        Ok(look)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        *lock(&self.is_wanted) = false;
    }
}

/// Whether the only server reports within this time that no worker serves this function.
fn is_unserved(mut link: Link, function: &FunctionName, within: Duration) -> bool {
    if link.dialer.options().is_ok_and(|all| all.len() > 1) {
        return false;
    }
    link.dialer.bound(Some(within));
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
    let clients = clients?;
    // The time that it took to find a server that answers is a part of that of the only job.
    let limit = tool.link.dialer.timeout().filter(|_| wanted.is_single());
    let kind = Kind::Foreground { since: limit.map(|limit| (start, limit)) };
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
    let bulk = Bulk::start(action, &wanted.args.pace.items, None, interrupts, &messages);
    let guard = Guard::new(&mut tool.link, &tool.messages)?;
    wanted.require_free(&guard)?;
    let kept = results.kept_in_order();
    let pool = Pool::start(clients, tasks, kind, kept, (&bulk.gate(), guard))?;
    Ok(Running::new(wanted.place(), shape, pool, bulk))
}
