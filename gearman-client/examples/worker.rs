//! Squares numbers, eight jobs at a time, until it has seen the given number of jobs, with the async face.
//!
//! `cargo run --example worker -- 127.0.0.1:4730 square 10001`

use std::{
    env,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use gearman_client::{Failure, JobContext, Worker, WorkerOptions};
use tokio::sync::Notify;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let jobs: u32 = arguments.next().map_or(Ok(10_001), |count| count.parse())?;

    let options: WorkerOptions = address.parse()?;
    let mut worker = Worker::connect(options.slots(8)).await?;
    let left = Arc::new(AtomicU32::new(jobs));
    let all_done = Arc::new(Notify::new());
    worker.register(function, {
        let all_done = all_done.clone();
        move |job| {
            let (left, all_done) = (left.clone(), all_done.clone());
            async move {
                let result = square(&job).await;
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    all_done.notify_one();
                }
                result
            }
        }
    })?;
    let report = worker.run_until(all_done.notified()).await;
    println!("{report}");
    Ok(())
}

/// The work itself. Text that is not a number becomes an exception at the submitter.
async fn square(job: &JobContext) -> Result<String, Failure> {
    let number: u64 = std::str::from_utf8(&job.workload)?.parse()?;
    job.status(1, 2).await?;
    Ok((number * number).to_string())
}
