//! Reads records from a slow source on a thread. The consumer takes what is available in batches, and never waits while
//! holding unfinished work.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::error::CliError;
use crate::system::process;
use crate::system::signals::Interrupts;

/// Reads an iterator ahead on a thread, up to a bounded number of items.
pub struct Feed<T> {
    receiver: Receiver<T>,
}

/// How often a waiting consumer checks for signals.
const SLICE: Duration = Duration::from_millis(100);

impl<T: Send + 'static> Feed<T> {
    /// Starts reading, up to `capacity` items ahead.
    ///
    /// # Errors
    /// The system cannot start a thread: exit 75 or 70.
    pub fn start(
        items: impl Iterator<Item = T> + Send + 'static,
        capacity: usize,
    ) -> Result<Self, CliError> {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        let read = move || {
            for item in items {
                // The consumer has gone.
                if sender.send(item).is_err() {
                    return;
                }
            }
        };
        process::thread("feed", read)?;
        Ok(Self { receiver })
    }

    /// Waits for the next item; `None` at the end of the source or after a signal.
    pub fn wait(&mut self, interrupts: &Interrupts) -> Option<T> {
        while interrupts.requested().is_none() {
            match self.receiver.recv_timeout(SLICE) {
                Err(RecvTimeoutError::Timeout) => {}
                read => return read.ok(),
            }
        }
        None
    }

    /// The next item, if it is available.
    pub fn ready(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_items_in_order() {
        let mut feed = Feed::start(0..1000_usize, 8).unwrap();
        let interrupts = Interrupts::none();
        let mut got = Vec::new();
        while let Some(item) = feed.wait(&interrupts) {
            got.push(item);
            got.extend(feed.ready());
        }
        assert!(got.into_iter().eq(0..1000));
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_silent_source() {
        let (keep_open, silent) = mpsc::channel::<u8>();
        let mut feed = Feed::start(silent.into_iter(), 1).unwrap();
        let interrupts = Interrupts::none();
        interrupts.raise();
        assert_eq!(feed.wait(&interrupts), None);
        drop(keep_open);
    }
}
