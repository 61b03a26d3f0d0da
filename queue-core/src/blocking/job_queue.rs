//! Jobs that wait for handler threads.

use std::{collections::VecDeque, sync::PoisonError, time::Duration};

use crate::{
    lock,
    sync::{Condvar, Mutex, spawn_scoped, thread::Scope},
};

/// Jobs `T` for handlers that run in their own threads, which are started on demand.
#[derive(Debug)]
pub struct JobQueue<T> {
    state: Mutex<QueueState<T>>,
    ready: Condvar,
    /// Signals the end of a job.
    done: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    jobs: VecDeque<T>,
    threads: usize,
    idle: usize,
    /// Number of jobs that have ended.
    ended: u64,
    is_closed: bool,
}

impl<T> QueueState<T> {
    fn is_full(&self, most: usize) -> bool {
        self.threads - self.idle + self.jobs.len() >= most
    }
}

/// Ends the threads of a job queue, even if the supplier of jobs panics, and joins them.
#[derive(Debug)]
pub struct QueueCloser<'a, T>(&'a JobQueue<T>);

impl<T> Drop for QueueCloser<'_, T> {
    fn drop(&mut self) {
        lock(&self.0.state).is_closed = true;
        self.0.ready.notify_all();
    }
}

impl<T> Default for JobQueue<T> {
    fn default() -> Self {
        let queue =
            QueueState { jobs: VecDeque::new(), threads: 0, idle: 0, ended: 0, is_closed: false };
        JobQueue { state: Mutex::new(queue), ready: Condvar::new(), done: Condvar::new() }
    }
}

impl<T> JobQueue<T> {
    /// A guard that closes the job queue when dropped. Jobs already queued are still run.
    #[must_use]
    pub fn closing(&self) -> QueueCloser<'_, T> {
        QueueCloser(self)
    }

    /// The number of jobs that have ended, or `None` when none runs or waits.
    fn progress(&self) -> Option<u64> {
        let queue = lock(&self.state);
        (queue.idle < queue.threads || !queue.jobs.is_empty()).then_some(queue.ended)
    }

    /// Whether all `most` handlers are busy.
    fn is_full(&self, most: usize) -> bool {
        lock(&self.state).is_full(most)
    }

    /// If all `most` handlers are busy, waits at most `timeout` for one of them, because no incoming data is more
    /// urgent than their results. Returns whether the wait timed out.
    fn wait_while_full(&self, most: usize, timeout: Duration) -> bool {
        let waited =
            self.done.wait_timeout_while(lock(&self.state), timeout, |queue| queue.is_full(most));
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Queues a job. Returns whether it needs another thread to [work](Self::work); there are at most `most`.
    #[must_use]
    pub fn put(&self, job: T, most: usize) -> bool {
        let mut queue = lock(&self.state);
        queue.jobs.push_back(job);
        let needs_thread = queue.idle < queue.jobs.len() && queue.threads < most;
        queue.threads += usize::from(needs_thread);
        drop(queue);
        self.ready.notify_one();
        needs_thread
    }

    /// Queues a job for the job queue's threads, at most `most`; where another is needed, it does its
    /// [work](Self::work) with `run`. Returns a job that no thread takes because none can be started: the caller has to
    /// run it.
    #[must_use]
    pub fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        job: T,
        most: usize,
        run: impl FnMut(T) + Send + 'scope,
    ) -> Option<T>
    where
        T: Send,
    {
        if !self.put(job, most) || spawn_scoped(scope, None, || self.work(run)).is_ok() {
            return None;
        }
        self.no_thread()
    }

    /// The requested thread could not be started. Returns a job that no other thread would take.
    #[must_use]
    pub fn no_thread(&self) -> Option<T> {
        let mut queue = lock(&self.state);
        queue.threads -= 1;
        if queue.threads == 0 { queue.jobs.pop_front() } else { None }
    }

    /// Runs jobs until the job queue is closed and empty.
    pub fn work(&self, mut run: impl FnMut(T)) {
        while let Some(job) = self.take() {
            run(job);
            lock(&self.state).ended += 1;
        }
    }

    fn take(&self) -> Option<T> {
        let mut queue = lock(&self.state);
        queue.idle += 1;
        self.done.notify_one();
        let waited =
            self.ready.wait_while(queue, |queue| queue.jobs.is_empty() && !queue.is_closed);
        queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }
}

