//! Does jobs until it has seen the given number of them, with a tower service and its layers as the handler.
//!
//! A workload is the number of milliseconds that its job takes. Whatever the number of slots, at most two jobs run at a
//! time, at most fifty begin in a second, and one that takes longer than half a second ends with an exception.
//!
//! `cargo run --example worker_service --features tower -- 127.0.0.1:4730 nap 10`

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use gearman_client::{Failure, JobContext, JobLimit, Worker, WorkerOptions};
use tower::{ServiceBuilder, service_fn};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "nap".into());
    let jobs: u64 = arguments.next().map_or(Ok(10), |count| count.parse())?;

    let service = ServiceBuilder::new()
        .rate_limit(50, Duration::from_secs(1))
        .concurrency_limit(2)
        .timeout(Duration::from_millis(500))
        .service(service_fn(nap));
    let options: WorkerOptions = address.parse()?;
    let mut worker = Worker::connect(options.slots(4).limit(JobLimit::new(jobs))).await?;
    worker.register_service(function, service, Failure::from)?;
    let report = worker.run().await;
    println!("{report}; at most {} at a time", MOST.load(Ordering::Relaxed));
    Ok(())
}

/// The work itself.
async fn nap(job: JobContext) -> Result<&'static str, Box<dyn Error + Send + Sync>> {
    let _running = Running::begin();
    let millis = std::str::from_utf8(&job.workload)?.parse()?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok("rested")
}

/// Counts a job for as long as it runs, also one that is cut short.
struct Running;

impl Running {
    fn begin() -> Self {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}
