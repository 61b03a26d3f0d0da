//! Ctrl-C, SIGTERM and SIGHUP: the first means "finish what is in flight", the second "stop at once" (while an answer is
//! awaited, "give it up": see `attention`).
//!
//! SIGHUP never counts as the second: a closing terminal sends it more than once. If it is ignored from the start, as
//! under nohup, it stays ignored.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{CliError, Exit};
use crate::system::pause::wait;

/// Tells a running command whether to end; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    /// The last signal, 0 for none.
    signal: Arc<AtomicUsize>,
    /// Whether the next SIGINT or SIGTERM ends the process at once.
    armed: Arc<AtomicBool>,
}

impl Interrupts {
    /// Never interrupted by a signal, only by [`Interrupts::raise`].
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Catches SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    /// The system denies the handlers: exit 70.
    pub fn install() -> Result<Self, CliError> {
        let interrupts = Self::default();
        denied(interrupts.catch_all())?;
        Ok(interrupts)
    }

    /// Catches only what ends a session and cannot be undone, SIGTERM and SIGHUP, in addition to
    /// [`Interrupts::install`], which must be called first: each signal also interrupts a running command.
    ///
    /// # Errors
    /// As [`Interrupts::install`].
    pub(crate) fn of_end() -> Result<Self, CliError> {
        let end = Self::default();
        let mut signals = [Some(SIGTERM), hangup()].into_iter().flatten();
        denied(signals.try_for_each(|signal| note(signal, &end.signal)))?;
        Ok(end)
    }

    fn catch_all(&self) -> io::Result<()> {
        flag::register(SIGINT, Arc::clone(&ECHOED))?;
        for (signal, exit) in ENDS {
            flag::register_conditional_shutdown(
                signal,
                exit.code().into(),
                Arc::clone(&self.armed),
            )?;
            note(signal, &self.signal)?;
        }
        hangup().map_or(Ok(()), |signal| note(signal, &self.signal))
    }

    /// From now on, the next SIGINT or SIGTERM ends the process at once.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// From now on, each SIGINT or SIGTERM [arms](Interrupts::arm), so that the second one ends the process at once.
    ///
    /// # Errors
    /// As [`Interrupts::install`].
    pub(crate) fn arm_by_signal(&self) -> Result<(), CliError> {
        // Handlers run in the order of their registration, so the first signal only arms.
        let mut arms =
            ENDS.iter().map(|(signal, _)| flag::register(*signal, Arc::clone(&self.armed)));
        denied(arms.try_for_each(|registered| registered.map(|_| ())))
    }

    /// The exit code of the signal, if one came.
    pub fn requested(&self) -> Option<Exit> {
        match i32::try_from(self.signal.load(Ordering::SeqCst)) {
            Ok(0) => None,
            Ok(SIGTERM) => Some(Exit::Terminated),
            #[cfg(unix)]
            Ok(SIGHUP) => Some(Exit::HungUp),
            _ => Some(Exit::Interrupted),
        }
    }

    /// Fails if a signal came.
    ///
    /// # Errors
    /// Exit 129, 130 or 143.
    pub fn check(&self) -> Result<(), CliError> {
        self.requested().map_or(Ok(()), |exit| Err(CliError::interrupted(exit)))
    }

    /// Acts as if SIGINT had come.
    pub fn raise(&self) {
        self.signal.store(usize::try_from(SIGINT).unwrap_or(usize::MAX), Ordering::SeqCst);
    }

    /// Forgets the signal: a session continues after an interrupted command.
    pub fn clear(&self) {
        self.signal.store(0, Ordering::SeqCst);
    }

    /// Sleeps for `duration`, or less if a signal comes.
    ///
    /// # Errors
    /// A signal came: exit 129, 130 or 143.
    pub fn sleep(&self, duration: Duration) -> Result<(), CliError> {
        wait(duration, Duration::from_millis(50), || self.requested().is_some());
        self.check()
    }
}

/// The signals that end a process, and its exit codes.
const ENDS: [(i32, Exit); 2] = [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)];

fn denied(registered: io::Result<()>) -> Result<(), CliError> {
    registered.map_err(|error| CliError::internal(format!("cannot catch signals: {error}")))
}

/// Set by SIGINT: the terminal has shown `^C`, and the cursor is behind it.
static ECHOED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether the terminal has shown `^C` since the last call, so that a line end is needed first.
pub(crate) fn take_echo() -> bool {
    ECHOED.swap(false, Ordering::SeqCst)
}

/// Stores the number of a signal in `last` when it arrives.
fn note(signal: i32, last: &Arc<AtomicUsize>) -> io::Result<()> {
    let number = usize::try_from(signal).unwrap_or(usize::MAX);
    flag::register_usize(signal, Arc::clone(last), number).map(|_| ())
}

/// SIGHUP, unless it is ignored or does not exist.
fn hangup() -> Option<i32> {
    #[cfg(unix)]
    let signal = Some(SIGHUP);
    #[cfg(not(unix))]
    let signal = None;
    signal.filter(|_| !is_hangup_ignored())
}

/// Whether this process was started with SIGHUP ignored, as by nohup. Always false except on Unix.
pub fn is_hangup_ignored() -> bool {
    // A session asks twice, and starting a shell is expensive.
    #[cfg(unix)]
    static IS_IGNORED: LazyLock<bool> =
        LazyLock::new(|| system_ignores(SIGHUP).unwrap_or_else(shell_says));
    #[cfg(unix)]
    return *IS_IGNORED;
    #[cfg(not(unix))]
    false
}

/// Keeps the exit codes of children: if this process was started with SIGCHLD ignored, the system discards them.
pub(crate) fn heed_children() {
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGCHLD;

        static HEEDED: LazyLock<()> = LazyLock::new(|| {
            if system_ignores(SIGCHLD) == Some(true) {
                // With any handler at all, it is not ignored.
                let _ = flag::register(SIGCHLD, Arc::default());
            }
        });
        LazyLock::force(&HEEDED);
    }
}

/// Whether a signal is ignored, from Linux's status of this process, which has the ignored signals as bits. Only the
/// unsafe C interface reports that on all systems.
#[cfg(unix)]
fn system_ignores(signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    Some(ignored >> (signal - 1) & 1 == 1)
}

/// Whether SIGHUP is ignored, from a shell: it cannot trap signals ignored at its start (POSIX, Shell Command Language,
/// trap).
#[cfg(unix)]
fn shell_says() -> bool {
    use std::process::{Command, Stdio};

    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "trap 'exit 1' HUP; kill -HUP $$; exit 0"]);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn signal_numbers_match_the_shell() {
        if let Some(is_ignored) = system_ignores(SIGHUP) {
            assert_eq!(shell_says(), is_ignored);
        }
    }

    #[test]
    fn exits_are_those_of_a_shell() {
        let ending = Interrupts::none();
        assert_eq!(ending.requested(), None);
        ending.signal.store(15, Ordering::SeqCst);
        assert_eq!(ending.requested(), Some(Exit::Terminated));
        ending.signal.store(1, Ordering::SeqCst);
        assert_eq!(ending.requested().map(Exit::code), Some(129));
    }

    #[test]
    fn an_interrupt_ends_waits_until_cleared() {
        let interrupts = Interrupts::none();
        assert!(interrupts.sleep(Duration::from_millis(1)).is_ok());
        interrupts.clone().raise();
        let error = interrupts.sleep(Duration::from_secs(3600)).unwrap_err();
        assert_eq!(error.exit, Exit::Interrupted);
        interrupts.clear();
        assert!(interrupts.check().is_ok());
    }
}
