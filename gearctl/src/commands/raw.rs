//! `raw`: sends lines of the text protocol, or packets, and prints replies as they arrive.

mod packets;

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::text::{escape, units};
use gearman_client::protocol::{AdminCommand, AdminReply};
use serde_json::Value;

use crate::error::cli_error;
use crate::tool::Tool;

/// The end of `raw --help`.
pub const HELP: &str = "\
Protocol: any command or packet.
The line is sent unchanged, and the lines of the reply are printed without the dot that ends a list. An error reply is
an error, as everywhere.
--packet sends a packet: its name with its arguments, or a number (0 and those above 42 too) with any bytes, whose
arguments are separated by NUL bytes and not checked. Arguments are text, @FILE, - for stdin, or hex:0a0b and b64:Cgs=.
Several --packet share one connection. The tool then sends ECHO_REQ and GET_STATUS: it prints what arrives before the
first reply to these and, with --wait, what arrives in that time afterwards. ERROR packets are printed like any other,
and the exit code is 1. Jobs taken this way are returned when the command ends.

Examples:
  gearctl raw status
  gearctl raw 'maxqueue mail 10'
  gearctl raw --packet SUBMIT_JOB_BG rev '' hello
  gearctl raw --packet CAN_DO rev --packet GRAB_JOB_UNIQ -o json
  gearctl raw --packet 16 hex:00ff";

/// Arguments of `raw`.
#[derive(Debug, Args)]
pub struct RawArgs {
    /// The line, without its line ending
    #[arg(value_name = "TEXT", required_unless_present = PACKETS, conflicts_with = PACKETS)]
    line: Option<OsString>,

    #[command(flatten)]
    packets: PacketArgs,

    /// Keep printing packets for this long
    #[arg(long, value_name = "DUR", value_parser = units::duration, requires = PACKETS)]
    wait: Option<Duration>,
}

/// The name of `--packet` in the grammar.
const PACKETS: &str = "packets";

/// The words of each `--packet`.
#[derive(Debug)]
struct PacketArgs(Vec<Vec<OsString>>);

impl Args for PacketArgs {
    fn augment_args(command: Command) -> Command {
        let help = "A packet: its name or number, and its arguments; repeatable";
        let packet = Arg::new(PACKETS)
            .long("packet")
            .value_names(["TYPE", "BODY"])
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(value_parser!(OsString))
            .allow_negative_numbers(true)
            .help(help);
        command.arg(packet)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PacketArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let occurrences = matches.get_occurrences::<OsString>(PACKETS);
        Ok(Self(occurrences.into_iter().flatten().map(|words| words.cloned().collect()).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs `raw`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RawArgs) -> Result<Exit, CliError> {
    match &args.line {
        Some(line) => text(tool, line.as_encoded_bytes()),
        None => packets::run(tool, &args),
    }
}

fn text(tool: &mut Tool, line: &[u8]) -> Result<Exit, CliError> {
    let command = AdminCommand::raw(line).map_err(cli_error)?;
    if tool.globals.dry_run {
        let text = String::from_utf8_lossy(line).into_owned();
        let sentence = format!("would send: {text}");
        let record = Record::new().with("dry_run", true).with("line", text);
        return tool.out.done_with(&record, &["line"], &sentence);
    }
    let lines = match tool.link.admin(&command) {
        Ok(AdminReply::Line(line)) => vec![line],
        Ok(AdminReply::List { lines, .. }) => lines,
        Err(mut error) => {
            // Its name for any line.
            let line = escape::name(line);
            let own = |text: &str| text.replace(command.name(), &line);
            (error.message, error.hints) =
                (own(&error.message), error.hints.iter().map(|hint| own(hint)).collect());
            // The user wrote the line, so a refusal is an answer here and not a protocol violation.
            if error.code == crate::error::UNSUPPORTED {
                error.exit = Exit::Negative;
            }
            return Err(error);
        }
    };
    if tool.out.style.format.is_structured() {
        let texts: Vec<Value> =
            lines.iter().map(|line| String::from_utf8_lossy(line).into()).collect();
        tool.out.document(&serde_json::json!({ "reply": texts }))?;
    } else {
        for line in &lines {
            tool.out.columns(line.split(|byte| *byte == b'\t'))?;
        }
    }
    Ok(Exit::Done)
}
