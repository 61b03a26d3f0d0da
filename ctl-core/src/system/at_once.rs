//! Waiting for several things at the same time.

use std::panic;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use queue_core::lock;

use crate::error::CliError;

/// Applies `act` to all items, each on its own thread, so that their waits do not add up; to those that the system has
/// no thread for, one after the other. The results are in the order of the items.
pub fn at_once<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    act: impl Fn(&mut T) -> R + Sync,
) -> Vec<R> {
    let items: Vec<Mutex<T>> = items.into_iter().map(Mutex::new).collect();
    thread::scope(|scope| {
        let results: Vec<_> = items.iter().map(|item| begin(scope, item, &act)).collect();
        results.into_iter().map(|result| result()).collect()
    })
}

/// [`at_once`] for a fixed number of items.
pub fn these_at_once<T: Send, R: Send, const N: usize>(
    items: [T; N],
    act: impl Fn(&mut T) -> R + Sync,
) -> [R; N] {
    let items = items.map(Mutex::new);
    thread::scope(|scope| {
        items.each_ref().map(|item| begin(scope, item, &act)).map(|result| result())
    })
}

/// Applies `act` to all items, and returns as soon as one has succeeded; the others continue, and their results are
/// dropped.
///
/// # Errors
/// All have failed: the worst error.
pub fn first_of<T: Send + 'static>(
    items: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<(), CliError> + Send + Sync + 'static,
) -> Result<(), CliError> {
    let results: Vec<_> =
        soon_after_first(items, Duration::ZERO, act).into_iter().flatten().collect();
    if results.iter().any(Result::is_ok) {
        return Ok(());
    }
    let failures = results.into_iter().filter_map(Result::err);
    failures.max_by_key(|error| error.exit.code()).map_or(Ok(()), Err)
}

/// Applies `act` to all items, and waits for the others only this much longer than for the first success; they go on,
/// and their results are dropped. The results are in the order of the items, with none for those that took longer.
pub fn soon_after_first<T: Send + 'static>(
    items: impl IntoIterator<Item = T>,
    longer: Duration,
    act: impl Fn(T) -> Result<(), CliError> + Send + Sync + 'static,
) -> Vec<Option<Result<(), CliError>>> {
    let (act, (tell, told)) = (Arc::new(act), mpsc::channel());
    let mut results = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let (act, tell) = (Arc::clone(&act), tell.clone());
        // The receiver is gone after that time.
        let begun = thread::Builder::new().spawn(move || drop(tell.send((at, act(item)))));
        results.push(begun.err().map(|error| Err(CliError::shortage(error.to_string()))));
    }
    drop(tell);
    let mut end: Option<Instant> = None;
    loop {
        let next = match end {
            None => told.recv().ok(),
            Some(end) => told.recv_timeout(end.saturating_duration_since(Instant::now())).ok(),
        };
        let Some((at, result)) = next else { return results };
        if result.is_ok() {
            end = end.or_else(|| Instant::now().checked_add(longer));
        }
        if let Some(place) = results.get_mut(at) {
            *place = Some(result);
        }
    }
}

/// Begins to act on an item; the result of that is awaited.
fn begin<'s, T: Send, R: Send + 's, A: Fn(&mut T) -> R + Sync>(
    scope: &'s Scope<'s, '_>,
    item: &'s Mutex<T>,
    act: &'s A,
) -> impl FnOnce() -> R {
    let apply = move || act(&mut lock(item));
    let thread = thread::Builder::new().spawn_scoped(scope, apply);
    move || match thread {
        Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
        Err(_) => apply(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn runs_concurrently_and_keeps_the_order() {
        // A barrier: all threads have to arrive.
        let barrier = Barrier::new(3);
        let meet = |item: &mut u8| {
            barrier.wait();
            *item * 10
        };
        assert_eq!(at_once([1, 2, 3], meet), [10, 20, 30]);
        assert_eq!(these_at_once([3, 2, 1], meet), [30, 20, 10]);
    }

    #[test]
    fn does_not_wait_for_a_silent_one_after_another_answered() {
        let (never, silence) = mpsc::channel::<()>();
        let silence = Mutex::new(silence);
        let refused = || Err(CliError::unavailable("refused"));
        let answer = move |item: u8| match item {
            0 => refused(),
            1 => Ok(()),
            _ => silence.lock().unwrap().recv().map_err(|_| CliError::timeout("silent")),
        };
        let all = soon_after_first([2, 0, 1], Duration::from_secs(5), answer);
        let [None, Some(Err(error)), Some(Ok(()))] = &all[..] else { panic!("{all:?}") };
        assert_eq!(error.message, "refused");
        drop(never);
        assert!(first_of([0, 1], move |item| if item == 1 { Ok(()) } else { refused() }).is_ok());
        assert_eq!(first_of([0, 0], move |_: u8| refused()).unwrap_err().message, "refused");
    }

    #[test]
    #[should_panic(expected = "the defect")]
    fn propagates_a_panic() {
        at_once([1], |_| panic!("the defect"));
    }
}
