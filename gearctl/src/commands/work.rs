//! `work`: a worker that runs a command, or a built-in handler, for every job.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use ctl_core::commands::work::{self, Crew as _, Supervisor, WorkFlags};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::link::Link as _;
use ctl_core::output::messages::Messages;
use ctl_core::output::{Record, Shape};
use ctl_core::system::process;
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;
use gearman_client::blocking::Worker;
use gearman_client::{ClientId, JobLimit, WorkerOptions, WorkerReport};

use crate::error::cli_error;
use crate::names::Function;
use crate::tool::Tool;
use crate::work::child::{PLACES, Recipe, Stream};
use crate::work::{Fate, Finished, Handler, Shift, builtin::Builtin};

/// The end of `work --help`.
pub const HELP: &str = "\
Protocol: CAN_DO, GRAB_JOB_ALL, PRE_SLEEP, WORK_COMPLETE, WORK_FAIL, WORK_EXCEPTION, WORK_DATA, WORK_WARNING.
The command gets the workload on stdin (or with --file or --arg); what it writes to stdout is the result. Exit 0
completes the job, any other code or a signal fails it. {handle}, {function} and {file} in arguments are
replaced. The environment has GEARCTL_HANDLE, GEARCTL_FUNCTION, GEARCTL_UNIQUE and GEARCTL_REDUCER. If a command cannot
be started, its job is given back and the worker exits (126, 127).
`gearctl help workers` says how commands run, where their output goes, and what signals do.
The gearman command-line client, at least up to version 1.1, waits forever for a job that ends with an exception: serve
it without --exception-from-stderr.

Examples:
  gearctl work -f wc --exec wc -l
  gearctl work -f resize -j 4 --exec convert - -resize 50% png:-
  gearctl work -f echo --builtin echo -c 10";

/// Arguments of `work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    #[command(flatten)]
    functions: Several<Function>,

    #[command(flatten)]
    flags: WorkFlags,

    /// Handler for tests: echo, sleep=DUR, fail
    #[arg(long, value_name = "NAME", group = "handler")]
    builtin: Option<Builtin>,

    /// Client id shown in `gearctl workers`
    #[arg(hide_short_help = true, long, value_name = "ID")]
    client_id: Option<String>,

    /// Stream output while the command runs
    #[arg(hide_short_help = true, long, value_name = "HOW")]
    stream: Option<Stream>,

    /// Send lines of stderr as warnings
    #[arg(hide_short_help = true, long)]
    warnings: bool,

    /// Treat stderr lines starting with TEXT as progress, e.g. `STATUS 3/10` with --status-prefix STATUS
    #[arg(hide_short_help = true, long, value_name = "TEXT")]
    status_prefix: Option<String>,

    /// Fail with the end of stderr as an exception
    #[arg(hide_short_help = true, long)]
    exception_from_stderr: bool,

    /// Let the server reassign a job that takes longer (CAN_DO_TIMEOUT); servers up to 1.1 may pick the wrong job, so
    /// prefer --max-runtime
    #[arg(hide_short_help = true, long, value_name = "DUR", value_parser = units::duration)]
    can_do_timeout: Option<Duration>,
}

/// Runs `work`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WorkArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("work", "gearctl functions is read-only")?;
    let handler = handler(&args)?;
    args.flags.say_passed_on(tool);
    let limit = args.flags.count.map(JobLimit::new);
    let _pid_file = args.flags.create_pid_file(&tool.messages)?;
    let interrupts = tool.gentle_interrupts()?;
    let stops = || interrupts.requested().is_some();
    let until_empty = args.flags.until_empty();
    let shift = Shift::new(handler, limit.clone(), tool.messages.stamped(), until_empty);
    let connected = shift
        .shortage
        .wait_out(&shift.messages, stops, || workers(tool, (&args, limit.as_ref()), &shift));
    let workers = interrupts.check().and(connected)?;
    let (functions, address) = (args.functions.texts().join(", "), tool.link.dialer.address()?);
    let (sender, finished) = mpsc::channel();
    let (slots, started) = start_slots(&shift, workers, sender, &interrupts);
    match &started {
        Ok(()) => shift.messages.note(format!("serving {functions} on {address}")),
        // Given up because of a signal.
        Err(error) if error.is_shortage() => {}
        Err(_) => shift.stop(),
    }
    let mut count = Count::default();
    let (crew, messages) = (&*shift, shift.messages.clone());
    let supervisor = Supervisor::new(crew, &interrupts, &messages, &args.flags);
    let signal = supervisor.watch(&finished, |job| {
        count.add(job.fate);
        if job.fate != Fate::Complete {
            job.tell(&messages);
        }
        static JOB: Shape = Shape::rows("handle", &[]);
        let record = Record::new()
            .with("handle", job.handle.as_str())
            .with("function", job.function.as_str());
        work::log(&mut tool.out, &JOB, record, &job.end, job.fate.word())
    })?;
    join(slots)?;
    if signal.is_none() {
        started.or_else(|error| interrupts.check().and(Err(error)))?;
    }
    count.report(shift.report(), tool, &messages)?;
    shift.outages.check()?;
    Ok(signal.unwrap_or(Exit::Done))
}

