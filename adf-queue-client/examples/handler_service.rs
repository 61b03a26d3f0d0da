//! Handles messages of a queue until it has seen the given number of them, with a tower service and its layers as
//! the handler.
//!
//! A body is the number of milliseconds that its message takes. Whatever the number of slots, at most two are handled
//! at a time, at most fifty begin in a second, and one that takes longer than half a second fails: it is put back at
//! the right end.
//!
//! `cargo run --example handler_service --features tower -- 127.0.0.1:6230 /naps 10`

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use adf_queue_client::{JobContext, JobLimit, Worker, WorkerOptions};
use tower::{ServiceBuilder, service_fn};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into());
    let queue = arguments.next().unwrap_or_else(|| "/naps".into());
    let messages: u64 = arguments.next().map_or(Ok(10), |count| count.parse())?;

    let service = ServiceBuilder::new()
        .rate_limit(50, Duration::from_secs(1))
        .concurrency_limit(2)
        .timeout(Duration::from_millis(500))
        .service(service_fn(nap));
    let options: WorkerOptions = address.parse()?;
    let mut worker = Worker::new(options.slots(4).limit(JobLimit::new(messages)))?;
    worker.register_service(queue, service)?;
    let report = worker.run().await;
    println!("{report}; at most {} at a time", MOST.load(Ordering::Relaxed));
    Ok(())
}

/// The work itself.
async fn nap(job: JobContext) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _running = Running::begin();
    let millis = std::str::from_utf8(job.body())?.parse()?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(())
}

/// Counts a message for as long as it is handled, also one that is cut short.
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
