//! `work`: a worker that runs a command, or a built-in handler, for every job.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::Args;
use ctl_core::commands::work::{self, Hands, WorkFlags};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::link::Link as _;
use ctl_core::output::{Record, Shape};
use ctl_core::text::units;
use gearman_client::blocking::Worker;
use gearman_client::{ClientId, JobLimit, Servers, WorkerOptions, WorkerReport};

use crate::error::cli_error;
use crate::names::{Function, show_function, show_handle};
use crate::tool::Tool;
use crate::work::child::{OutputArgs, PLACES, Recipe};
use crate::work::{Fate, Handler, Shift, builtin::Builtin};

/// The end of `work --help`.
pub const HELP: &str = "\
Protocol: CAN_DO, GRAB_JOB_ALL, PRE_SLEEP, WORK_COMPLETE, WORK_FAIL, WORK_EXCEPTION, WORK_DATA, WORK_WARNING.
The command gets the workload on stdin (or with --file or --arg); what it writes to stdout is the result. Its exit code
decides about the job:
  0                 completed
  75                given back: the server runs it again, here or elsewhere
  other, a signal   failed
  cannot be run     given back, and the worker exits (126, 127); with --shell, also if the shell reports it
A job goes back only with its connection: the slot closes its own, and connects again after a pause that grows up to 10s
while all its jobs are given back. A server started with --job-retries counts each time.
{handle}, {function} and {file} in arguments are replaced. The environment has GEARCTL_HANDLE, GEARCTL_FUNCTION,
GEARCTL_UNIQUE and GEARCTL_REDUCER.
Jobs of the first -f are served first; those of the next only while the server has none of it.
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

    #[command(flatten)]
    output: OutputArgs,

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
    let handler = handler(tool, &args)?;
    let limit = args.flags.count.map(JobLimit::new);
    let interrupts = tool.gentle_interrupts()?;
    let shift = work::Shift::new(tool.messages.stamped()).of(&args.flags, 1)?;
    let shift = Arc::new(Shift::new(shift, handler, limit.clone()));
    let connect = || workers(tool, (&args, limit.as_ref()), &shift);
    let workers = shift.shift.wait_out(&interrupts, connect)?;
    let (functions, address) = (args.functions.texts().join(", "), tool.link.dialer.address()?);
    let (sender, finished) = mpsc::channel();
    let messages = shift.shift.messages();
    messages.note(format!("serving {functions} on {address}"));
    let (watched, flags) = (Arc::clone(&shift), (&args.flags, &interrupts));
    let run = move || watched.work(workers, &sender);
    // Its slots see that the shift is over.
    let hands = Hands { stop: &|| {}, is_busy: &|| shift.is_busy() };
    let watched = shift.shift.supervise((hands, run), flags, &finished, |job| {
        if job.fate != Fate::Complete {
            job.tell(messages);
        }
        static JOB: Shape = Shape::rows("handle", &[]);
        let record = Record::new()
            .with("handle", show_handle(&job.handle))
            .with("function", job.function.as_str());
        shift.shift.log(&mut tool.out, &JOB, record, &job.end, job.fate.word())
    });
    let (signal, report) = watched?;
    let WorkerReport { completed, failed, dead_lettered, unknown, .. } = report;
    let shift = &shift.shift;
    let ways = [
        ("completed", completed, "completed"),
        ("failed", failed.saturating_sub(dead_lettered), "failed"),
        ("dead_lettered", dead_lettered, "to the dead-letter queue"),
        ("returned", shift.count(Fate::Returned.word()), "given back"),
        ("lost", shift.count(Fate::Lost.word()), "lost"),
        ("unknown", unknown, "unknown"),
    ];
    shift.end(&mut tool.out, "job", &ways, signal)
}

fn handler(tool: &Tool, args: &WorkArgs) -> Result<Handler, CliError> {
    if let Some(builtin) = args.builtin {
        return Ok(Handler::Builtin(builtin));
    }
    let recipe = work::Recipe::new(&args.flags, PLACES, "gearctl work -f wc", tool);
    let recipe = recipe.map_err(|error| match error.hints.is_empty() {
        true => error,
        false => error.hint("gearctl work -f echo --builtin echo"),
    })?;
    Ok(Handler::Command(Recipe { command: recipe.collected(), output: args.output.clone() }))
}

/// One connection for each slot, with all functions registered.
fn workers(
    tool: &mut Tool,
    (args, limit): (&WorkArgs, Option<&JobLimit>),
    shift: &Arc<Shift>,
) -> Result<Vec<Worker>, CliError> {
    let functions = args.functions.names_or_usual(tool.settings())?;
    let id = args.client_id.as_deref().map(ClientId::try_from).transpose().map_err(cli_error)?;
    let letters = args.flags.dead_letter.as_deref().map(crate::names::function).transpose()?;
    if let Some(function) = letters.as_ref().filter(|function| functions.contains(function)) {
        let function = show_function(function);
        return Err(CliError::bad_data(format!(
            "function {function} is the dead-letter function: its jobs would not be kept when they fail"
        ))
        .hint(format!("a separate worker for {function}")));
    }
    let servers = Servers::new(work::connect(tool)?).map_err(cli_error)?;
    let mut workers = Vec::new();
    for _ in 0..args.flags.jobs {
        let observer = Arc::clone(shift);
        let mut options = WorkerOptions::from(servers.clone())
            .slots(1)
            .grace(args.flags.grace)
            .on_event(move |event| observer.observe(event));
        if let Some(limit) = limit {
            options = options.limit(limit.clone());
        }
        if args.flags.until_empty() {
            options = options.until_empty();
        }
        if let Some(function) = &letters {
            options = options.dead_letter(function.clone());
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
