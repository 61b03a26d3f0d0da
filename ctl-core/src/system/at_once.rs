//! Waiting for several things at the same time.

use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Applies `act` to all items, each on its own thread, so that their waits do not add up; those that the system has no
/// thread for, one after the other. The results are in the order of the items.
pub fn at_once<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let cells: Vec<Mutex<Option<T>>> = items.into_iter().map(Some).map(Mutex::new).collect();
    // An item is still there if its thread did not start.
    let take = |cell: &Mutex<Option<T>>| cell.lock().unwrap_or_else(PoisonError::into_inner).take();
    let act = |cell: &Mutex<Option<T>>| take(cell).map(&act);
    let results = thread::scope(|scope| {
        let start = |cell| thread::Builder::new().spawn_scoped(scope, move || act(cell));
        let threads: Vec<_> = cells.iter().map(start).collect();
        let end =
            |(cell, thread): (_, std::io::Result<thread::ScopedJoinHandle<'_, _>>)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
                Err(_) => act(cell),
            };
        cells.iter().zip(threads).map(end).collect::<Vec<Option<R>>>()
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_are_waited_for_together_and_keep_their_order() {
        // Nobody passes before all have come.
        let barrier = Barrier::new(3);
        let results = at_once([1, 2, 3], |item| {
            barrier.wait();
            item * 10
        });
        assert_eq!(results, [10, 20, 30]);
    }

    #[test]
    #[should_panic(expected = "the defect")]
    fn a_panic_is_passed_on() {
        at_once([1], |_| panic!("the defect"));
    }
}
