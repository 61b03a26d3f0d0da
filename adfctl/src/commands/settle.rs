//! `delete`, `lcancel`, `rcancel`, `recover`: messages that were pulled over HTTP, by the id of their pull.

use adf_queue_client::blocking::Client;
use adf_queue_client::{Error, QueueName, RequestId};
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, One};
use ctl_core::output::Record;

use crate::error::NOT_PULLED;
use crate::names::{self, Queue};
use crate::tool::Tool;

/// The end of `delete --help`.
pub const DELETE_HELP: &str = "\
Protocol: delete, over HTTP.
The message is the one returned by the pull with this request id; pull over HTTP prints these ids.
A message pulled over WebSocket belongs to the connection that pulled it, so this command needs -s http://...; adfctl
pop, adfctl pull --then delete and the session delete over WebSocket.

Example:
  adfctl -s http://127.0.0.1 delete /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6";

/// The end of `lcancel --help`.
pub const LCANCEL_HELP: &str = "\
Protocol: lcancel, over HTTP.
Puts the message returned by the pull with this request id back at the left end, where messages are pulled next. This
does not wake waiting clients: the next pull or push does.

Example:
  adfctl -s http://127.0.0.1 lcancel /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6";

/// The end of `rcancel --help`.
pub const RCANCEL_HELP: &str = "\
Protocol: rcancel, over HTTP.
Like lcancel, but at the right end, behind all other messages.

Example:
  adfctl -s http://127.0.0.1 rcancel /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6";

/// The end of `recover --help`.
pub const RECOVER_HELP: &str = "\
Protocol: lcancel, over HTTP, whatever the address says.
An HTTP pull that was abandoned while it waited keeps waiting in the server and swallows the next message: count no
longer includes it, and `adfctl queues` shows it as pulled. This command puts it back at the left end.

Example:
  adfctl recover /mail 0bd8a3e5c2f64b7e9a54d0d8f3c1b2a6";

/// Arguments of all four.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true, mut_args(named::described(QUEUE)))]
pub struct SettleArgs {
    #[command(flatten)]
    queue: One<Queue>,

    /// Request id of its pull
    #[arg(value_name = "REQUESTID")]
    id: String,
}

const QUEUE: &str = "Queue that the message was pulled from; given another one, the server puts it there, or loses it";

/// What happens to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is removed.
    Delete,
    /// It goes to the left end.
    Lcancel,
    /// It goes to the right end.
    Rcancel,
    /// The same as [`Fate::Lcancel`], over HTTP in any case.
    Recover,
}

impl Fate {
    /// The action's name, and its past participle for messages.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Delete => ("delete", "deleted"),
            Self::Lcancel => ("lcancel", "put back at the left end"),
            Self::Rcancel => ("rcancel", "put back at the right end"),
            Self::Recover => ("recover", "put back at the left end"),
        }
    }

    fn act(self, client: &mut Client, queue: QueueName, id: &RequestId) -> Result<(), Error> {
        match self {
            Self::Delete => client.delete_pulled(queue, id),
            Self::Lcancel => client.lcancel_pulled(queue, id),
            Self::Rcancel => client.rcancel_pulled(queue, id),
            Self::Recover => client.recover(queue, id),
        }
    }
}

/// Runs one of them.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &SettleArgs, fate: Fate) -> Result<Exit, CliError> {
    let (word, past) = fate.words();
    if args.queue.text().is_none() {
        let why = format!("`{}` is not enough: {word} needs a queue and the request id", args.id);
        return Err(CliError::usage(why).hint(format!("adfctl {word} QUEUE REQUESTID")));
    }
    let (queue, id) = (args.queue.name()?, names::request_id(&args.id)?);
    if fate != Fate::Recover && !tool.link.side().is_http()? {
        return Err(not_over_websocket(tool, word)?);
    }
    let record = Record::new().with("queue", queue.as_str()).with("requestid", id.as_str());
    if tool.globals.dry_run {
        let record = record.with("dry_run", true);
        let sentence = format!("would {word} the message of pull {id} of {queue}");
        return tool.out.done_with(&record, &["requestid"], &sentence);
    }
    let mut link = tool.link.over_http()?;
    let acted = link
        .ask(format!("{word} {queue} (pull {id})"), |client| fate.act(client, queue.clone(), &id));
    acted.map_err(|error| match error.code {
        NOT_PULLED => error.context(format!("no message was pulled over HTTP as {id}")),
        _ => error,
    })?;
    tool.out.done(&record, &format!("the message of pull {id} is {past}"))
}

/// The reason why there is no such command over WebSocket.
fn not_over_websocket(tool: &mut Tool, word: &str) -> Result<CliError, CliError> {
    let address = tool.link.over_http()?.dialer.address()?;
    let why = "a message pulled over WebSocket belongs to the connection that pulled it, and returns to its queue when that ends";
    Ok(CliError::new(
        Exit::Usage,
        "UNSUPPORTED",
        format!("{word} by request id requires HTTP: {why}"),
    )
    .hint(format!("adfctl -s {address} {word} ..., for a message pulled over HTTP"))
    .hint("adfctl pop, adfctl pull --then, or adfctl repl, over WebSocket"))
}
