//! Whether a bulk command takes more work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use queue_core::lock;

use super::manner::{Manner, OnError};
use super::rate::Pace;
use crate::error::Exit;
use crate::output::progress::Progress;
use crate::system::signals::Interrupts;

/// Decides whether new work may be taken; closes on a signal or, under `--on-error stop`, after a failure.
#[derive(Clone)]
pub struct Gate {
    closed: Arc<AtomicBool>,
    /// Whether a failure closes it.
    stops: bool,
    interrupts: Interrupts,
    pace: Option<Arc<Pace>>,
    /// Shows that the command waits for its turn.
    progress: Weak<Mutex<Progress>>,
}

impl Gate {
    /// The gate of a command that proceeds like this.
    pub(super) fn new(
        manner: Manner,
        interrupts: Interrupts,
        progress: &Arc<Mutex<Progress>>,
    ) -> Self {
        let Manner { on_error, rate } = manner;
        let pace = rate.map(|rate| Arc::new(Pace::new(rate)));
        let (closed, stops) = (Arc::default(), on_error == OnError::Stop);
        Self { closed, stops, interrupts, pace, progress: Arc::downgrade(progress) }
    }

    /// A gate that closes on a signal, for work without counts.
    #[must_use]
    pub fn of(interrupts: &Interrupts) -> Self {
        let interrupts = interrupts.clone();
        Self { closed: Arc::default(), stops: false, interrupts, pace: None, progress: Weak::new() }
    }

    /// Waits for the turn of `count` more items, if there is a rate; returns whether they may be taken.
    #[must_use]
    pub fn turn(&self, count: usize) -> bool {
        if let Some(pace) = &self.pace {
            pace.wait(count, || {
                // Keeps the progress moving although nothing happens.
                if let Some(progress) = self.progress.upgrade() {
                    lock(&progress).advance_by(0);
                }
                !self.is_open()
            });
        }
        self.is_open()
    }

    /// Whether new work may be taken.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst) && self.signal().is_none()
    }

    /// The exit of the signal that closed it, if one arrived.
    pub(super) fn signal(&self) -> Option<Exit> {
        self.interrupts.requested()
    }

    /// Takes no more work if a failure stops the command. For code that sees the failure first.
    pub fn failed(&self) {
        if self.stops {
            self.close();
        }
    }

    /// Takes no more work.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}
