//! Random numbers that are unique across processes, threads and calls.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU32, Ordering},
};

use queue_core::mix;

/// The id of this process, cached because asking for every submission would cost a system call.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Refreshes the process id whenever a connection is made. A forked process makes its own connections, and must not
/// draw its parent's numbers.
pub(crate) fn note_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// 128 bits: two counters with random starts, one of them tied to the process id, each mixed so that every bit counts.
/// No number repeats within a thread, because the mixing is a bijection.
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
