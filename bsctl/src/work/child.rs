//! The command of a job.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beanstalk_client::JobStats;
use beanstalk_client::blocking::JobContext;
use ctl_core::child::{Data, DataArgs, Order, Piece, Place, Running, Template};
use ctl_core::error::{CliError, Exit};
use ctl_core::messages::Messages;
use ctl_core::process;
use ctl_core::shortage::Shortage;

use super::Ended;

/// How to run the command.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The command.
    pub command: Template,
    /// How it gets the body.
    pub body: DataArgs,
    /// Its stdout is the tool's; otherwise it goes to the tool's stderr, because records are on stdout.
    pub owns_stdout: bool,
    /// The longest it may run.
    pub max_runtime: Option<Duration>,
}

/// What arguments may have of the job, and where a line for the shell finds it.
pub const PLACES: &[Place] = &[("{id}", "$BSCTL_JOB_ID"), ("{tube}", "$BSCTL_TUBE")];

/// Runs the command for a job, unless and until `gives_up` says that nobody waits for it any more. A shortage of the
/// system is waited out.
///
/// # Errors
/// The command cannot be run at all: exit 126 or 127, or the body's file cannot be written.
pub(super) fn run(
    recipe: &Recipe,
    (job, stats): (&JobContext, &JobStats),
    gives_up: impl Fn() -> bool,
    shortage: &Shortage,
    messages: &Messages,
) -> Result<Ended, CliError> {
    let start = || {
        let (command, data) = command(recipe, job, stats)?;
        Ok((Running::start(command, data.input())?, data))
    };
    let (mut running, _data) = match shortage.wait_out(messages, &gives_up, start) {
        Ok(running) => running,
        // It says something of this job only.
        Err(error) if error.exit == Exit::BadData => {
            messages.warn(format!("burying job {}: {error}", job.id));
            return Ok(Ended::Unfit);
        }
        Err(error) if error.is_shortage() => return Ok(Ended::GivenUp),
        Err(error) => return Err(error),
    };
    let start = Instant::now();
    let mut is_overtime = false;
    let status = running.watch(
        || {
            if gives_up() {
                return Order::GiveUp;
            }
            is_overtime |= recipe.max_runtime.is_some_and(|most| start.elapsed() >= most);
            if is_overtime { Order::End } else { Order::GoOn }
        },
        // Who reads the tool's stderr may be gone.
        |(Piece::Out(bytes) | Piece::Err(bytes))| drop(io::stderr().write_all(&bytes)),
    );
    Ok(match status {
        None => Ended::GivenUp,
        Some(_) if is_overtime => Ended::Overtime,
        Some(status) => match status.code() {
            Some(code) => Ended::Code(code),
            None => Ended::Signal(process::signal(status).unwrap_or(0)),
        },
    })
}

/// The command for this job, and what has to exist while it runs.
fn command(
    recipe: &Recipe,
    job: &JobContext,
    stats: &JobStats,
) -> Result<(Command, Data), CliError> {
    let id = stats.id.to_string();
    let values = [("{id}", id.as_str()), ("{tube}", stats.tube.as_str())];
    let (mut command, data) = recipe.command.command(&values, recipe.body, &job.body)?;
    command
        .env("BSCTL_JOB_ID", &id)
        .env("BSCTL_TUBE", stats.tube.as_str())
        .env("BSCTL_PRI", stats.pri.to_string())
        .env("BSCTL_TTR", stats.ttr.to_string())
        .env("BSCTL_AGE", stats.age.to_string())
        .env("BSCTL_RESERVES", stats.reserves.to_string())
        .env("BSCTL_TIMEOUTS", stats.timeouts.to_string())
        .env("BSCTL_RELEASES", stats.releases.to_string())
        .env("BSCTL_KICKS", stats.kicks.to_string())
        .stdout(if recipe.owns_stdout { Stdio::inherit() } else { Stdio::piped() })
        .stderr(Stdio::inherit());
    Ok((command, data))
}
