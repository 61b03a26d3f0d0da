//! Waits until the system has free resources again: descriptors, processes, threads, memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::CliError;
use crate::output::messages::Messages;
use crate::system::pause::wait;

/// The first pause, the longest, and how often to check for cancellation.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
const SLICE: Duration = Duration::from_millis(20);

/// A shortage that several threads may meet, reported once.
#[derive(Debug, Default)]
pub struct Shortage {
    told: AtomicBool,
}

impl Shortage {
    /// Retries while the system is short of resources, with pauses that grow to 5 s.
    ///
    /// # Errors
    /// The error of the attempt; a shortage only if cancelled.
    pub fn wait_out<T>(
        &self,
        messages: &Messages,
        gives_up: impl Fn() -> bool,
        mut attempt: impl FnMut() -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut pause = FIRST;
        loop {
            let error = match attempt() {
                Err(error) if error.is_shortage() => error,
                done => {
                    if done.is_ok() && self.told.swap(false, Ordering::SeqCst) {
                        messages.note("resources are available again");
                    }
                    return done;
                }
            };
            if !self.told.swap(true, Ordering::SeqCst) {
                messages.warn(format!("{error}; retrying until resources are available"));
            }
            if !wait(pause, SLICE, &gives_up) {
                return Err(error);
            }
            pause = (pause * 2).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io;

    fn silent() -> Messages {
        Messages::to(Box::new(io::sink()), "tool", false, false)
    }

    #[test]
    fn waits_out_shortages_only() {
        let left = Cell::new(2);
        let tried = Shortage::default().wait_out(
            &silent(),
            || false,
            || {
                left.set(left.get() - 1);
                if left.get() > 0 { Err(CliError::shortage("full")) } else { Ok(left.get()) }
            },
        );
        assert_eq!(tried.unwrap(), 0);
        let broken = Shortage::default().wait_out(
            &silent(),
            || false,
            || Err::<(), _>(CliError::internal("broken")),
        );
        assert_eq!(broken.unwrap_err().exit.code(), 70);
    }

    #[test]
    fn the_wait_can_be_cancelled() {
        let given_up = Shortage::default().wait_out(
            &silent(),
            || true,
            || Err::<(), _>(CliError::shortage("full")),
        );
        assert!(given_up.unwrap_err().is_shortage());
    }
}
