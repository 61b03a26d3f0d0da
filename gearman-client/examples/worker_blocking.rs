//! Squares numbers until it has seen the given number of jobs, with the blocking face.
//!
//! `cargo run --example worker_blocking -- 127.0.0.1:4730 square 10001`

use std::{env, error::Error};

use gearman_client::{
    Failure, JobLimit, WorkerOptions,
    blocking::{JobContext, Worker},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let count = arguments.next().map_or(Ok(10_001), |count| count.parse())?;

    let options: WorkerOptions = address.parse()?;
    let mut worker = Worker::connect(options.limit(JobLimit::new(count)))?;
    worker.register(function, square)?;
    println!("{}", worker.run()?);
    Ok(())
}

/// The work itself. Text that is not a number becomes an exception at the submitter.
fn square(job: &mut JobContext<'_>) -> Result<String, Failure> {
    let number: u64 = std::str::from_utf8(&job.workload)?.parse()?;
    job.status(1, 2)?;
    Ok((number * number).to_string())
}
