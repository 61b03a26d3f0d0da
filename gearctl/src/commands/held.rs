//! Jobs that are taken, shown, and given back in their order.

use std::thread;
use std::time::{Duration, Instant};

use ctl_core::error::CliError;
use gearman_client::blocking::{GrabbedJob, Worker};
use gearman_client::{FunctionName, WorkerOptions};

use crate::link::{Link, status_of, worker};

/// Maximum held at once: number of jobs, and bytes.
pub(super) const MOST: (u64, usize) = (10_000, 256 << 20);

/// Maximum number of connections that hold jobs.
const CONNECTIONS: u64 = 256;

/// How long the server may take to queue jobs again that it was given back.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Jobs of a function that a worker holds. gearmand queues those of a connection again when it ends, the last one
/// first. So each job has its own connection, as far as there are enough of them.
pub(super) struct Held {
    function: FunctionName,
    options: WorkerOptions,
    /// Number of jobs that a connection holds.
    each: usize,
    full: Vec<(Worker, Vec<GrabbedJob>)>,
    worker: Worker,
    jobs: Vec<GrabbedJob>,
    count: u64,
    /// How many bytes may still be held.
    room: Option<usize>,
}

impl Held {
    /// For up to `most` jobs; `share` is how many of these there are at the same time.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) fn new(
        options: &WorkerOptions,
        function: &FunctionName,
        most: u64,
        share: u16,
    ) -> Result<Self, CliError> {
        let connections = (CONNECTIONS / u64::from(share)).max(1);
        let each = usize::try_from(most.clamp(1, MOST.0).div_ceil(connections)).unwrap_or(1);
        let options = options.clone().slots(each);
        let worker = worker(options.clone(), function)?;
        let (function, full, jobs) = (function.clone(), Vec::new(), Vec::new());
        let room = MOST.1.checked_div(share.into());
        Ok(Self { function, options, each, full, worker, jobs, count: 0, room })
    }

    /// The connection that takes the next job.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) fn worker(&mut self) -> Result<&mut Worker, CliError> {
        if self.jobs.len() >= self.each {
            let next = worker(self.options.clone(), &self.function)?;
            let full = std::mem::replace(&mut self.worker, next);
            self.full.push((full, std::mem::take(&mut self.jobs)));
        }
        Ok(&mut self.worker)
    }

    /// Keeps the job that the worker has taken last.
    pub(super) fn keep(&mut self, job: GrabbedJob) {
        self.count += 1;
        self.room = self.room.and_then(|room| room.checked_sub(job.workload.len()));
        self.jobs.push(job);
    }

    /// Whether no more can be held.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST.0 || self.room.is_none()
    }

    /// Gives back held jobs, by closing one connection after the other. Returns the last one if it holds nothing.
    pub(super) fn give_back(self, link: &mut Link) -> Option<Worker> {
        let Self { function, mut full, worker, jobs, count, .. } = self;
        let idle = match jobs.is_empty() {
            true => Some(worker),
            false => {
                full.push((worker, jobs));
                None
            }
        };
        let start = Instant::now();
        let mut registered = |is_asked: bool| {
            let status = is_asked.then(|| status_of(link, &function).ok().flatten());
            status.flatten().map(|status| status.workers)
        };
        let mut left = registered(count > 0);
        for (worker, jobs) in full {
            // After that, the jobs must not be failed.
            drop(worker);
            drop(jobs);
            left = left.map(|left| left - 1);
            while registered(left.is_some()) > left && start.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(1));
            }
        }
        idle
    }
}
