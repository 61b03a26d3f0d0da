//! The two faces of `adf-queue-client`, used as documented.

mod asynchronous;
mod blocking;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use adf_queue_client::{QueueName, WorkerHandle, WorkerOptions, WorkerReport};
use anyhow::{Result, ensure};
use bytes::Bytes;

pub use self::{asynchronous::Async, blocking::Blocking};
use super::scenario::{Task, Work};

/// Work in the types of the client.
#[derive(Clone)]
struct Typed {
    task: Task,
    queue: QueueName,
    body: Bytes,
    jobs: u64,
}

impl Typed {
    fn new(work: &Work<'_>) -> Result<Self> {
        Ok(Typed {
            task: work.task,
            queue: work.queue.parse()?,
            body: Bytes::copy_from_slice(work.body),
            jobs: work.jobs,
        })
    }

    fn check(&self, report: WorkerReport) -> Result<()> {
        let jobs = self.jobs;
        ensure!(
            report.deleted == jobs,
            "{jobs} messages were there, and this became of them: {report}"
        );
        Ok(())
    }
}

fn worker_options(address: &str, prefetch: usize) -> Result<WorkerOptions> {
    let options: WorkerOptions = address.parse()?;
    Ok(options.prefetch(prefetch))
}

/// Stops a worker at its last message.
#[derive(Clone)]
struct Countdown {
    left: Arc<AtomicU64>,
    worker: WorkerHandle,
}

impl Countdown {
    fn new(jobs: u64, worker: WorkerHandle) -> Self {
        Countdown { left: Arc::new(AtomicU64::new(jobs)), worker }
    }

    /// A message was handled.
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.worker.stop();
        }
    }
}
