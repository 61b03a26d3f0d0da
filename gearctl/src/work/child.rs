//! A command that handles a job: workload on its stdin, result from its stdout, both at the same time.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use ctl_core::error::{CliError, Exit};
use ctl_core::process;
use gearman_client::blocking::{GrabbedJob, Worker};

use super::{Ended, Outcome, Shift};
use crate::names::{show_function, show_handle};

/// How to run the command.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Whether output goes out while the command runs.
    pub stream: Option<Stream>,
    /// stderr goes to the submitter as warnings.
    pub warnings: bool,
    /// A failure is an exception with the end of stderr.
    pub exception: bool,
    /// The longest a command may run.
    pub max_runtime: Option<Duration>,
}

/// The value of `--stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    /// Line by line.
    Lines,
    /// As it comes.
    Chunks,
}

/// How often a running command is looked at.
const SLICE: Duration = Duration::from_millis(10);
/// How long a command may take to end after SIGTERM, and what it has left behind may keep its pipes open.
const PATIENCE: Duration = Duration::from_secs(2);
/// So much of stderr is kept for an exception.
const KEPT: usize = 64 << 10;

/// Something that the command wrote.
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// Runs the command for a job.
pub(super) fn run(
    recipe: &Recipe,
    shift: &Shift,
    worker: &mut Worker,
    job: &GrabbedJob,
) -> Outcome {
    let mut running = match Running::start(recipe, job) {
        Ok(running) => running,
        Err(error) => return Ended::Broken(error).into(),
    };
    let mut output = Collected::new(recipe);
    let status = running.watch(shift, recipe.max_runtime, |piece| match piece {
        Piece::Out(bytes) => {
            for data in output.out(bytes) {
                shift.tell(worker.data(job, data));
            }
        }
        Piece::Err(bytes) => output.err(shift, worker, job, &bytes),
    });
    let Some(status) = status else { return Ended::Stopped.into() };
    output.flush(shift, worker, job);
    let ended = match (status.success(), recipe.exception) {
        (true, _) => Ended::Complete(output.out),
        (false, false) => Ended::Fail,
        (false, true) => Ended::Exception(output.err),
    };
    Outcome { ended, exit: status.code(), signal: process::signal(status) }
}

/// What the command wrote and was not sent yet.
struct Collected<'a> {
    recipe: &'a Recipe,
    out: Vec<u8>,
    err: Vec<u8>,
    /// The beginning of a line of stderr.
    line: Vec<u8>,
}

impl<'a> Collected<'a> {
    fn new(recipe: &'a Recipe) -> Self {
        Self { recipe, out: Vec::new(), err: Vec::new(), line: Vec::new() }
    }

    /// Takes a piece of stdout, and gives what is to be sent now.
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
        if self.recipe.exception {
            self.err.extend_from_slice(bytes);
            let excess = self.err.len().saturating_sub(KEPT);
            self.err.drain(..excess);
        }
        if self.recipe.warnings {
            self.line.extend_from_slice(bytes);
            while let Some(at) = self.line.iter().position(|byte| *byte == b'\n') {
                let rest = self.line.split_off(at + 1);
                let line = std::mem::replace(&mut self.line, rest);
                shift.tell(worker.warning(job, line));
            }
        } else {
            // Who reads the tool's stderr may be gone.
            let _ = io::stderr().write_all(bytes);
        }
    }

    /// Sends the last line of stderr, if it has no end.
    fn flush(&mut self, shift: &Shift, worker: &mut Worker, job: &GrabbedJob) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            shift.tell(worker.warning(job, line));
        }
    }
}

/// A command that does not outlive this value.
struct Running {
    child: Child,
    own_group: bool,
    pieces: Receiver<Piece>,
    /// When it was asked to end.
    asked: Option<Instant>,
    /// It is too late for its result: the job is to be given back.
    given_up: bool,
}

