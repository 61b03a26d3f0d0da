//! Runs a handler command: feeds its stdin and reads its output concurrently, and ends it with all its children.

mod data;
mod last_line;
mod template;

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::system::process;

pub use data::{Data, DataArgs};
pub use last_line::LastLine;
pub use template::{Place, Template};

/// How often to poll a running command.
const SLICE: Duration = Duration::from_millis(10);
/// How long a command may take to end after SIGTERM, and how long its background processes may hold its pipes open.
const PATIENCE: Duration = Duration::from_secs(2);

/// Output of the command.
#[derive(Debug)]
pub enum Piece {
    /// From stdout.
    Out(Vec<u8>),
    /// From stderr.
    Err(Vec<u8>),
}

/// What to do with a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Let it run.
    GoOn,
    /// Send SIGTERM, and kill it after 2 s.
    End,
    /// As `End`, without waiting for the result.
    GiveUp,
}

/// A running command, which ends at the latest when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    own_group: bool,
    pieces: Receiver<Piece>,
    /// When it was asked to end.
    asked: Option<Instant>,
    given_up: bool,
    /// The background processes that were ended.
    left: Option<Vec<String>>,
}

impl Running {
    /// Starts the command in its own process group. Serves its pipes: `input` goes to its stdin, and
    /// [`watch`](Self::watch) delivers its output.
    ///
    /// # Errors
    /// The command does not exist: exit 127; it cannot be run: exit 126; the system has no room for it now: exit 75,
    /// and nothing of it has run.
    pub fn start(
        mut command: Command,
        input: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Self, CliError> {
        let own_group = process::group(&mut command);
        let (sender, pieces) = mpsc::sync_channel(16);
        let err = sender.clone();
        // Start the threads first: if one cannot be started, the command must not have run.
        let feeder = serve(move |stdin| feed(stdin, input.as_ref()))?;
        let out_pump = serve(move |stdout| pump(stdout, &sender, Piece::Out))?;
        let err_pump = serve(move |stderr| pump(stderr, &err, Piece::Err))?;
        let mut child = process::spawn(&mut command)?;
        // The serving thread waits for the pipe, so sending succeeds.
        child.stdin.take().map(|stdin| feeder.send(stdin));
        child.stdout.take().map(|stdout| out_pump.send(stdout));
        child.stderr.take().map(|stderr| err_pump.send(stderr));
        Ok(Self { child, own_group, pieces, asked: None, given_up: false, left: None })
    }

    /// Waits for the command and its output to end. Polls `order` meanwhile. `None` if it was given up.
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
                // A background process holds the pipes open.
                Some((_, when)) if when.elapsed() > PATIENCE => {
                    let members = || process::members(&self.child, self.own_group);
                    self.left.get_or_insert_with(members);
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

    /// The background processes that held the command's output open, and were ended after 2 s: names with process ids,
    /// where the system reports them.
    #[must_use]
    pub fn left_behind(&self) -> Option<String> {
        let left = self.left.as_ref()?;
        let names = if left.is_empty() { "a process".to_owned() } else { left.join(", ") };
        Some(format!("killed processes that its command left running: {names}"))
    }

    /// Asks the command to end, and kills it if it does not.
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

/// Starts a thread for a pipe that is sent later; it ends if the sender is dropped.
fn serve<P: Send + 'static>(
    work: impl FnOnce(P) + Send + 'static,
) -> Result<mpsc::Sender<P>, CliError> {
    let (sender, pipe) = mpsc::channel();
    thread::Builder::new()
        .name("pump".to_owned())
        .spawn(move || pipe.recv().map(work))
        .map(|_| sender)
        .map_err(|error| process::no_thread(&error))
}

/// A command need not read all of its stdin.
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
