//! Ctrl-C and SIGTERM: once means "finish what is in flight", twice means "stop at once".

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{CliError, Exit};

/// What a running command asks whether it should end; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    /// The number of the last signal, 0 for none.
    signal: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Never interrupted by a signal, only by [`Interrupts::raise`].
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Catches SIGINT and SIGTERM from now on; with `second_stops` the second one ends the process at once.
    ///
    /// # Errors
    /// The operating system refuses the handlers: exit 70.
    pub fn install(second_stops: bool) -> Result<Self, CliError> {
        let interrupts = Self::default();
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)] {
            interrupts
                .catch(signal, exit, second_stops)
                .map_err(|error| CliError::internal(format!("cannot catch signals: {error}")))?;
        }
        Ok(interrupts)
    }

    fn catch(&self, signal: i32, exit: Exit, second_stops: bool) -> io::Result<()> {
        if second_stops {
            // Registered before the flag that arms it, so that the first signal only arms.
            let armed = Arc::new(AtomicBool::new(false));
            flag::register_conditional_shutdown(signal, exit.code().into(), Arc::clone(&armed))?;
            flag::register(signal, armed)?;
        }
        self.also(signal)
    }

    /// Catches a further signal.
    pub(crate) fn also(&self, signal: i32) -> io::Result<()> {
        let number = usize::try_from(signal).unwrap_or(usize::MAX);
        flag::register_usize(signal, Arc::clone(&self.signal), number).map(|_| ())
    }

    /// The exit that a signal asks for, if one came.
    #[must_use]
    pub fn requested(&self) -> Option<Exit> {
        match i32::try_from(self.signal.load(Ordering::SeqCst)) {
            Ok(0) => None,
            Ok(SIGTERM) => Some(Exit::Terminated),
            _ => Some(Exit::Interrupted),
        }
    }

    /// Ends with the exit that a signal asks for, if one came.
    ///
    /// # Errors
    /// Exit 130 or 143.
    pub fn check(&self) -> Result<(), CliError> {
        self.requested().map_or(Ok(()), |exit| Err(CliError::interrupted(exit)))
    }

    /// Acts as if SIGINT had come.
    pub fn raise(&self) {
        self.signal.store(usize::try_from(SIGINT).unwrap_or(usize::MAX), Ordering::SeqCst);
    }

    /// Forgets what came: a session goes on after an interrupted command.
    pub fn clear(&self) {
        self.signal.store(0, Ordering::SeqCst);
    }

    /// Waits for `duration`, or less when a signal comes.
    ///
    /// # Errors
    /// Exit 130 or 143 when a signal came.
    pub fn sleep(&self, duration: Duration) -> Result<(), CliError> {
        let slice = Duration::from_millis(50);
        let start = Instant::now();
        loop {
            self.check()?;
            let rest = duration.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return Ok(());
            }
            thread::sleep(rest.min(slice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_interrupt_ends_waiting_until_it_is_cleared() {
        let interrupts = Interrupts::none();
        assert!(interrupts.sleep(Duration::from_millis(1)).is_ok());
        interrupts.clone().raise();
        let error = interrupts.sleep(Duration::from_secs(3600)).unwrap_err();
        assert_eq!(error.exit, Exit::Interrupted);
        interrupts.clear();
        assert!(interrupts.check().is_ok());
    }
}
