//! `raw`: one protocol line, and the reply as it arrives.

use std::ffi::{OsStr, OsString};

use beanstalk_client::protocol::{RawCommand, Response};
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Argument;
use ctl_core::output::{Format, Record};

use crate::error::cli_error;
use crate::link::reply_line;
use crate::tool::Tool;

/// The end of `raw --help`.
pub const HELP: &str = "\
Protocol: any command.
Sends the line as it is and prints the reply line, then the body of the reply if it has one. A put takes its body as
the last argument; the line's last number has to be the body's length. A refusal is an error, as everywhere.
A job reserved this way is returned when the command ends.

Examples:
  bsctl raw stats-tube default
  bsctl raw 'put 0 0 60 5' hello
  bsctl raw 'peek 42' -o raw > body";

/// Arguments of `raw`.
#[derive(Debug, Args)]
pub struct RawArgs {
    /// The line, quoted or as several words, and the body of a put: text, @FILE or -
    #[arg(value_name = "CMD", required = true, num_args = 1..)]
    words: Vec<OsString>,
}

impl RawArgs {
    /// Splits the arguments into the line and the body.
    fn read(self) -> Result<(OsString, Option<OsString>), CliError> {
        let mut words = self.words;
        let is_whole = words.first().is_some_and(|word| word.as_encoded_bytes().contains(&b' '));
        let is_put = words.first().is_some_and(|word| word == "put");
        let most = match (is_whole, is_put) {
            (true, _) => 1,
            (false, true) => PUT_WORDS,
            (false, false) => usize::MAX,
        };
        let mut behind = words.split_off(most.min(words.len())).into_iter();
        let (body, more) = (behind.next(), behind.next());
        if more.is_some() {
            return Err(CliError::usage("a line and its body are all that is sent")
                .hint("bsctl raw 'put 0 0 60 5' hello"));
        }
        Ok((words.join(OsStr::new(" ")), body))
    }
}

/// The words of a put, without its body.
const PUT_WORDS: usize = 5;

/// The largest body that any server can be configured to accept.
const MAX_BODY: u64 = 1 << 30;

/// Runs `raw`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RawArgs) -> Result<Exit, CliError> {
    let (line, body) = args.read()?;
    let line = line.as_encoded_bytes();
    if line == b"reserve" {
        return Err(CliError::usage("a plain reserve waits without a time limit")
            .hint("bsctl raw 'reserve-with-timeout 5', or bsctl reserve --wait 5s"));
    }
    let command = match body {
        Some(text) => {
            let body = Argument::parse(&text).load(&mut tool.input, MAX_BODY)?;
            RawCommand::with_body(line, body)
        }
        None => RawCommand::new(line),
    }
    .map_err(cli_error)?;
    if tool.globals.dry_run {
        let text = String::from_utf8_lossy(line).into_owned();
        let sentence = format!("would send: {text}");
        let record = Record::new().with("dry_run", true).with("line", text);
        return tool.out.done_with(&record, &["line"], &sentence);
    }
    let response = tool.link.side().call(command)?;
    if let Some(error) = refusal(&response) {
        return Err(error);
    }
    show(tool, &response)?;
    Ok(Exit::Done)
}

/// The error for a negative reply.
fn refusal(response: &Response) -> Option<CliError> {
    if matches!(response, Response::TimedOut) {
        return Some(CliError::timeout("the server answered TIMED_OUT"));
    }
    let mut error = cli_error(response.clone().refuse());
    // A reply that is no refusal would only be unexpected.
    if ["PROTOCOL", "UNEXPECTED_REPLY"].contains(&error.code) {
        return None;
    }
    // The user wrote the line, so a refusal is an answer here and not a protocol violation.
    if error.exit == Exit::Protocol {
        error.exit = Exit::Negative;
    }
    Some(error)
}

fn show(tool: &mut Tool, response: &Response) -> Result<(), CliError> {
    let line = reply_line(response);
    let body = match response {
        Response::Ok(text) => Some(text),
        Response::Found(job) | Response::Reserved(job) => Some(&job.body),
        _ => None,
    };
    match tool.out.style.format {
        Format::Raw => match body {
            Some(body) => tool.out.raw_body(body)?,
            None => return Err(CliError::usage("-o raw prints bodies, and this reply has none")),
        },
        format if format.has_records() => {
            let record = Record::new().with("reply", line);
            let record = match body {
                Some(body) => record.with_body(body.to_vec()),
                None => record,
            };
            tool.out.done(&record, "")?;
        }
        _ => {
            tool.out.done(&Record::new().with("reply", line.as_str()), &line)?;
            if let Some(body) = body {
                tool.out.text(&ctl_core::text::escape::bytes_view(body))?;
                if !body.ends_with(b"\n") {
                    tool.out.text("\n")?;
                }
            }
        }
    }
    tool.out.flush()
}
