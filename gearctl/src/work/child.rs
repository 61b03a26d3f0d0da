//! A command that handles a job: workload on its stdin, result from its stdout, both at the same time.

use std::io::{self, Write as _};

use clap::{Args, ValueEnum};
use ctl_core::commands::work::{self, CommandEnd, Given, Shift};
use ctl_core::system::child::{Piece, Place};
use gearman_client::ErrorKind;
use gearman_client::blocking::{GrabbedJob, Worker};

use super::Ended;
use crate::names::{show_function, show_handle};

/// How to run the command, and what its output means.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The command.
    pub command: work::Recipe,
    /// Its output.
    pub output: OutputArgs,
}

/// What becomes of the command's output.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Stream output while the command runs
    #[arg(hide_short_help = true, long, value_name = "HOW")]
    stream: Option<Stream>,

    /// Send lines of stderr as warnings
    #[arg(hide_short_help = true, long)]
    warnings: bool,

    /// Treat stderr lines starting with TEXT as progress, e.g. `STATUS 3/10` with --status-prefix STATUS
    #[arg(hide_short_help = true, long, value_name = "TEXT")]
    status_prefix: Option<String>,

    /// Fail with the end of stderr as an exception
    #[arg(hide_short_help = true, long)]
    exception_from_stderr: bool,
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
) -> (Ended, CommandEnd) {
    let (handle, function) = (show_handle(&job.handle), show_function(&job.function));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let given = Given {
        label: format!("job {handle} of {function}"),
        values: &[("{handle}", handle.as_str()), ("{function}", function.as_str())],
        environment: &[
            ("GEARCTL_HANDLE", handle.clone()),
            ("GEARCTL_FUNCTION", function.clone()),
            ("GEARCTL_UNIQUE", text(&job.unique)),
            ("GEARCTL_REDUCER", job.reducer.as_deref().map(text).unwrap_or_default()),
        ],
        body: &job.workload,
        time_left: None,
    };
    let mut output = Output { recipe, shift, worker, job, out: vec![], err: vec![], line: vec![] };
    let (ended, end) =
        shift.run(&recipe.command, &given, || false, || {}, |piece| output.take(piece));
    if ended == work::Ended::GivenUp {
        return (Ended::Stopped, end);
    }
    let line = std::mem::take(&mut output.line);
    if !line.is_empty() {
        let _ = io::stderr().write_all(&output.err_line(line));
    }
    let Output { out, err, .. } = output;
    let ended = match ended {
        work::Ended::Code(0) => Ended::Complete(out),
        work::Ended::Code(75) => Ended::GivenBack,
        work::Ended::Unfit => Ended::Fail,
        _ if recipe.output.exception_from_stderr => Ended::Exception(err),
        _ => Ended::Fail,
    };
    (ended, end)
}

/// Output of the command, and what of it has not been sent yet.
struct Output<'a> {
    recipe: &'a Recipe,
    shift: &'a Shift,
    worker: &'a mut Worker,
    job: &'a GrabbedJob,
    out: Vec<u8>,
    err: Vec<u8>,
    /// The beginning of a line of stderr.
    line: Vec<u8>,
}

impl Output<'_> {
    /// Takes a piece, and returns what goes to the tool's stderr.
    fn take(&mut self, piece: Piece) -> Vec<u8> {
        match piece {
            Piece::Out(bytes) => {
                self.out(bytes);
                Vec::new()
            }
            Piece::Err(bytes) => self.err(bytes),
        }
    }

    fn out(&mut self, bytes: Vec<u8>) {
        match self.recipe.output.stream {
            None => self.out.extend_from_slice(&bytes),
            Some(Stream::Chunks) => self.send(|worker, job| worker.data(job, bytes)),
            Some(Stream::Lines) => {
                for line in whole_lines(&mut self.out, &bytes) {
                    self.send(|worker, job| worker.data(job, line));
                }
            }
        }
    }

    fn err(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.recipe.output.exception_from_stderr {
            self.err.extend_from_slice(&bytes);
            let excess = self.err.len().saturating_sub(KEPT);
            self.err.drain(..excess);
        }
        if !self.recipe.output.warnings && self.recipe.output.status_prefix.is_none() {
            return bytes;
        }
        let lines = whole_lines(&mut self.line, &bytes);
        lines.into_iter().flat_map(|line| self.err_line(line)).collect()
    }

    fn err_line(&mut self, line: Vec<u8>) -> Vec<u8> {
        let prefix = self.recipe.output.status_prefix.as_deref();
        if let Some((done, of)) = prefix.and_then(|prefix| progress(prefix, &line)) {
            self.send(|worker, job| worker.status(job, done, of));
        } else if self.recipe.output.warnings {
            self.send(|worker, job| worker.warning(job, line));
        } else {
            return line;
        }
        Vec::new()
    }

    /// Sends the submitters intermediate data. A lost connection is noticed at the end of the job.
    fn send(&mut self, send: impl FnOnce(&mut Worker, &GrabbedJob) -> gearman_client::Result<()>) {
        if let Err(error) = send(self.worker, self.job)
            && error.kind() != ErrorKind::JobLost
        {
            self.shift.messages().decision(error.to_string());
        }
    }
}

/// Adds to what is kept, and takes the lines that are complete.
fn whole_lines(kept: &mut Vec<u8>, bytes: &[u8]) -> Vec<Vec<u8>> {
    kept.extend_from_slice(bytes);
    let end = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rest = kept.split_off(end);
    let whole = std::mem::replace(kept, rest);
    whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// The progress in a line such as `STATUS 3/10`.
fn progress(prefix: &str, line: &[u8]) -> Option<(u64, u64)> {
    let rest = std::str::from_utf8(line).ok()?.strip_prefix(prefix)?;
    let (done, of) = rest.trim().split_once('/')?;
    let of = of.trim().parse().ok().filter(|of| *of > 0)?;
    Some((done.trim().parse().ok()?, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_progress_lines() {
        assert_eq!(progress("STATUS ", b"STATUS 3/10\n"), Some((3, 10)));
        assert_eq!(progress("%", b"% 3 / 10 "), Some((3, 10)));
        for bad in
            [&b"STATUS 3"[..], b"STATUS x/1", b"STATUS 3/0", b"3/10", b"\xff", b"STATUS -1/2"]
        {
            assert_eq!(progress("STATUS", bad), None, "{bad:?}");
        }
    }
}
