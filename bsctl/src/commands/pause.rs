//! `pause`: keeps the jobs of a tube from being reserved for a while.

use std::ffi::OsString;
use std::time::Duration;

use beanstalk_client::TubeName;
use beanstalk_client::protocol::PauseTube;
use clap::Args;
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Leading;
use ctl_core::output::Record;
use ctl_core::text::units;

use crate::error::{NOT_FOUND, cli_error};
use crate::jobs;
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `pause --help`.
pub const HELP: &str = "\
Protocol: pause-tube TUBE SECONDS.
Jobs can still be put, peeked, kicked and reserved by id; only reserving from the tube stops.

Examples:
  bsctl pause mail 10m
  bsctl resume mail
  bsctl -s one,two pause mail 10m";

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    tube: Leading<Tube>,

    /// Duration of the pause; 0 ends it
    #[arg(value_name = "DUR")]
    duration: Option<OsString>,
}

/// Runs `pause`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PauseArgs) -> Result<Exit, CliError> {
    let (tube, duration) = args.tube.split_one(args.duration.as_ref())?;
    let Some(duration) = duration else {
        return Err(CliError::usage(format!("for how long should tube {tube} be paused?"))
            .hint(format!("bsctl pause {tube} 10m"))
            .hint(format!("bsctl resume {tube}, to end a pause")));
    };
    let duration = units::duration(&duration.to_string_lossy()).map_err(CliError::usage)?;
    on_each(tool, |tool| set(tool, &tube, duration))
}

fn set(tool: &mut Tool, tube: &TubeName, duration: Duration) -> Result<Exit, CliError> {
    let command = PauseTube::new(tube.clone(), duration).map_err(cli_error)?;
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    let mut record = Record::new().with("tube", tube.as_str()).with("pause_seconds", seconds);
    let time = units::show_duration(Duration::from_secs(seconds));
    let (verb, past, time) = match seconds {
        0 => ("resume", "resumed", String::new()),
        _ => ("pause", "paused", format!(" for {time}")),
    };
    if tool.globals.dry_run {
        record.push("dry_run", true);
        return tool.out.done(&record, &format!("would {verb} tube {tube}{time}"));
    }
    tool.link.call(command).map_err(|error| match error.code {
        NOT_FOUND => jobs::no_tube_at(&mut tool.link, tube),
        _ => error.about("TUBE", tube),
    })?;
    tool.out.done(&record, &format!("{past} tube {tube}{time}"))
}
