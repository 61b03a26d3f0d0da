//! Ctrl-C while a command waits for its server.
//!
//! Commands end by themselves between two requests. A request that was sent is waited for, because it may already be
//! done: a note says so, and the second signal gives it up; the command then says that it may have been done. The third
//! one ends a command at once, whatever else holds it up. Nothing has been sent while a command connects, so the first
//! signal ends that.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_core::blocking::Canceller;
use queue_core::lock;

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;
use crate::system::signals::Interrupts;

/// The tool's present activity, for its signal handling; clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attention {
    canceller: Canceller,
    /// The handle that ends the connections being made.
    connecting: Arc<Mutex<Vec<(usize, Canceller)>>>,
    /// Number of connections made or being made.
    attempts: Arc<AtomicUsize>,
    /// Whether no command runs.
    is_idle: Arc<AtomicBool>,
    /// The exit code of the signal that gave up waiting.
    exit: Arc<AtomicU8>,
}

/// How long a command may take to notice a signal by itself: longer than the longest wait in one request.
const NOTICED: Duration = Duration::from_millis(1200);
/// How often to check a command that was signalled.
const SLICE: Duration = Duration::from_millis(20);

impl Attention {
    /// Ends the calls of the connections that it is given to.
    pub(crate) fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Whether waiting was given up.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.canceller.is_cancelled()
    }

    /// The interruption of what was given up without a trace.
    pub(crate) fn interruption(&self) -> CliError {
        let is_term = self.exit.load(Ordering::SeqCst) == Exit::Terminated.code();
        CliError::interrupted(if is_term { Exit::Terminated } else { Exit::Interrupted })
    }

    /// Runs something that connects, and sends nothing that changes anything; `canceller` ends it.
    pub(crate) fn connecting<T>(&self, canceller: Canceller, connect: impl FnOnce() -> T) -> T {
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
        lock(&self.connecting).push((attempt, canceller));
        let connected = connect();
        lock(&self.connecting).retain(|(other, _)| *other != attempt);
        connected
    }

    /// In a session: whether a command runs now. A new one may wait again.
    pub(crate) fn running(&self, is_running: bool) {
        self.canceller.reset();
        self.is_idle.store(!is_running, Ordering::SeqCst);
    }

    /// Watches for signals on its own thread. With `ends_process`, the signal after the one that gave up a request
    /// ends the process at once. False if nothing watches.
    #[cfg(unix)]
    pub(crate) fn watch(
        &self,
        interrupts: &Interrupts,
        messages: &Messages,
        ends_process: bool,
    ) -> bool {
        use std::os::unix::net::UnixStream;
        use std::thread;

        let (attention, interrupts, messages) =
            (self.clone(), interrupts.clone(), messages.clone());
        let Ok((signals, wakes)) = UnixStream::pair() else { return false };
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let Ok(wakes) = wakes.try_clone() else { return false };
            let _ = signal_hook::low_level::pipe::register(signal, wakes);
        }
        let watch = move || {
            while next_signal(&signals, None) {
                let again = || next_signal(&signals, Some(SLICE));
                attention.attend(&interrupts, &messages, again);
                if ends_process && attention.is_cancelled() {
                    interrupts.arm();
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(watch).is_ok()
    }

    #[cfg(not(unix))]
    pub(crate) fn watch(&self, _: &Interrupts, _: &Messages, _: bool) -> bool {
        false
    }

    /// A signal has arrived: ends connecting, or waits until the signal has ended the command. `again` waits a moment
    /// for the next signal, which ends what the command waits for. What connects from now on cleans up.
    #[cfg(unix)]
    fn attend(&self, interrupts: &Interrupts, messages: &Messages, again: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        // The signal ends what the tool does now, although nothing else would notice it.
        let is_connecting = !lock(&self.connecting).is_empty();
        let mut is_said = false;
        let is_busy = || !self.is_idle.load(Ordering::SeqCst) && !self.is_cancelled();
        while interrupts.requested().is_some() && (is_connecting || is_busy()) {
            if is_connecting || again() {
                let exit = interrupts.requested().unwrap_or(Exit::Interrupted);
                self.exit.store(exit.code(), Ordering::SeqCst);
                self.canceller.cancel();
                return lock(&self.connecting).iter().for_each(|(_, attempt)| attempt.cancel());
            }
            if !is_said && start.elapsed() >= NOTICED {
                is_said = true;
                messages.note("waiting for the answer of the server; Ctrl-C again gives it up");
            }
        }
    }
}

/// Waits for a signal, at most for this time.
#[cfg(unix)]
fn next_signal(mut signals: &std::os::unix::net::UnixStream, most: Option<Duration>) -> bool {
    use std::io::{ErrorKind, Read as _};
    if signals.set_read_timeout(most).is_err() {
        return false;
    }
    loop {
        match signals.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return matches!(read, Ok(1..)),
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use super::*;

    fn attend(attention: &Attention, again: impl Fn() -> bool) -> bool {
        let interrupts = Interrupts::none();
        interrupts.raise();
        let messages = Messages::to(Box::new(io::sink()), "tool", false, false);
        attention.attend(&interrupts, &messages, again);
        attention.is_cancelled()
    }

    #[test]
    fn the_first_signal_ends_connecting_and_the_second_ends_a_wait() {
        let attention = Attention::default();
        let own = Canceller::new();
        let connect = || attend(&attention, || unreachable!("it has ended"));
        assert!(attention.connecting(own.clone(), connect) && own.is_cancelled());
        attention.running(true);
        let signals = Cell::new(0);
        let second = || signals.replace(signals.get() + 1) == 3;
        // A connection that was made with its own is not concerned.
        own.reset();
        assert!(attend(&attention, second) && signals.get() == 4 && !own.is_cancelled());
    }

    #[test]
    fn a_clean_up_may_connect_after_the_signal() {
        let attention = Attention::default();
        let slices = Cell::new(0);
        let connects = || {
            slices.set(slices.get() + 1);
            match slices.get() {
                1 => lock(&attention.connecting).push((0, Canceller::new())),
                _ => attention.running(false),
            }
            false
        };
        assert!(!attend(&attention, connects));
    }

    #[test]
    fn a_command_that_finishes_keeps_its_connection() {
        let attention = Attention::default();
        let ends = || {
            attention.running(false);
            false
        };
        assert!(!attend(&attention, ends));
        // Nothing runs while a person types.
        assert!(!attend(&attention, || unreachable!("nothing is to be ended")));
    }
}
