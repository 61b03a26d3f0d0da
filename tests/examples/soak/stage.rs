//! State shared by all actors of a run.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
    thread,
    time::{Duration, Instant},
};

use fixtures::history::Fate;
use tempfile::TempDir;

use crate::{
    body::{Fated, fate_of},
    ledger::{Ledger, count},
    options::Options,
    pace::Pace,
    rng::Rng,
};

/// A folder for a server's files: in memory, if possible. A killed process loses nothing that it has written, whatever
/// the disk; but a disk that others keep busy would set the pace.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a temporary folder")
}

pub struct Stage {
    pub ledger: Ledger,
    phase: AtomicU8,
    end: Instant,
    longest: Duration,
    /// Maximum number of waiting jobs.
    most_waiting: usize,
    is_full: AtomicBool,
}

/// Producers and faults have ended; workers do all remaining jobs.
const CALM: u8 = 1;
/// Nothing is left.
const OVER: u8 = 2;
/// Producers wait when the jobs of this many seconds do: whoever waits for an answer should not wait for all of them.
const BACKLOG: u64 = 2;
/// How often waiting tasks and threads check.
const LOOK: Duration = Duration::from_millis(50);

impl Stage {
    pub fn new(options: &Options) -> Self {
        Stage {
            ledger: Ledger::new(options.trace.as_deref()),
            phase: AtomicU8::new(0),
            end: Instant::now() + options.length,
            longest: options.length / 6,
            most_waiting: (options.rate * BACKLOG) as usize,
            is_full: AtomicBool::new(false),
        }
    }

    /// A time that nothing in a short run exceeds, so that it too has faults, and ends soon.
    pub fn at_most(&self, time: Duration) -> Duration {
        time.min(self.longest)
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

    /// Makes producers wait, or continue.
    pub fn throttle(&self) {
        self.is_full.store(self.ledger.waiting() > self.most_waiting, Ordering::Relaxed);
    }

    /// Waits for a producer's turn; returns whether it came before the calm.
    pub fn turn(&self, pace: &mut Pace) -> bool {
        let goes_on = self.pause(pace.turn());
        while goes_on && self.is_full.load(Ordering::Relaxed) {
            if !self.pause(LOOK) {
                return false;
            }
        }
        goes_on
    }

    /// The same for a task.
    pub async fn turn_async(&self, pace: &mut Pace) -> bool {
        tokio::time::sleep(pace.turn()).await;
        while !self.is_calm() && self.is_full.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        !self.is_calm()
    }

    /// The fate of a submission, whose caller now and then leaves before the answer.
    pub async fn fate_for_caller<T, E: Fated>(
        &self,
        rng: &mut Rng,
        submission: impl Future<Output = Result<T, E>>,
    ) -> Fate {
        let patience = if rng.one_in(100) { rng.millis(20) } else { Duration::MAX };
        match tokio::time::timeout(patience, submission).await {
            Ok(outcome) => fate_of(&outcome),
            Err(_) => {
                count(&self.ledger.counts.cancelled);
                Fate::Unknown
            }
        }
    }

    /// Sleeps, at most until the calm; returns whether the calm has not started.
    pub fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_calm() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
        false
    }
}
