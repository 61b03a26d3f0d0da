//! A command that handles a job: workload on its stdin, result from its stdout, both at the same time.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use ctl_core::commands::work::{CommandEnd, is_stopped_with_worker};
use ctl_core::error::{CliError, Exit};
use ctl_core::system::child::{Data, DataArgs, LastLine, Order, Piece, Place, Running, Template};
use ctl_core::system::process;
use gearman_client::blocking::{GrabbedJob, Worker};

use super::{Ended, Outcome, Shift};
use crate::names::{show_function, show_handle};

/// How to run the command.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The command.
    pub command: Template,
    /// How it gets the workload.
    pub data: DataArgs,
    /// Whether output goes out while the command runs.
    pub stream: Option<Stream>,
    /// stderr goes to the submitter as warnings.
    pub warnings: bool,
    /// Lines of stderr that begin so report progress.
    pub status_prefix: Option<String>,
    /// Whether a failure becomes an exception with the end of stderr.
    pub exception: bool,
    /// The longest a command may run.
    pub max_runtime: Option<Duration>,
}

/// The value of `--stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    /// Line by line.
    Lines,
    /// As it arrives.
    Chunks,
}

/// Placeholders for the job's data in arguments, and the variables that a shell line uses instead.
pub const PLACES: &[Place] =
    &[("{handle}", "$GEARCTL_HANDLE"), ("{function}", "$GEARCTL_FUNCTION")];

/// Number of bytes of stderr that are kept for an exception.
const KEPT: usize = 64 << 10;

/// Runs the command for a job.
pub(super) fn run(
    recipe: &Recipe,
    shift: &Shift,
    worker: &mut Worker,
    job: &GrabbedJob,
) -> Outcome {
    let start = || {
        let (command, data) = command(recipe, job)?;
        Ok((Running::start(command, data.input())?, data))
    };
    let started = shift.shortage.wait_out(&shift.messages, || shift.is_killed(), start);
    let (mut running, _data) = match started {
        Ok(running) => running,
        // Another job may work.
        Err(error) if error.exit == Exit::BadData => {
            let words = Some(error.to_string());
            let end = CommandEnd { otherwise: Some("not run"), words, ..CommandEnd::default() };
            return Outcome { ended: Ended::Fail, end };
        }
        Err(error) if error.is_shortage() => return Ended::Stopped.into(),
        Err(error) => return Ended::Broken(error).into(),
    };
    let start = Instant::now();
    let order = || {
        let is_overtime = recipe.max_runtime.is_some_and(|most| start.elapsed() >= most);
        match (shift.is_killed(), is_overtime) {
            (true, _) => Order::GiveUp,
            (false, true) => Order::End,
            (false, false) => Order::GoOn,
        }
    };
    let mut output = Collected::new(recipe);
    let status = running.watch(order, |piece| match piece {
        Piece::Out(bytes) => {
            for data in output.out(bytes) {
                shift.tell(worker.data(job, data));
            }
        }
        Piece::Err(bytes) => output.err(shift, worker, job, &bytes),
    });
    if let Some(left) = running.left_behind() {
        shift.messages.warn(format!("job {}: {left}", show_handle(&job.handle)));
    }
    let Some(status) = status else { return Ended::Stopped.into() };
    if !running.was_ended() && is_stopped_with_worker(status, || shift.is_stopped()) {
        return Ended::Stopped.into();
    }
    output.flush(shift, worker, job);
    let words = output.last.text();
    let ended = match (status.success(), recipe.exception) {
        (true, _) => Ended::Complete(output.out),
        (false, false) => Ended::Fail,
        (false, true) => Ended::Exception(output.err),
    };
    let end = CommandEnd { words, ..CommandEnd::default() };
    let end = if running.was_ended() {
        CommandEnd { otherwise: Some("over --max-runtime"), ..end }
    } else {
        CommandEnd { exit: status.code(), signal: process::signal(status), ..end }
    };
    Outcome { ended, end }
}

/// Output of the command that has not been sent yet.
struct Collected<'a> {
    recipe: &'a Recipe,
    out: Vec<u8>,
    err: Vec<u8>,
    /// The beginning of a line of stderr.
    line: Vec<u8>,
    last: LastLine,
}

