//! Random numbers that no other process, thread or call has.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU32, Ordering},
};

use queue_core::mix;

/// Which process this is, as far as it was asked: asking is a system call, too slow for every submission.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A connection is being made. A forked process makes its own, and must not draw the numbers that its parent draws.
pub(crate) fn note_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// 128 bits: two counters with random starts, one of them kept apart by the process, each mixed so that every bit of it
/// counts. No number comes twice in a thread, because mixing loses nothing.
pub(crate) fn random_bits() -> u128 {
    thread_local! {
        static STATE: Cell<(u64, u64)> = {
            let keys = RandomState::new();
            Cell::new((keys.hash_one(1), keys.hash_one(2)))
        };
    }
    let process = match PROCESS.load(Ordering::Relaxed) {
        0 => std::process::id(),
        known => known,
    };
    let (one, two) = STATE.get();
    STATE.set((one.wrapping_add(0x9e37_79b9_7f4a_7c15), two.wrapping_add(0xd1b5_4a32_d192_ed03)));
    u128::from(mix(one)) << 64 | u128::from(mix(two ^ u64::from(process)))
}
