//! A worker for systemd and Kubernetes, with the blocking face: SIGTERM or Ctrl-C lets running handlers finish.
//!
//! It pulls no message after the signal, gives its handlers 25 seconds to finish, prints what it did and exits with 0.
//! Messages whose handlers run for longer go back to the server.
//!
//! `cargo run --example graceful_handler_blocking -- 127.0.0.1:6230 /mail`

use std::{convert::Infallible, env, error::Error, io, thread, time::Duration};

use adf_queue_client::{QueueName, Servers, WorkerHandle, WorkerOptions, blocking::Worker};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers: Servers = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into()).parse()?;
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/mail".into()).try_into()?;

    let options = WorkerOptions::from(servers).slots(4).grace(Duration::from_secs(25));
    let mut worker = Worker::new(options)?;
    stop_on_signal(worker.handle())?;
    worker.register(queue, |job| {
        println!("sending to {}", job.body().escape_ascii());
        thread::sleep(Duration::from_millis(200)); // the real work
        println!("sent to {}", job.body().escape_ascii());
        Ok::<(), Infallible>(())
    })?;
    eprintln!("{}", worker.run());
    Ok(())
}

/// Stops the worker when a supervisor (SIGTERM) or a terminal (Ctrl-C) asks for it.
#[cfg(unix)]
fn stop_on_signal(worker: WorkerHandle) -> io::Result<()> {
    use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};
    let mut signals = Signals::new(TERM_SIGNALS)?;
    thread::spawn(move || signals.forever().for_each(|_| worker.stop()));
    Ok(())
}

/// Elsewhere the process ends at once, and its messages go back to the server.
#[cfg(not(unix))]
fn stop_on_signal(_: WorkerHandle) -> io::Result<()> {
    Ok(())
}
