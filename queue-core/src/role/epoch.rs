//! Connection numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies the connection that something belongs to. Every connection of this process has a unique number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// A number that no connection has had.
    #[doc(hidden)]
    #[must_use]
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Epoch(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
