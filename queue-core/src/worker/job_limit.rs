//! Limits on the number of jobs that workers take.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{Tickets, lock, sync::Mutex};

/// Maximum number of jobs that the workers sharing it may take from their servers in total.
///
/// A worker with a limit never requests more jobs than are left, whether on several connections at once or along with
/// the last result, so it never takes a job only to give it back. Clones share the same limit. It is a counter of this
/// process, so serde does not support it.
#[derive(Clone)]
pub struct JobLimit(Arc<Mutex<Count>>);

struct Count {
    /// Number of jobs that may still arrive.
    left: u64,
    /// Number of requested jobs; at most those left.
    asked: u64,
    /// A caller was told to ask later, and nothing was granted since.
    is_wanted: bool,
    /// Those that wait until none is left.
    waiting: Tickets,
}

/// A wait until all jobs of a limit have arrived, by one task. Dropping it leaves nothing behind: a limit may outlive
/// any number of them.
#[derive(Debug)]
pub struct LimitWatch {
    limit: JobLimit,
    ticket: u64,
}

/// The requesting side of a [`JobLimit`], used by a role, which reports the result of every request.
#[derive(Debug)]
pub struct Claims {
    limit: JobLimit,
    /// The wakers of those that waited for the last job, which a role may not wake.
    woken: Vec<Waker>,
}

/// Whether a job may be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It may.
    Granted,
    /// Others have requested all that are left, but may not get them.
    Later,
    /// All jobs have arrived.
    Never,
}

impl JobLimit {
    /// A limit of this many jobs.
    #[must_use]
    pub fn new(jobs: u64) -> Self {
        JobLimit(Arc::new(Mutex::new(Count {
            left: jobs,
            asked: 0,
            is_wanted: false,
            waiting: Tickets::default(),
        })))
    }

    /// The number of jobs that may still arrive.
    #[must_use]
    pub fn left(&self) -> u64 {
        lock(&self.0).left
    }

    /// Whether all jobs have arrived. Some may still be running.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.left() == 0
    }
}

impl LimitWatch {
    /// Nothing is registered before the first poll.
    #[must_use]
    pub fn new(limit: JobLimit) -> Self {
        let ticket = lock(&limit.0).waiting.issue();
        LimitWatch { limit, ticket }
    }

    /// Ready when all jobs have arrived; wakes the last waker then.
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        // Wakers are cloned and dropped outside of the lock: they may be any code.
        let waker = cx.waker().clone();
        let mut count = lock(&self.limit.0);
        if count.left == 0 {
            return Poll::Ready(());
        }
        let last = count.waiting.wait(self.ticket, waker);
        drop(count);
        drop(last);
        Poll::Pending
    }
}

impl Drop for LimitWatch {
    fn drop(&mut self) {
        let waker = lock(&self.limit.0).waiting.leave(self.ticket);
        // Outside of the lock.
        drop(waker);
    }
}

impl Claims {
    /// The claims of another role.
    #[must_use]
    pub fn new(limit: JobLimit) -> Self {
        Claims { limit, woken: Vec::new() }
    }

    /// Claims one more job.
    #[must_use]
    pub fn ask(&self) -> Claim {
        let mut count = lock(&self.limit.0);
        if count.left == 0 {
            return Claim::Never;
        }
        if count.asked >= count.left {
            count.is_wanted = true;
            return Claim::Later;
        }
        count.is_wanted = false;
        count.asked += 1;
        Claim::Granted
    }

    /// This number of requested jobs did not arrive. Returns whether others wait to ask: they can only if this role
    /// does not ask again at once.
    pub fn give_back(&self, asked: u64) -> bool {
        let mut count = lock(&self.limit.0);
        count.asked = count.asked.saturating_sub(asked);
        count.is_wanted
    }

    /// A job arrived; returns whether it may be taken. One that is no longer `asked` for may be one too many.
    /// [`append_woken_to`](Self::append_woken_to) has the wakers of those that waited for the last one.
    #[must_use]
    pub fn take(&mut self, asked: bool) -> bool {
        let mut count = lock(&self.limit.0);
        count.asked = count.asked.saturating_sub(u64::from(asked));
        let Some(left) = count.left.checked_sub(1) else { return false };
        count.left = left;
        if left == 0 {
            self.woken.extend(count.waiting.take());
        }
        true
    }

    /// Moves the wakers of those that waited for the last job to the end of `others`, to be woken outside of any lock.
    pub fn append_woken_to(&mut self, others: &mut Vec<Waker>) {
        others.append(&mut self.woken);
    }
}

impl fmt::Debug for JobLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobLimit").field("left", &self.left()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::proof::Woken;

    #[test]
    fn the_last_job_wakes_each_waiter_once() {
        let (limit, woken) = (JobLimit::new(2), Arc::new(Woken::default()));
        let (waker, mut claims) = (Waker::from(woken.clone()), Claims::new(limit.clone()));
        let mut watch = LimitWatch::new(limit);
        let mut reached = || watch.poll(&Context::from_waker(&waker));
        assert!(reached().is_pending() && reached().is_pending());
        assert!(claims.take(false) && reached().is_pending());
        assert_eq!(woken.count(), 0);
        assert!(claims.take(false) && reached().is_ready());
        // A role takes jobs, and does not wake.
        assert_eq!(woken.count(), 0);
        let mut wakers = Vec::new();
        claims.append_woken_to(&mut wakers);
        claims.append_woken_to(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!(woken.count(), 1);
    }

    /// Two workers may run in one task.
    #[test]
    fn a_wait_that_is_dropped_leaves_those_of_the_same_task() {
        let (limit, woken) = (JobLimit::new(1), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        let mut waits = [(); 2].map(|()| LimitWatch::new(limit.clone()));
        for wait in &mut waits {
            assert!(wait.poll(&Context::from_waker(&waker)).is_pending());
        }
        let [one, other] = waits;
        drop(one);
        let (mut claims, mut wakers) = (Claims::new(limit), Vec::new());
        assert!(claims.take(false));
        claims.append_woken_to(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!(woken.count(), 1);
        drop((other, waker));
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[test]
    fn requests_at_most_the_remaining_jobs() {
        let limit = JobLimit::new(2);
        let (mut one, other) = (Claims::new(limit.clone()), Claims::new(limit.clone()));
        assert_eq!(
            [one.ask(), other.ask(), one.ask()],
            [Claim::Granted, Claim::Granted, Claim::Later]
        );
        assert!(one.take(true) && !limit.is_reached());
        assert!(other.give_back(1), "one was told to ask later");
        assert_eq!([one.ask(), other.ask()], [Claim::Granted, Claim::Later]);
        assert!(one.take(true) && limit.is_reached());
        assert_eq!((one.ask(), one.take(false)), (Claim::Never, false));
    }
}
