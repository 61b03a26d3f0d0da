//! `settle`: messages that were pulled over HTTP, by the id of their pull.

use adf_queue_client::blocking::Client;
use adf_queue_client::{Error, QueueName, RequestId};
use clap::{Args, ValueEnum};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, One};
use ctl_core::output::Record;

use crate::error::NOT_PULLED;
use crate::names::{self, Queue};
use crate::tool::Tool;

/// The end of `settle --help`.
pub const HELP: &str = "\
Protocol: delete, lcancel or rcancel, over HTTP, whatever the address says.
A message pulled over HTTP stays pulled until it is settled by the request id of its pull, which pull prints. Put back,
it does not wake waiting clients: the next pull or push does. Messages are pulled at the left end.
An HTTP pull that was abandoned while it waited keeps waiting in the server and swallows the next message: `adfctl
queues` shows that as pulled. left (recover) puts it back.
A message pulled over WebSocket belongs to the connection that pulled it: adfctl pop, adfctl pull --then and the session
settle it.

Examples:
  adfctl settle delete /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6
  adfctl settle left /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6";

/// Arguments of `settle`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true, mut_args(named::described(QUEUE)))]
pub struct SettleArgs {
    /// What happens to the message
    fate: Fate,

    #[command(flatten)]
    queue: One<Queue>,

    /// Request id of its pull
    #[arg(value_name = "REQUESTID")]
    id: String,
}

const QUEUE: &str = "Queue that the message was pulled from; given another one, the server puts it there, or loses it";

/// What happens to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fate {
    /// Delete it
    Delete,
    /// Put it back at the left end
    Left,
    /// Put it back at the right end
    Right,
}

impl SettleArgs {
    /// Whether the message goes back to its queue.
    pub fn gives_back(&self) -> bool {
        self.fate != Fate::Delete
    }
}

impl Fate {
    /// The action's name, and what becomes of the message.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Delete => ("delete", "deleted"),
            Self::Left => ("lcancel", "put back at the left end"),
            Self::Right => ("rcancel", "put back at the right end"),
        }
    }

    fn act(self, client: &mut Client, queue: QueueName, id: &RequestId) -> Result<(), Error> {
        match self {
            Self::Delete => client.delete_pulled(queue, id),
            Self::Left => client.lcancel_pulled(queue, id),
            Self::Right => client.rcancel_pulled(queue, id),
        }
    }
}

/// Runs `settle`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &SettleArgs) -> Result<Exit, CliError> {
    let (action, past) = args.fate.words();
    if args.queue.text().is_none() {
        let why = format!("`{}` is not enough: give a queue and the request id", args.id);
        return Err(CliError::usage(why).hint(format!("adfctl {action} QUEUE REQUESTID")));
    }
    let (queue, id) = (args.queue.name()?, names::request_id(&args.id)?);
    let record = Record::new().with("queue", queue.as_str()).with("requestid", id.as_str());
    if tool.globals.dry_run {
        let record = record.with("dry_run", true);
        let sentence = format!("would {action} the message of pull {id} of {queue}");
        return tool.out.done_with(&record, &["requestid"], &sentence);
    }
    let what = format!("{action} {queue} (pull {id})");
    let mut link = tool.link.over_http()?;
    link.ask(what, |client| args.fate.act(client, queue.clone(), &id)).map_err(
        |error| match error.code {
            NOT_PULLED => error.context(format!("no message was pulled over HTTP as {id}")),
            _ => error,
        },
    )?;
    tool.out.done(&record, &format!("the message of pull {id} is {past}"))
}
