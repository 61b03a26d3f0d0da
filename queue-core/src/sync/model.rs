//! Time, which the model checker lacks: a short wait ends at any moment, and a long one only when it is woken, so
//! that a lost wake-up is a deadlock, which the checker reports.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        LazyLock, LockResult, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::lock;

/// Waits from here on are long.
const LONG: Duration = Duration::from_secs(1);

/// How far the clock is ahead of where it started, in nanoseconds.
static AHEAD: AtomicU64 = AtomicU64::new(0);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time, which only [`pass`] moves.
pub(crate) fn now() -> Instant {
    *START + Duration::from_nanos(AHEAD.load(Ordering::Relaxed))
}

/// Lets this much time pass, and others run meanwhile.
fn pass(time: Duration) {
    AHEAD.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    shuttle::thread::yield_now();
}

/// A mutex whose guards know it, so that a short wait can release it.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// A locked [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized> {
    guard: shuttle::sync::MutexGuard<'a, T>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// As [`std::sync::Mutex::new`].
    pub const fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As [`std::sync::Mutex::lock`], without poison: a run in which a thread panics has failed anyway.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(MutexGuard { guard, mutex: self })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A condition variable whose short waits end at any moment.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// Whether a wait ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// As [`std::sync::WaitTimeoutResult::timed_out`].
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// As [`std::sync::Condvar::new`].
    #[must_use]
    pub const fn new() -> Self {
        Condvar(shuttle::sync::Condvar::new())
    }

    /// As [`std::sync::Condvar::notify_one`].
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// As [`std::sync::Condvar::notify_all`].
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// As [`std::sync::Condvar::wait`].
    ///
    /// # Errors
    ///
    /// Never.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        Ok(self.sleep(guard))
    }

    fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { guard, mutex } = guard;
        let guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { guard, mutex }
    }

    /// As [`std::sync::Condvar::wait_while`].
    ///
    /// # Errors
    ///
    /// Never.
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.sleep(guard);
        }
        Ok(guard)
    }

    /// As [`std::sync::Condvar::wait_timeout`].
    ///
    /// # Errors
    ///
    /// Never.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        if time >= LONG {
            return Ok((self.sleep(guard), WaitTimeoutResult(false)));
        }
        let mutex = guard.mutex;
        drop(guard);
        pass(time);
        Ok((lock(mutex), WaitTimeoutResult(true)))
    }

    /// As [`std::sync::Condvar::wait_timeout_while`].
    ///
    /// # Errors
    ///
    /// Never.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        while condition(&mut guard) {
            let (again, result) = self.wait_timeout(guard, time)?;
            guard = again;
            if result.timed_out() {
                let is_late = condition(&mut guard);
                return Ok((guard, WaitTimeoutResult(is_late)));
            }
        }
        Ok((guard, WaitTimeoutResult(false)))
    }
}

/// Threads of the model checker.
pub mod thread {
    use std::time::Duration;

    pub use shuttle::thread::{
        JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, park, scope, spawn,
        yield_now,
    };

    /// As [`std::thread::sleep`].
    pub fn sleep(time: Duration) {
        super::pass(time);
    }

    /// As [`std::thread::park_timeout`].
    pub fn park_timeout(time: Duration) {
        if time >= super::LONG { park() } else { super::pass(time) }
    }
}
