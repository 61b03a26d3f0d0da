//! Pauses that end early.

use std::thread;
use std::time::{Duration, Instant};

/// Waits this long, looking every `slice` whether it `stops`. Whether it has waited to the end.
pub(crate) fn wait(time: Duration, slice: Duration, mut stops: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !stops() {
        let rest = time.saturating_sub(start.elapsed());
        if rest.is_zero() {
            return true;
        }
        thread::sleep(rest.min(slice));
    }
    false
}