/// How long the thread that moves a worker's bytes listens at a time, while other threads run handlers whose results
/// have to go out.
#[derive(Debug)]
pub struct Slices {
    slice: Duration,
    /// The job queue's progress at the start of the current slice.
    progress: Option<u64>,
}

/// While no handler runs: how soon it is noticed that the worker is stopping.
const IDLE: Duration = Duration::from_millis(200);

/// The shortest possible socket timeout.
const SHORTEST: Duration = Duration::from_millis(1);

const LONGEST: Duration = Duration::from_millis(16);

impl Slices {
    /// The length of the next slice.
    ///
    /// If all `most` handlers are busy, it first waits for one of them, because a socket's timeout may end many
    /// milliseconds late, and the end of a handler would wait for it. Before that, `flush` writes what is queued, and
    /// returns whether there is nothing more urgent.
    pub fn next<T>(
        &mut self,
        job_queue: &JobQueue<T>,
        most: usize,
        flush: impl FnOnce() -> bool,
    ) -> Duration {
        self.progress = job_queue.progress();
        match self.progress {
            Some(_)
                if job_queue.is_full(most)
                    && flush()
                    && job_queue.wait_while_full(most, LONGEST) =>
            {
                SHORTEST
            }
            Some(_) => self.slice,
            None => IDLE,
        }
    }

    /// The slice is over. The next one is short if jobs have come, or a handler has ended.
    pub fn listened<T>(&mut self, job_queue: &JobQueue<T>, have_come: bool) {
        self.slice = match have_come || job_queue.progress() != self.progress {
            true => SHORTEST,
            false => (self.slice * 2).min(LONGEST),
        };
    }
}

impl Default for Slices {
    fn default() -> Self {
        Slices { slice: SHORTEST, progress: None }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn slices_grow_while_idle_and_callers_wait_for_a_busy_desk() {
        let (job_queue, mut slices) = (JobQueue::default(), Slices::default());
        assert_eq!(slices.next(&job_queue, 1, || unreachable!("nothing is queued")), IDLE);
        assert!(job_queue.put((), 1));
        let mut lengths = Vec::new();
        for _ in 0..6 {
            lengths
                .push(slices.next(&job_queue, 3, || unreachable!("a handler is free")).as_millis());
            slices.listened(&job_queue, false);
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 16]);
        // No thread takes it.
        assert_eq!(slices.next(&job_queue, 1, || true), SHORTEST);
        assert_eq!(slices.next(&job_queue, 1, || false), LONGEST);
        slices.listened(&job_queue, true);
        assert_eq!(slices.next(&job_queue, 3, || true), SHORTEST);
        slices.listened(&job_queue, false);
        lock(&job_queue.state).ended += 1;
        slices.listened(&job_queue, false);
        assert_eq!(slices.next(&job_queue, 3, || true), SHORTEST, "a handler has ended");
    }

    #[test]
    fn every_job_runs_on_any_number_of_threads() {
        let (job_queue, run) = (JobQueue::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _closing = job_queue.closing();
            let mut threads = 0;
            for job in 1..=100 {
                if job_queue.put(job, 3) {
                    threads += 1;
                    scope.spawn(|| {
                        job_queue.work(|job| {
                            run.fetch_add(job, Ordering::Relaxed);
                        });
                    });
                }
            }
            assert!((1..=3).contains(&threads), "{threads}");
        });
        assert_eq!(lock(&job_queue.state).ended, 100);
        assert_eq!(run.into_inner(), 5050);
    }

    #[test]
    fn the_end_of_a_job_wakes_the_wait_for_a_free_handler() {
        let (job_queue, long) = (JobQueue::default(), Duration::from_secs(600));
        assert!(!job_queue.wait_while_full(1, long), "nothing runs");
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        thread::scope(|scope| {
            let _closing = job_queue.closing();
            assert!(job_queue.put((), 1));
            scope.spawn(|| {
                let may_go = may_go;
                job_queue.work(|()| may_go.recv().unwrap());
            });
            assert!(!job_queue.wait_while_full(2, long), "another one is free");
            assert!(job_queue.wait_while_full(1, Duration::from_millis(1)));
            go.send(()).unwrap();
            assert!(!job_queue.wait_while_full(1, long));
        });
    }

    #[test]
    fn a_job_without_a_thread_is_returned() {
        let job_queue = JobQueue::default();
        assert!(job_queue.put("one", 1));
        assert_eq!(job_queue.no_thread(), Some("one"));
        assert_eq!(job_queue.progress(), None);
    }
}
