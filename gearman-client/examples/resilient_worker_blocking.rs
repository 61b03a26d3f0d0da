//! Squares numbers through restarts of its servers, with the blocking face, until its input ends.
//!
//! `cargo run --example resilient_worker_blocking -- one:4730,two:4730 square`
//!
//! There is little to write for that: a worker connects again by itself, with full registration, and a job whose
//! connection is lost is run by another worker. What is left to decide is how long a silent server is believed
//! (`reply_timeout`), and what to do with jobs that end their workers.

use std::{env, error::Error, io, thread, time::Duration};

use gearman_client::{ClientId, Failure, RetryPolicy, Servers, WorkerOptions, blocking::Worker};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let addresses = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());

    let servers: Servers = addresses.parse()?;
    let retry = RetryPolicy::default().backoff(Duration::from_millis(50), Duration::from_secs(1));
    let servers = servers.each(|server| server.retry(retry).reply_timeout(Duration::from_secs(5)));
    let options = WorkerOptions::from(servers).client_id(ClientId::try_from("resilient")?);
    let mut worker = Worker::new(options)?;
    worker.register(function, |job| -> Result<String, Failure> {
        // Text that is not a number becomes an exception at the submitter.
        let number: u64 = std::str::from_utf8(&job.workload)?.parse()?;
        Ok((number * number).to_string())
    })?;
    let stop = worker.handle();
    thread::spawn(move || {
        // Whatever is the matter with the input, it has ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        stop.stop();
    });
    println!("{}", worker.run()?);
    Ok(())
}
