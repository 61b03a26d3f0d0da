//! A worker for systemd and Kubernetes, with the async face: SIGTERM or Ctrl-C lets running jobs finish.
//!
//! It takes no new job after the signal, gives its handlers 25 seconds to finish, prints what it did and exits with 0.
//! The server hands jobs that run for longer to another worker.
//!
//! `cargo run --example graceful_worker -- 127.0.0.1:4730 reverse`

use std::{env, error::Error, io, time::Duration};

use gearman_client::{Failure, JobContext, Servers, Worker, WorkerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers: Servers = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into()).parse()?;
    let function = arguments.next().unwrap_or_else(|| "reverse".into());

    // First of all: a signal that arrives before this line ends the process at once.
    let stop = stop_signal()?;
    let options = WorkerOptions::from(servers).slots(4).grace(Duration::from_secs(25));
    let mut worker = Worker::new(options)?;
    worker.register(function, reverse)?;
    eprintln!("{}", worker.run_until(stop).await);
    Ok(())
}

async fn reverse(job: JobContext) -> Result<Vec<u8>, Failure> {
    println!("began {}", job.workload.escape_ascii());
    tokio::time::sleep(Duration::from_millis(200)).await; // the real work
    println!("ended {}", job.workload.escape_ascii());
    Ok(job.workload.iter().rev().copied().collect())
}

/// Completes when a supervisor (SIGTERM) or a terminal (Ctrl-C) asks the process to stop.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes when Ctrl-C asks the process to stop.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future> {
    Ok(tokio::signal::ctrl_c())
}