impl<'a> Collected<'a> {
    fn new(recipe: &'a Recipe) -> Self {
        Self {
            recipe,
            out: Vec::new(),
            err: Vec::new(),
            line: Vec::new(),
            last: LastLine::default(),
        }
    }

    /// Takes a piece of stdout, and returns what to send now.
    fn out(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        match self.recipe.stream {
            None => {
                self.out.extend_from_slice(&bytes);
                Vec::new()
            }
            Some(Stream::Chunks) => vec![bytes],
            Some(Stream::Lines) => {
                self.out.extend_from_slice(&bytes);
                let end = self.out.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let rest = self.out.split_off(end);
                let whole = std::mem::replace(&mut self.out, rest);
                whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
            }
        }
    }

    fn err(&mut self, shift: &Shift, worker: &mut Worker, job: &GrabbedJob, bytes: &[u8]) {
        self.last.take(bytes);
        if self.recipe.exception {
            self.err.extend_from_slice(bytes);
            let excess = self.err.len().saturating_sub(KEPT);
            self.err.drain(..excess);
        }
        if !self.recipe.reads_lines() {
            pass_on(bytes);
            return;
        }
        self.line.extend_from_slice(bytes);
        while let Some(at) = self.line.iter().position(|byte| *byte == b'\n') {
            let rest = self.line.split_off(at + 1);
            let line = std::mem::replace(&mut self.line, rest);
            self.err_line(shift, worker, job, line);
        }
    }

    fn err_line(&self, shift: &Shift, worker: &mut Worker, job: &GrabbedJob, line: Vec<u8>) {
        let prefix = self.recipe.status_prefix.as_deref();
        if let Some((done, of)) = prefix.and_then(|prefix| progress(prefix, &line)) {
            shift.tell(worker.status(job, done, of));
        } else if self.recipe.warnings {
            shift.tell(worker.warning(job, line));
        } else {
            pass_on(&line);
        }
    }

    /// Sends the last line of stderr, if it has no end.
    fn flush(&mut self, shift: &Shift, worker: &mut Worker, job: &GrabbedJob) {
        // Puts what follows on a line of its own.
        if self.last.is_open() && !self.recipe.reads_lines() {
            pass_on(b"\n");
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.err_line(shift, worker, job, line);
        }
    }
}

/// Writes to the tool's own stderr, whose reader may have gone.
fn pass_on(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// The progress in a line such as `STATUS 3/10`.
fn progress(prefix: &str, line: &[u8]) -> Option<(u64, u64)> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix(prefix)?;
    let (done, of) = rest.trim().split_once('/')?;
    let of = of.trim().parse().ok().filter(|of| *of > 0)?;
    Some((done.trim().parse().ok()?, of))
}

impl Recipe {
    /// Whether lines of stderr mean something.
    fn reads_lines(&self) -> bool {
        self.warnings || self.status_prefix.is_some()
    }
}

/// The command for this job, and what must exist while it runs.
fn command(recipe: &Recipe, job: &GrabbedJob) -> Result<(Command, Data), CliError> {
    let (handle, function) = (show_handle(&job.handle), show_function(&job.function));
    let values = [("{handle}", handle.as_str()), ("{function}", function.as_str())];
    let (mut command, data) = recipe.command.command(&values, recipe.data, &job.workload)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    command
        .env("GEARCTL_HANDLE", &handle)
        .env("GEARCTL_FUNCTION", &function)
        .env("GEARCTL_UNIQUE", text(&job.unique))
        .env("GEARCTL_REDUCER", job.reducer.as_deref().map(text).unwrap_or_default())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok((command, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_lines() {
        assert_eq!(progress("STATUS ", b"STATUS 3/10\n"), Some((3, 10)));
        assert_eq!(progress("%", b"% 3 / 10 "), Some((3, 10)));
        for bad in
            [&b"STATUS 3"[..], b"STATUS x/1", b"STATUS 3/0", b"3/10", b"\xff", b"STATUS -1/2"]
        {
            assert_eq!(progress("STATUS", bad), None, "{bad:?}");
        }
    }
}
