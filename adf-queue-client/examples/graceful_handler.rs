//! A worker for systemd and Kubernetes, with the async face: SIGTERM or Ctrl-C lets running handlers finish.
//!
//! It pulls no message after the signal, gives its handlers 25 seconds to finish, prints what it did and exits with 0.
//! Messages whose handlers run for longer go back to the server.
//!
//! `cargo run --example graceful_handler -- 127.0.0.1:6230 /mail`

use std::{convert::Infallible, env, error::Error, io, time::Duration};

use adf_queue_client::{JobContext, QueueName, Servers, Worker, WorkerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers: Servers = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into()).parse()?;
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/mail".into()).try_into()?;

    // First of all: a signal that arrives before this line ends the process at once.
    let stop = stop_signal()?;
    let options = WorkerOptions::from(servers).slots(4).grace(Duration::from_secs(25));
    let mut worker = Worker::new(options)?;
    worker.register(queue, send)?;
    eprintln!("{}", worker.run_until(stop).await);
    Ok(())
}

async fn send(job: JobContext) -> Result<(), Infallible> {
    println!("sending to {}", job.body().escape_ascii());
    tokio::time::sleep(Duration::from_millis(200)).await; // the real work
    println!("sent to {}", job.body().escape_ascii());
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
