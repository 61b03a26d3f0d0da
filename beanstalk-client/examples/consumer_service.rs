//! Takes jobs from a tube until it is empty, with a tower service and its layers as the handler.
//!
//! A body is the number of milliseconds that its job takes. Whatever the number of slots, at most two jobs run at a
//! time, at most fifty begin in a second, and one that takes longer than half a second fails: it is released with a
//! delay.
//!
//! `cargo run --example consumer_service --features tower -- 127.0.0.1:11300 naps`

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use beanstalk_client::{JobContext, Worker, WorkerEventKind, WorkerOptions};
use tower::{ServiceBuilder, service_fn};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "naps".into());

    let service = ServiceBuilder::new()
        .rate_limit(50, Duration::from_secs(1))
        .concurrency_limit(2)
        .timeout(Duration::from_millis(500))
        .service(service_fn(nap));
    let options = WorkerOptions::new(address.as_str())?.slots(4).until_empty().on_event(|event| {
        if let WorkerEventKind::Failed { job, error } = &event.what {
            eprintln!("job {job}: {}", error.escape_debug());
        }
    });
    let mut worker = Worker::new(options)?;
    worker.register_service(tube, service)?;
    let report = worker.run().await;
    println!("{report}; at most {} at a time", MOST.load(Ordering::Relaxed));
    Ok(())
}

/// The work itself.
async fn nap(job: JobContext) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _running = Running::begin();
    let millis = std::str::from_utf8(&job.body)?.parse()?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(())
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
