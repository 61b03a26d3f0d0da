//! What all actors of a run share.

use std::{
    sync::atomic::{AtomicU8, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{ledger::Ledger, options::Options};

pub struct Stage {
    pub ledger: Ledger,
    phase: AtomicU8,
    end: Instant,
}

/// Producers have ended, faults too; workers do all jobs that are left.
const CALM: u8 = 1;
/// Nothing is left.
const OVER: u8 = 2;

impl Stage {
    pub fn new(options: &Options) -> Self {
        Stage {
            ledger: Ledger::new(options.trace.as_deref()),
            phase: AtomicU8::new(0),
            end: Instant::now() + options.length,
        }
    }

    /// Whether the time of producing and of faults is over.
    pub fn is_calm(&self) -> bool {
        self.phase.load(Ordering::Relaxed) >= CALM || Instant::now() >= self.end
    }

    pub fn is_over(&self) -> bool {
        self.phase.load(Ordering::Relaxed) >= OVER
    }

    pub fn calm_down(&self) {
        self.phase.fetch_max(CALM, Ordering::Relaxed);
    }

    pub fn end(&self) {
        self.phase.fetch_max(OVER, Ordering::Relaxed);
    }

    /// Sleeps, at most until the calm; whether there is still none.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_calm() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
        false
    }
}
