//! `raw`: one line of the text protocol, and the reply as it comes.

use std::ffi::OsString;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::escape;
use ctl_core::output::{Format, Record};
use gearman_client::protocol::{AdminCommand, AdminReply};
use serde_json::Value;

use crate::error::cli_error;
use crate::tool::Tool;

/// The end of `raw --help`.
pub const HELP: &str = "\
Sends the line as it is and prints the lines of the reply, without the dot that ends a list. A refusal is an error, as
everywhere.

Examples:
  gearctl raw status
  gearctl raw 'maxqueue mail 10'";

/// Arguments of `raw`.
#[derive(Debug, Args)]
pub struct RawArgs {
    /// The line, without its end
    #[arg(value_name = "TEXT")]
    line: OsString,
}

/// Runs `raw`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RawArgs) -> Result<Exit, CliError> {
    let line = args.line.as_encoded_bytes();
    let command = AdminCommand::raw(line).map_err(cli_error)?;
    if tool.globals.dry_run {
        let text = String::from_utf8_lossy(line).into_owned();
        let sentence = format!("would send: {text}");
        let record = Record::new().with("dry_run", true).with("line", text);
        tool.out.done_with(&record, &["line"], &sentence)?;
        return Ok(Exit::Done);
    }
    let lines = match tool.link.admin(&command) {
        Ok(AdminReply::Line(line)) => vec![line],
        Ok(AdminReply::List { lines, .. }) => lines,
        Err(mut error) => {
            // The line was the user's own: the server's no is an answer here, no broken protocol.
            if error.code == crate::error::UNSUPPORTED {
                error.exit = Exit::Negative;
            }
            return Err(error);
        }
    };
    match tool.out.style.format {
        Format::Json | Format::Ndjson | Format::Yaml => {
            let texts: Vec<Value> =
                lines.iter().map(|line| String::from_utf8_lossy(line).into()).collect();
            tool.out.document(&serde_json::json!({ "reply": texts }))?;
        }
        _ => {
            for line in &lines {
                if tool.out.style.terminal {
                    let columns: Vec<String> =
                        line.split(|byte| *byte == b'\t').map(escape::bytes_line).collect();
                    tool.out.text(&columns.join("\t"))?;
                } else {
                    tool.out.raw_body(line)?;
                }
                tool.out.text("\n")?;
            }
        }
    }
    Ok(Exit::Done)
}
