//! Parking of waiting threads.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Wake, Waker},
    time::Instant,
};

use crate::{
    now,
    sync::{
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
    fn no_wait_outlasts_its_limit() {
        let (parker, _) = Parker::own();
        let start = now();
        let until = start + Duration::from_millis(20);
        while now() < until {
            parker.wait(Some(until));
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
