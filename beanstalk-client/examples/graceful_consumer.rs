//! A worker for systemd and Kubernetes, with the async face: SIGTERM or Ctrl-C lets running jobs finish.
//!
//! It takes no new job after the signal, gives its handlers 25 seconds to finish, prints what it did and exits with 0.
//! Jobs that run for longer go back to the server.
//!
//! `cargo run --example graceful_consumer -- 127.0.0.1:11300 mail`

use std::{env, error::Error, io, time::Duration};

use beanstalk_client::{JobContext, Worker, WorkerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "mail".into());

    // First of all: a signal that arrives before this line ends the process at once.
    let stop = stop_signal()?;
    // Less than the 30 seconds after which Kubernetes, and systemd's TimeoutStopSec below, send SIGKILL.
    let grace = Duration::from_secs(25);
    let options = WorkerOptions::new(servers)?.slots(4).grace(grace);
    let mut worker = Worker::new(options)?;
    worker.register(tube, send)?;
    let report = worker.run_until(stop).await;
    eprintln!("{report}");
    Ok(())
}

async fn send(job: JobContext) -> Result<(), std::str::Utf8Error> {
    let recipient = std::str::from_utf8(&job.body)?;
    println!("sending to {recipient}");
    tokio::time::sleep(Duration::from_millis(200)).await; // the real work
    println!("sent to {recipient}");
    Ok(())
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
