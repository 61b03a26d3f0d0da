//! Runs a handler command: feeds its stdin and reads its output concurrently, and ends it with all its children.

mod data;
mod last_line;
mod pipe;
mod template;

use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use self::pipe::Watched;
use crate::error::CliError;
use crate::system::family::Family;
use crate::system::family::guard::{Guard, Guarded};
use crate::system::process;

pub use data::{Data, DataArgs};
pub use last_line::LastLine;
pub use template::{Place, Template};

/// How often to poll a running command.
const SLICE: Duration = Duration::from_millis(10);
/// How long a command may take to end after SIGTERM, and how long others may hold its output open after its end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to read what processes wrote before they were killed.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Output of the command.
#[derive(Debug)]
pub enum Piece {
    /// From stdout.
    Out(Vec<u8>),
    /// From stderr.
    Err(Vec<u8>),
}

impl Piece {
    /// From wherever it is.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Out(bytes) | Self::Err(bytes) => bytes,
        }
    }
}

/// The decision about a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Let it run.
    GoOn,
    /// Send SIGTERM, and kill it after 2 s.
    End,
    /// Kill it.
    Kill,
    /// As `End`, without waiting for the result.
    GiveUp,
}

/// A running command, which ends at the latest when this is dropped.
#[derive(Debug)]
pub struct Running {
    family: Family,
    pieces: Receiver<Piece>,
    /// The identities of the pipes for its output.
    pipes: Vec<u64>,
    /// Whether its output has not ended.
    is_open: bool,
    /// Ends the threads of its pipes.
    over: Arc<AtomicBool>,
    /// When it was asked to end.
    asked: Option<Instant>,
    left: Option<String>,
}

impl Running {
    /// Starts the command in its own process group, which the guard, if there is one, kills if this process is killed.
    /// Serves its pipes: `input` goes to its stdin, and [`watch`](Self::watch) delivers its output.
    ///
    /// # Errors
    /// The command does not exist: exit 127; it cannot be run: exit 126; the system has no room for it now: exit 75,
    /// and nothing of it has run.
    pub(crate) fn start(
        mut command: Command,
        input: impl AsRef<[u8]> + Send + 'static,
        guard: Option<&Arc<Guard>>,
    ) -> Result<Self, CliError> {
        let own_group = process::group(&mut command);
        let (out, pieces) = mpsc::sync_channel(16);
        let (err, over) = (out.clone(), Arc::<AtomicBool>::default());
        // Start the threads first: if one cannot be started, the command must not have run.
        let feeder = serve(&over, move |stdin| pipe::feed(stdin, input.as_ref()))?;
        let out_pump = serve(&over, move |stdout| pipe::pump(stdout, &out, Piece::Out))?;
        let err_pump = serve(&over, move |stderr| pipe::pump(stderr, &err, Piece::Err))?;
        let guarded = guard.map(|guard| Guarded::new(guard, &mut command));
        let mut child = process::spawn(&mut command)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pipes =
            [stdout.as_ref().and_then(pipe::identity), stderr.as_ref().and_then(pipe::identity)];
        // The serving thread waits for the pipe, so sending succeeds.
        child.stdin.take().map(|stdin| feeder.send(stdin));
        stdout.map(|stdout| out_pump.send(stdout));
        stderr.map(|stderr| err_pump.send(stderr));
        Ok(Self {
            family: Family::of(child, own_group).guarded_by(guarded),
            pieces,
            pipes: pipes.into_iter().flatten().collect(),
            is_open: true,
            over,
            asked: None,
            left: None,
        })
    }