/// The thread of a slot.
type Slot = JoinHandle<Result<(), CliError>>;

/// Starts a slot for each worker, and gives up waiting for a thread on a signal. Started slots keep running, also after
/// an error.
fn start_slots(
    shift: &Arc<Shift>,
    workers: Vec<Worker>,
    finished: Sender<Finished>,
    interrupts: &Interrupts,
) -> (Vec<Slot>, Result<(), CliError>) {
    let mut slots = Vec::new();
    let stops = || interrupts.requested().is_some();
    for worker in workers {
        let start = || start_slot(shift, &finished);
        match shift.shortage.wait_out(&shift.messages, stops, start) {
            Ok((slot, place)) => {
                // A slot waits for its worker.
                let _ = place.send(worker);
                slots.push(slot);
            }
            Err(error) => return (slots, Err(error)),
        }
    }
    (slots, Ok(()))
}

/// A thread that starts work once it is sent its worker.
fn start_slot(
    shift: &Arc<Shift>,
    finished: &Sender<Finished>,
) -> Result<(Slot, Sender<Worker>), CliError> {
    let (shift, finished) = (Arc::clone(shift), finished.clone());
    let (place, worker) = mpsc::channel();
    let thread = thread::Builder::new().name("slot".to_owned());
    let slot = thread.spawn(move || match worker.recv() {
        Ok(worker) => shift.work(worker, |job| finished.send(job).is_ok()),
        Err(_) => Ok(()),
    });
    slot.map(|slot| (slot, place)).map_err(|error| process::no_thread(&error))
}

fn handler(args: &WorkArgs) -> Result<Handler, CliError> {
    if let Some(builtin) = args.builtin {
        return Ok(Handler::Builtin(builtin));
    }
    let command = args.flags.handler(PLACES)?.ok_or_else(|| {
        CliError::usage("no handler given")
            .hint("gearctl work -f wc --exec wc -l")
            .hint("gearctl work -f echo --builtin echo")
    })?;
    Ok(Handler::Command(Recipe {
        command,
        stream: args.stream,
        data: args.flags.data,
        warnings: args.warnings,
        status_prefix: args.status_prefix.clone(),
        exception: args.exception_from_stderr,
        max_runtime: args.flags.max_runtime,
    }))
}

/// One connection for each slot, with all functions registered.
fn workers(
    tool: &mut Tool,
    (args, limit): (&WorkArgs, Option<&JobLimit>),
    shift: &Arc<Shift>,
) -> Result<Vec<Worker>, CliError> {
    let functions = args.functions.names_or_usual(tool.settings())?;
    let id = args.client_id.as_deref().map(ClientId::try_from).transpose().map_err(cli_error)?;
    work::connect(tool)?;
    let servers = tool.link.servers()?;
    let mut workers = Vec::new();
    for _ in 0..args.flags.jobs {
        let observer = Arc::clone(shift);
        let mut options = WorkerOptions::new(servers.clone())
            .slots(1)
            .grace(args.flags.grace)
            .on_event(move |event| observer.observe(event));
        if let Some(limit) = limit {
            options = options.limit(limit.clone());
        }
        if args.flags.until_empty() {
            options = options.until_empty();
        }
        if let Some(id) = &id {
            options = options.client_id(id.clone());
        }
        // A server is there. The slots connect side by side, and none waits for one that takes no connection.
        let mut worker = Worker::new(options).map_err(cli_error)?;
        for function in &functions {
            worker.can_do(function.clone(), args.can_do_timeout).map_err(cli_error)?;
        }
        workers.push(worker);
    }
    if tool.session.is_none() {
        tool.link.close();
    }
    Ok(workers)
}

fn join(slots: Vec<Slot>) -> Result<(), CliError> {
    let mut result = Ok(());
    for slot in slots {
        let ended = slot.join().unwrap_or_else(|_| Err(CliError::internal("a slot panicked")));
        result = result.and(ended);
    }
    result
}

/// Number of jobs whose end was not sent, by outcome.
#[derive(Default)]
struct Count {
    returned: u64,
    lost: u64,
}

impl Count {
    fn add(&mut self, fate: Fate) {
        match fate {
            Fate::Returned => self.returned += 1,
            Fate::Lost => self.lost += 1,
            // The worker counts them, once it knows whether the server has accepted them.
            Fate::Complete | Fate::Fail | Fate::Exception | Fate::Refused | Fate::Unknown => {}
        }
    }

    fn report(
        &self,
        sent: WorkerReport,
        tool: &mut Tool,
        messages: &Messages,
    ) -> Result<(), CliError> {
        let ways = [
            ("completed", sent.completed, "completed"),
            ("failed", sent.failed, "failed"),
            ("returned", self.returned, "given back"),
            ("lost", self.lost + sent.rejected, "lost"),
            ("unknown", sent.unknown, "unknown"),
        ];
        work::tally(&mut tool.out, messages, "job", &ways)
    }
}