impl Running {
    fn start(recipe: &Recipe, job: &GrabbedJob) -> Result<Self, CliError> {
        let mut command = command(recipe, job)?;
        let own_group = process::group(&mut command);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                CliError::new(Exit::Own(127), "NOT_FOUND", format!("command {name} does not exist"))
            }
            _ => CliError::new(Exit::Own(126), "IO", format!("cannot run {name}: {error}")),
        })?;
        let (sender, pieces) = mpsc::sync_channel(16);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = Self { child, own_group, pieces, asked: None, given_up: false };
        let workload = job.workload.clone();
        if let Some(stdin) = stdin {
            spawn(move || feed(stdin, &workload))?;
        }
        if let Some(stdout) = stdout {
            let sender = sender.clone();
            spawn(move || pump(stdout, &sender, Piece::Out))?;
        }
        if let Some(stderr) = stderr {
            spawn(move || pump(stderr, &sender, Piece::Err))?;
        }
        Ok(running)
    }

    /// Waits for the end of the command, and of what it writes. None when it was ended because the shift is over.
    fn watch(
        &mut self,
        shift: &Shift,
        max_runtime: Option<Duration>,
        mut take: impl FnMut(Piece),
    ) -> Option<ExitStatus> {
        let start = Instant::now();
        let mut ended: Option<(ExitStatus, Instant)> = None;
        let mut open = true;
        loop {
            if open {
                match self.pieces.recv_timeout(SLICE) {
                    Ok(piece) => take(piece),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
            }
            match ended {
                Some((status, _)) if !open => return (!self.given_up).then_some(status),
                // Something that the command has started keeps its pipes open.
                Some((_, when)) if when.elapsed() > PATIENCE => {
                    process::kill(&self.child, self.own_group);
                }
                Some(_) => {}
                None => {
                    if let Ok(Some(status)) = self.child.try_wait() {
                        ended = Some((status, Instant::now()));
                    } else if !open {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            if ended.is_none() {
                self.given_up |= shift.is_killed();
                if self.given_up || max_runtime.is_some_and(|most| start.elapsed() >= most) {
                    self.end();
                }
            }
        }
    }

    /// Asks the command to end, and ends it when it does not.
    fn end(&mut self) {
        match self.asked {
            None => {
                self.asked = Some(Instant::now());
                process::terminate(&self.child, self.own_group);
            }
            Some(asked) if asked.elapsed() >= PATIENCE => {
                process::kill(&self.child, self.own_group);
                let _ = self.child.kill();
            }
            Some(_) => {}
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            process::kill(&self.child, self.own_group);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn command(recipe: &Recipe, job: &GrabbedJob) -> Result<Command, CliError> {
    let (handle, function) = (show_handle(&job.handle), show_function(&job.function));
    let Some((program, arguments)) = recipe.command.split_first() else {
        return Err(CliError::usage("no command given"));
    };
    let mut command = Command::new(program);
    for argument in arguments {
        match argument.to_str() {
            Some(text) => {
                command.arg(text.replace("{handle}", &handle).replace("{function}", &function))
            }
            None => command.arg(argument),
        };
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    command
        .env("GEARCTL_HANDLE", &handle)
        .env("GEARCTL_FUNCTION", &function)
        .env("GEARCTL_UNIQUE", text(&job.unique))
        .env("GEARCTL_REDUCER", job.reducer.as_deref().map(text).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(if recipe.warnings || recipe.exception {
            Stdio::piped()
        } else {
            Stdio::inherit()
        });
    Ok(command)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    thread::Builder::new()
        .name("pump".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| CliError::internal(format!("cannot start a thread: {error}")))
}

/// A command that does not read all of its stdin is no failure.
fn feed(mut stdin: impl Write, workload: &Bytes) {
    let _ = stdin.write_all(workload);
}

fn pump(mut from: impl Read, to: &SyncSender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let bytes = buffer.get(..n).unwrap_or_default().to_vec();
                if to.send(piece(bytes)).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