    /// Waits for the command to end, and polls `order` meanwhile; then for its output, which others may hold open, for
    /// 2 s. `None` if it was given up.
    pub fn watch(
        &mut self,
        mut order: impl FnMut() -> Order,
        mut take: impl FnMut(Piece),
    ) -> Option<ExitStatus> {
        let mut is_given_up = false;
        while !self.family.has_ended() {
            self.listen(&mut take);
            match order() {
                Order::GoOn if self.asked.is_none() => {}
                Order::Kill => self.end(Duration::ZERO),
                order => {
                    is_given_up |= order == Order::GiveUp;
                    self.end(PATIENCE);
                }
            }
        }
        let ended = Instant::now();
        let is_hurried = |order| matches!(order, Order::Kill | Order::GiveUp);
        while self.is_open && ended.elapsed() < PATIENCE && !is_hurried(order()) {
            self.listen(&mut take);
        }
        if self.is_open {
            self.left = Some(left_behind(self.family.remains(&self.pipes)));
        }
        if self.is_open || self.asked.is_some() {
            self.family.kill();
        }
        let status = self.family.reap().ok();
        let killed = Instant::now();
        while self.is_open && killed.elapsed() < LAST_WORDS {
            self.listen(&mut take);
        }
        if is_given_up { None } else { status }
    }

    /// The processes that the command left running with its output open, and their fate 2 s after its end.
    pub fn left_behind(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// Whether it was asked to end, or killed, before it ended.
    pub fn was_ended(&self) -> bool {
        self.asked.is_some()
    }

    /// Passes on the next piece of output, if one comes soon.
    fn listen(&mut self, take: &mut impl FnMut(Piece)) {
        if !self.is_open {
            thread::sleep(Duration::from_millis(1));
            return;
        }
        match self.pieces.recv_timeout(SLICE) {
            Ok(piece) => take(piece),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.is_open = false,
        }
    }

    /// Asks the command to end, and kills it if it does not within this time.
    fn end(&mut self, patience: Duration) {
        let is_asked = self.asked.is_some();
        if self.asked.get_or_insert_with(Instant::now).elapsed() >= patience {
            self.family.kill();
        } else if !is_asked {
            self.family.terminate();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// The processes left behind: members of the group, which are killed, and others that hold its output.
fn left_behind((members, holders): (Vec<String>, Vec<String>)) -> String {
    let killed = format!("killed processes that its command left running: {}", members.join(", "));
    let abandoned =
        "its command left processes running that hold its output, which is no longer read";
    match (members.is_empty(), holders.is_empty()) {
        (false, true) => killed,
        (true, true) => abandoned.to_owned(),
        (true, false) => format!("{abandoned}: {}", holders.join(", ")),
        (false, false) => format!("{killed}; {abandoned}: {}", holders.join(", ")),
    }
}

/// Starts a thread for a pipe that is sent later; it ends if the sender is dropped.
fn serve<P: pipe::Pipe>(
    over: &Arc<AtomicBool>,
    work: impl FnOnce(Watched<P>) + Send + 'static,
) -> Result<mpsc::Sender<P>, CliError> {
    let (sender, pipe) = mpsc::channel();
    let over = Arc::clone(over);
    process::thread("pump", move || pipe.recv().map(|pipe| work(Watched::new(pipe, over))))?;
    Ok(sender)
}

#[cfg(unix)]
#[cfg(test)]
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
        let mut running = Running::start(shell("cat"), input.clone(), None).unwrap();
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
            Running::start(shell("trap '' TERM; echo ready; sleep 1000 & wait; wait"), "", None)
                .unwrap();
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

    /// A process of the command that its group's signals do not reach.
    #[test]
    fn a_detached_process_does_not_delay_the_command() {
        let mut running =
            Running::start(shell("setsid sleep 1000 & echo $!; exit 3"), "", None).unwrap();
        let mut pid = Vec::new();
        let status = running.watch(
            || Order::GoOn,
            |piece| match piece {
                Piece::Out(bytes) | Piece::Err(bytes) => pid.extend(bytes),
            },
        );
        let pid = String::from_utf8(pid).unwrap().trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let left = running.left_behind().unwrap();
        assert!(left.contains("hold its output, which is no longer read"), "{left}");
        if cfg!(target_os = "linux") {
            assert!(left.ends_with(&format!(": sleep (process {pid})")), "{left}");
        }
    }

    #[test]
    fn an_abandoned_command_has_no_status() {
        let mut running = Running::start(shell("sleep 1000"), "", None).unwrap();
        assert!(running.watch(|| Order::GiveUp, |_| {}).is_none());
    }

    #[test]
    fn a_missing_command_exits_127() {
        let error = Running::start(Command::new("/no/such/command"), "", None).unwrap_err();
        assert_eq!(error.exit.code(), 127);
    }
}
