//! `raw`: one request, and the answer as it arrives.

use std::ffi::OsString;

use adf_queue_client::protocol::{Action, Request, Success};
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Argument;
use ctl_core::input::named::Leading;
use ctl_core::output::Record;

use crate::names::{self, Queue};
use crate::tool::Tool;

/// The end of `raw --help`.
pub const HELP: &str = "\
Protocol: any action but pull.
Sends one of the ten actions with a request id of your choice, and prints the reply. An error reply is an error, as
everywhere. A pull is rejected here, since nothing would end it on an empty queue: use adfctl pull.
The id in a delete or a return refers to a pull on this connection or, over HTTP, on the whole server; if the queue
differs from that of the pull, the message moves there, and if it does not exist, the message is lost.

Examples:
  adfctl raw count /mail
  adfctl raw lpush /mail --id 7 hello
  adfctl -s http://127.0.0.1 raw delete /mail --id 7";

/// Arguments of `raw`.
#[derive(Debug, Args)]
pub struct RawArgs {
    /// lpush, rpush, delete, clear, count, lcancel, rcancel, createqueue or deletequeue
    #[arg(value_name = "ACTION")]
    action: String,

    #[command(flatten)]
    queue: Leading<Queue>,

    /// The body of a push: text, @FILE or -
    #[arg(value_name = "BODY|@FILE|-")]
    body: Option<OsString>,

    /// The request id
    #[arg(long, value_name = "ID", default_value = "adfctl")]
    id: String,
}

/// Runs `raw`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: &RawArgs) -> Result<Exit, CliError> {
    let request = build(tool, args)?;
    let (action, id, queue) = (request.action(), *request.id(), request.queue().clone());
    let record = Record::new()
        .with("action", action.name())
        .with("requestid", id.as_str())
        .with("queue", queue.as_str());
    if tool.globals.dry_run {
        let sentence = format!("would send: {action} {id} {queue} {}", request.body().len());
        return tool.out.done_with(&record.with("dry_run", true), &["action"], &sentence);
    }
    let success = tool.link.side().call(request)?;
    let record = record.with("result", "ok");
    let (record, what) = match success {
        Success::Pushed(message) => {
            (record.with("messageid", message.get()), format!("message {message} in {queue}"))
        }
        Success::Counted(count) => {
            (record.with("count", count), format!("{count} ready in {queue}"))
        }
        _ => (record, format!("{action} {queue}")),
    };
    tool.out.done(&record, &format!("ok: {what}"))
}

fn build(tool: &mut Tool, args: &RawArgs) -> Result<Request, CliError> {
    let action = Action::from_name(&args.action).ok_or_else(|| {
        let sendable = Action::ALL.iter().filter(|action| **action != Action::Pull);
        let all: Vec<&str> = sendable.map(|action| action.name()).collect();
        CliError::usage(format!("`{}` is not an action", args.action)).hint(all.join(", "))
    })?;
    let id = names::request_id(&args.id)?;
    let (queue, body) = args.queue.split_one(args.body.as_ref())?;
    let body = match (&body, action.is_push()) {
        (Some(text), true) => {
            let limit = tool.link.max_body()?;
            Argument::parse(text).load(&mut tool.input, limit)?
        }
        (None, true) => return Err(CliError::usage(format!("{action} needs a body"))),
        (Some(_), false) => return Err(CliError::usage(format!("{action} has no body"))),
        (None, false) => Vec::new(),
    };
    Ok(match action {
        Action::Lpush => Request::lpush(id, queue, body),
        Action::Rpush => Request::rpush(id, queue, body),
        Action::Delete => Request::delete(id, queue),
        Action::Clear => Request::clear(id, queue),
        Action::Count => Request::count(id, queue),
        Action::Lcancel => Request::lcancel(id, queue),
        Action::Rcancel => Request::rcancel(id, queue),
        Action::CreateQueue => Request::create_queue(id, queue),
        Action::DeleteQueue => Request::delete_queue(id, queue),
        Action::Pull => {
            return Err(CliError::usage("a plain pull waits without a time limit")
                .hint(format!("adfctl pull {queue} --wait 5s")));
        }
    })
}
