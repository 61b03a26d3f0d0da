//! The signals that end a session: SIGTERM and SIGHUP. Unlike Ctrl-C, they cannot be undone.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::error::{CliError, Exit};
use crate::system::signals;

/// Whether a signal has ended the session; clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    signal: Arc<AtomicUsize>,
}

impl Ending {
    /// Catches the signals from now on, in addition to [`Interrupts`](crate::system::signals::Interrupts), which must
    /// be created first: each signal also interrupts a running command.
    ///
    /// # Errors
    /// The operating system refuses the handlers: exit 70.
    pub fn install() -> Result<Self, CliError> {
        let ending = Self::default();
        for signal in [Some(signal_hook::consts::SIGTERM), signals::hangup()].into_iter().flatten()
        {
            signals::note(signal, &ending.signal)
                .map_err(|error| CliError::internal(format!("cannot catch signals: {error}")))?;
        }
        Ok(ending)
    }

    /// The exit code for the signal, if one arrived.
    #[must_use]
    pub fn requested(&self) -> Option<Exit> {
        signals::asked_for(&self.signal)
    }
}

/// Makes a line editor waiting for keys return, as if Ctrl-C had been typed.
pub(crate) fn wake_editor() {
    // This can only fail for a signal that does not exist.
    #[cfg(unix)]
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGINT);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn exits_are_those_of_a_shell() {
        let ending = Ending::default();
        assert_eq!(ending.requested(), None);
        ending.signal.store(15, Ordering::SeqCst);
        assert_eq!(ending.requested(), Some(Exit::Terminated));
        ending.signal.store(1, Ordering::SeqCst);
        assert_eq!(ending.requested().map(Exit::code), Some(129));
    }
}
