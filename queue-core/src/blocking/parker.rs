//! Parking of waiting threads.

use std::{
    mem,
    sync::{Arc, PoisonError, atomic::Ordering},
    task::{Wake, Waker},
    time::Instant,
};

use crate::{
    lock, now,
    sync::{
        Condvar, Mutex,
        atomic::AtomicU8,
        thread::{self, Thread},
    },
};

/// Parks one thread. Waking it costs a system call only if it sleeps.
#[derive(Debug)]
pub struct Parker {
    thread: Thread,
    state: AtomicU8,
}

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// Woken, but the thread has not noticed yet.
const WOKEN: u8 = 2;

impl Parker {
    /// The seat of the calling thread, and its waker.
    #[must_use]
    pub fn own() -> (Arc<Parker>, Waker) {
        crate::sync::thread_local! {
            static OWN: (Arc<Parker>, Waker) = {
                let state = AtomicU8::new(AWAKE);
                let parker = Arc::new(Parker { thread: thread::current(), state });
                (Arc::clone(&parker), Waker::from(parker))
            };
        }
        OWN.with(Clone::clone)
    }

    /// Waits until then or until woken. It may return early.
    pub fn wait(&self, until: Option<Instant>) {
        let sleeps =
            self.state.compare_exchange(AWAKE, ASLEEP, Ordering::Acquire, Ordering::Acquire);
        match until {
            _ if sleeps.is_err() => {}
            Some(until) => thread::park_timeout(until.saturating_duration_since(now())),
            None => thread::park(),
        }
        self.state.swap(AWAKE, Ordering::Acquire);
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::Release) == ASLEEP {
            self.thread.unpark();
        }
    }
}

/// Parks several threads that are mostly woken together: one system call wakes all of them, where each [`Parker`] takes
/// one. It is woken once; who then waits for something else parks in another.
#[derive(Debug, Default)]
pub struct SharedParker {
    state: Mutex<SharedState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SharedState {
    is_woken: bool,
    /// Whether one thread is to return.
    calls_one: bool,
}

impl SharedParker {
    /// Waits until then or until woken, or until this thread is the one that is called.
    pub fn wait(&self, until: Option<Instant>) {
        let mut state = lock(&self.state);
        while !state.is_woken && !mem::take(&mut state.calls_one) {
            state = match until.map(|at| at.saturating_duration_since(now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return,
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Makes one of the threads return, or the next one that waits.
    pub fn call_one(&self) {
        if !mem::replace(&mut lock(&self.state).calls_one, true) {
            self.changed.notify_one();
        }
    }

    /// Whether it was woken.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        lock(&self.state).is_woken
    }
}

impl Wake for SharedParker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !mem::replace(&mut lock(&self.state).is_woken, true) {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn no_wake_up_is_lost_in_any_interleaving() {
        const TIMES: usize = 20_000;
        let (send, receive) = mpsc::channel();
        let (count, counted) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            let (parker, waker) = Parker::own();
            send.send(waker).unwrap();
            let mut seen = 0;
            while seen < TIMES {
                seen += counted.try_iter().count();
                if seen < TIMES {
                    // A lost wake-up would block it forever.
                    parker.wait(None);
                }
            }
        });
        let waker: Waker = receive.recv().unwrap();
        for n in 0..TIMES {
            count.send(()).unwrap();
            waker.wake_by_ref();
            if n % 64 == 0 {
                thread::yield_now();
            }
        }
        sleeper.join().unwrap();
    }

    #[test]
    fn a_call_ends_the_wait_of_one_thread_and_waking_that_of_all() {
        const THREADS: usize = 4;
        let (parker, (returned, returns)) = (Arc::<SharedParker>::default(), mpsc::channel());
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (parker, returned) = (parker.clone(), returned.clone());
                thread::spawn(move || {
                    parker.wait(None);
                    returned.send(()).unwrap();
                })
            })
            .collect();
        parker.call_one();
        returns.recv().unwrap();
        assert!(!parker.is_woken() && returns.try_recv().is_err());
        Waker::from(parker.clone()).wake();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(returns.try_iter().count(), THREADS - 1);
        parker.wait(None);
    }

    #[test]
    fn no_wait_outlasts_its_limit() {
        let (parker, _) = Parker::own();
        let start = now();
        let until = start + Duration::from_millis(20);
        while now() < until {
            parker.wait(Some(until));
        }
        SharedParker::default().wait(Some(until + Duration::from_millis(20)));
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
