//! `work`: a worker that runs a command for every message.

use std::num::NonZeroU16;
use std::sync::Arc;

use adf_queue_client::blocking::Worker;
use adf_queue_client::{ConnectOptions, JobLimit, QueueName, Servers, WorkerOptions, WorkerReport};
use clap::Args;
use ctl_core::commands::work::{self, Hands, Ledger, Recipe, WorkFlags};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::link::Link as _;
use ctl_core::output::{Record, Shape};

use crate::error::cli_error;
use crate::link::Link;
use crate::names::{self, Queue};
use crate::tool::Tool;
use crate::work::{Fates, OnFail, PLACES, Shift, label_of};

/// The end of `work --help`.
pub const HELP: &str = "\
Protocol: pull, then delete, lcancel, rcancel, or rpush to the dead-letter queue and delete, over WebSocket.
The command gets the body on stdin; its exit code decides what happens to the message:
  0                 deleted
  75                put back at the right end; not counted by --max-duplications
  any other code, a signal, over --max-runtime
                    put back at the right or left end (--on-fail), until delivered --max-duplications times; then moved to --dead-letter, or into the file of --failed-to
  cannot be run     put back at the left end, and the worker exits (126, 127); with --shell, also if the shell reports it
The server has no delays: a message that is put back may be delivered again at once. If commands keep failing quickly, the
worker therefore pauses for up to 5s before it puts a message back. The server has no dead-letter queue either; without
--dead-letter, a message that was delivered too often is put back without being run, at growing intervals.
{id}, {queue} and {file} in arguments are replaced. The environment has ADFCTL_MESSAGE_ID, ADFCTL_QUEUE,
ADFCTL_DUPLICATIONS and ADFCTL_REQUEST_ID.
When the connection is lost, its messages return to the server. If a queue does not exist, the worker keeps trying; with
--max-idle 0, it does not start, and the exit code is 1.
`adfctl help workers` says how commands run, where their output goes, and what signals do.

Examples:
  adfctl work -Q /mail -Q /sms -j 4 --exec ./handler {id}
  adfctl work -Q /thumbs --dead-letter /dead -- convert - -resize 50% {id}.png
  adfctl work -Q /mail --max-idle 0 -o ndjson --shell 'jq .to | xargs notify'";

/// Arguments of `work`.
#[derive(Debug, Args)]
#[command(mut_args(|arg| work::about(arg, ("job", "message"))))]
pub struct WorkArgs {
    #[command(flatten)]
    queues: Several<Queue>,

    #[command(flatten)]
    flags: WorkFlags,

    /// What to do with a message whose command failed
    #[arg(long, value_name = "WHAT", default_value = "right")]
    on_fail: OnFail,

    /// Number of deliveries after which a failure is final
    #[arg(hide_short_help = true, long, value_name = "N", default_value = "5")]
    max_duplications: NonZeroU16,
}

/// Runs `work`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &WorkArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("work", "adfctl queues is read-only")?;
    let queues = args.queues.names_or_usual(tool.settings())?;
    let recipe = Recipe::new(&args.flags, PLACES, "adfctl work -Q /mail", tool)?;
    let interrupts = tool.gentle_interrupts()?;
    let servers = tool.link.dialer.options()?.len();
    let empties = args.flags.until_empty();
    let shift = work::Shift::new(tool.messages.stamped()).of(&args.flags, servers)?;
    let connected = shift.wait_out(&interrupts, || work::connect(tool))?;
    if empties {
        check_queues(tool, &queues)?;
    }
    tool.link.close();
    let options = options(connected, args)?;
    let (ledger, finished) = Ledger::new(shift.messages(), label_of);
    let fates = Fates { on_fail: args.on_fail, most: args.max_duplications.get() };
    let shift = Arc::new(Shift { shift, recipe, ledger, fates });
    let observer = shift.clone();
    let options = options.on_event(move |event| observer.observe(event));
    let mut worker = Worker::new(options).map_err(cli_error)?;
    let handle = worker.handle();
    let hands = Hands { stop: &|| handle.stop(), is_busy: &|| handle.held() > 0 };
    for queue in &queues {
        let (shift, handle) = (shift.clone(), worker.handle());
        let handler = move |job: &adf_queue_client::JobContext| shift.handle(job, &handle);
        worker.register(queue.clone(), handler).map_err(cli_error)?;
    }
    let shift = &shift.shift;
    shift.say_taking("messages", &queues, &tool.link.dialer.address()?, &args.flags);
    let run = || worker.run();
    let watched = shift.supervise((hands, run), (&args.flags, &interrupts), &finished, |done| {
        static MESSAGE: Shape = Shape::rows("messageid", &[]);
        let (server, queue, id) = &done.job;
        let record = Record::new().with("messageid", id.get()).with("queue", queue.as_str());
        let record = record.of_server(server.as_deref());
        shift.log(&mut tool.out, &MESSAGE, record, &done.end, done.fate)
    });
    let (signal, report) = watched?;
    let WorkerReport { deleted, returned, dead_lettered, abandoned, lost, unknown, .. } = report;
    let ways = [
        ("deleted", deleted, "deleted"),
        ("returned", returned, "put back"),
        ("dead_lettered", dead_lettered, "to the dead-letter queue"),
        ("abandoned", abandoned, "given back"),
        ("lost", lost, "lost"),
        ("unknown", unknown, "unknown"),
    ];
    shift.end(&mut tool.out, "message", &ways, signal)
}

/// A queue that does not exist never becomes empty, and its name is usually misspelt.
fn check_queues(tool: &mut Tool, queues: &[QueueName]) -> Result<(), CliError> {
    let mut fleet = Fleet::of(tool)?;
    let check = |link: &mut Link| {
        queues.iter().try_for_each(|queue| {
            link.ask(format!("count {queue}"), |client| client.count(queue.clone())).map(drop)
        })
    };
    fleet.ask(&mut tool.link, check).map(drop)
}

fn options(servers: Vec<ConnectOptions>, args: &WorkArgs) -> Result<WorkerOptions, CliError> {
    let servers = Servers::new(servers).map_err(cli_error)?;
    let mut options = WorkerOptions::from(servers)
        .slots(usize::from(args.flags.jobs))
        .max_duplications(args.max_duplications)
        .grace(args.flags.last_grace());
    if let Some(queue) = &args.flags.dead_letter {
        options = options.dead_letter(names::queue(queue)?);
    }
    if args.flags.until_empty() {
        options = options.until_empty();
    }
    if let Some(messages) = args.flags.count {
        options = options.limit(JobLimit::new(messages));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn delivers_messages_like_the_client_by_default() {
        let command = WorkArgs::augment_args(clap::Command::new("work"));
        let matches = command.get_matches_from(["work", "-Q", "/mail", "--exec", "true"]);
        let args = WorkArgs::from_arg_matches(&matches).unwrap();
        // The client has no getter for its default.
        let clients: WorkerOptions = "localhost".parse().unwrap();
        let tools = clients.clone().max_duplications(args.max_duplications);
        assert_eq!(format!("{tools:?}"), format!("{clients:?}"));
    }
}
