//! A command that handles something: input on its stdin, output as it comes, both at the same time, and ended with all
//! that it has started.

mod data;

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{CliError, Exit};
use crate::process;

pub use data::{Data, DataArgs};

/// How often a running command is looked at.
const SLICE: Duration = Duration::from_millis(10);
/// How long a command may take to end after SIGTERM, and what it has left behind may keep its pipes open.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something that the command wrote.
#[derive(Debug)]
pub enum Piece {
    /// To stdout.
    Out(Vec<u8>),
    /// To stderr.
    Err(Vec<u8>),
}

/// What is to happen to a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It goes on.
    GoOn,
    /// It is asked to end, and after 2 s it is ended.
    End,
    /// The same, and nobody wants to know how it ended.
    GiveUp,
}

/// A command that does not outlive this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
    own_group: bool,
    pieces: Receiver<Piece>,
    /// When it was asked to end.
    asked: Option<Instant>,
    given_up: bool,
}

impl Running {
    /// Starts the command in a process group of its own. What it has of pipes is served: `input` goes to its stdin, and
    /// its output is there for [`watch`](Self::watch).
    ///
    /// # Errors
    /// The command does not exist: exit 127; it cannot be run: exit 126.
    pub fn start(
        mut command: Command,
        input: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Self, CliError> {
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
        if let Some(stdin) = stdin {
            spawn(move || feed(stdin, input.as_ref()))?;
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

    /// Waits for the end of the command, and of what it writes. `order` is asked again and again while it runs. None when
    /// it was given up.
    pub fn watch(
        &mut self,
        mut order: impl FnMut() -> Order,
        mut take: impl FnMut(Piece),
    ) -> Option<ExitStatus> {
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
                let order = order();
                self.given_up |= order == Order::GiveUp;
                if order != Order::GoOn || self.asked.is_some() {
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

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    thread::Builder::new()
        .name("pump".to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| CliError::internal(format!("cannot start a thread: {error}")))
}

/// A command that does not read all of its stdin is no failure.
fn feed(mut stdin: impl Write, input: &[u8]) {
    let _ = stdin.write_all(input);
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn a_large_input_comes_back_whole() {
        let input: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        let mut running = Running::start(shell("cat"), input.clone()).unwrap();
        let mut back = Vec::new();
        let status = running.watch(
            || Order::GoOn,
            |piece| match piece {
                Piece::Out(bytes) => back.extend(bytes),
                Piece::Err(bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
            },
        );
        assert!(status.unwrap().success() && back == input);
    }

    #[test]
    fn a_command_that_ignores_the_first_signal_is_ended() {
        let mut running =
            Running::start(shell("trap '' TERM; echo ready; sleep 1000 & wait; wait"), "").unwrap();
        let mut is_ready = false;
        let seen = std::cell::Cell::new(false);
        let status = running.watch(
            || if seen.get() { Order::End } else { Order::GoOn },
            |_| {
                is_ready = true;
                seen.set(true);
            },
        );
        assert!(is_ready);
        assert_eq!(process::signal(status.unwrap()), Some(9));
    }

    #[test]
    fn a_command_that_is_given_up_has_no_status() {
        let mut running = Running::start(shell("sleep 1000"), "").unwrap();
        assert!(running.watch(|| Order::GiveUp, |_| {}).is_none());
    }

    #[test]
    fn a_command_that_does_not_exist_is_127() {
        let error = Running::start(Command::new("/no/such/command"), "").unwrap_err();
        assert_eq!(error.exit.code(), 127);
    }
}
