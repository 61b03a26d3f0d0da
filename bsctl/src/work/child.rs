//! The command of a job.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use beanstalk_client::JobStats;
use beanstalk_client::blocking::JobContext;
use bytes::Bytes;
use ctl_core::child::{Order, Piece, Running};
use ctl_core::error::CliError;
use ctl_core::messages::Messages;
use ctl_core::process;

use super::Ended;

/// How to run the command.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The command is a line for the shell.
    pub is_shell: bool,
    /// How it gets the body.
    pub body: BodyAs,
    /// Its stdout is the tool's; otherwise it goes to the tool's stderr, because records are on stdout.
    pub owns_stdout: bool,
}

/// How a command gets the body of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyAs {
    /// On stdin.
    Stdin,
    /// In a file whose path replaces `{file}`.
    File,
    /// As the last argument.
    Argument,
}

/// The longest argument that every system takes, with its final NUL.
const LONGEST_ARGUMENT: usize = 128 << 10;

/// Runs the command for a job. `order` is asked again and again whether it may go on.
///
/// # Errors
/// The command cannot be run at all: exit 126 or 127, or there is no room for the body's file.
pub(super) fn run(
    recipe: &Recipe,
    job: &JobContext,
    stats: &JobStats,
    mut order: impl FnMut() -> Order,
    messages: &Messages,
) -> Result<Ended, CliError> {
    let file = match recipe.body {
        BodyAs::File => Some(BodyFile::create(job)?),
        BodyAs::Stdin | BodyAs::Argument => None,
    };
    let mut command = command(recipe, stats, file.as_ref())?;
    if recipe.body == BodyAs::Argument {
        match argument(&job.body) {
            Ok(body) => {
                command.arg(body);
            }
            Err(why) => {
                messages
                    .warn(format!("burying job {}: its body cannot be an argument: {why}", job.id));
                return Ok(Ended::Unfit);
            }
        }
    }
    let input = if recipe.body == BodyAs::Stdin { job.body.clone() } else { Bytes::new() };
    let mut running = Running::start(command, input)?;
    let mut is_overtime = false;
    let status = running.watch(
        || {
            let order = order();
            is_overtime |= order == Order::End;
            order
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

fn command(
    recipe: &Recipe,
    stats: &JobStats,
    file: Option<&BodyFile>,
) -> Result<Command, CliError> {
    let Some((program, arguments)) = recipe.command.split_first() else {
        return Err(CliError::usage("no command given"));
    };
    let mut command = Command::new(program);
    for argument in arguments {
        command.arg(fill_in(argument, stats, file.map(|file| file.path.as_path())));
    }
    command
        .env("BSCTL_JOB_ID", stats.id.to_string())
        .env("BSCTL_TUBE", stats.tube.as_str())
        .env("BSCTL_PRI", stats.pri.to_string())
        .env("BSCTL_TTR", stats.ttr.to_string())
        .env("BSCTL_AGE", stats.age.to_string())
        .env("BSCTL_RESERVES", stats.reserves.to_string())
        .env("BSCTL_TIMEOUTS", stats.timeouts.to_string())
        .env("BSCTL_RELEASES", stats.releases.to_string())
        .env("BSCTL_KICKS", stats.kicks.to_string())
        .stdin(if recipe.body == BodyAs::Stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(if recipe.owns_stdout { Stdio::inherit() } else { Stdio::piped() })
        .stderr(Stdio::inherit());
    Ok(command)
}

/// Replaces `{id}`, `{tube}` and `{file}` in an argument.
fn fill_in(argument: &OsString, stats: &JobStats, file: Option<&Path>) -> OsString {
    let Some(text) = argument.to_str() else { return argument.clone() };
    let text = text.replace("{id}", &stats.id.to_string()).replace("{tube}", stats.tube.as_str());
    let Some(file) = file else { return text.into() };
    let mut filled = OsString::new();
    for (at, part) in text.split("{file}").enumerate() {
        if at > 0 {
            filled.push(file);
        }
        filled.push(part);
    }
    filled
}

/// A body as an argument of a command.
fn argument(body: &[u8]) -> Result<OsString, String> {
    if body.contains(&0) {
        return Err("it has a NUL byte".to_owned());
    }
    if body.len() >= LONGEST_ARGUMENT {
        return Err(format!("{} bytes are over the limit of {}", body.len(), LONGEST_ARGUMENT - 1));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        Ok(OsString::from_vec(body.to_vec()))
    }
    #[cfg(not(unix))]
    String::from_utf8(body.to_vec()).map(OsString::from).map_err(|_| "it is not UTF-8".to_owned())
}

/// A file with the body, for as long as the command runs.
struct BodyFile {
    path: PathBuf,
}

impl BodyFile {
    fn create(job: &JobContext) -> Result<Self, CliError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bsctl-{}-{}-{number}", std::process::id(), job.id);
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(&job.body));
        let file = Self { path };
        match written {
            Ok(()) => Ok(file),
            Err(error) => Err(CliError::writing(&file.path.display().to_string(), &error)),
        }
    }
}

impl Drop for BodyFile {
    fn drop(&mut self) {
        // The command may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}
