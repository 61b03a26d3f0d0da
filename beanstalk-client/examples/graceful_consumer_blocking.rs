//! A worker for systemd and Kubernetes, with the blocking face: SIGTERM or Ctrl-C lets running jobs finish.
//!
//! It takes no new job after the signal, gives its handlers 25 seconds to finish, prints what it did and exits with 0.
//! Jobs that run for longer go back to the server.
//!
//! `cargo run --example graceful_consumer_blocking -- 127.0.0.1:11300 mail`

use std::{env, error::Error, io, thread, time::Duration};

use beanstalk_client::{
    WorkerHandle, WorkerOptions,
    blocking::{JobContext, Worker},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "mail".into());

    let grace = Duration::from_secs(25);
    let options = WorkerOptions::new(servers)?.slots(4).grace(grace);
    let mut worker = Worker::new(options)?;
    worker.register(tube, send)?;
    stop_on_signal(worker.handle())?;
    let report = worker.run();
    eprintln!("{report}");
    Ok(())
}

fn send(job: &JobContext) -> Result<(), std::str::Utf8Error> {
    let recipient = std::str::from_utf8(&job.body)?;
    println!("sending to {recipient}");
    thread::sleep(Duration::from_millis(200)); // the real work
    println!("sent to {recipient}");
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

/// Elsewhere the process ends at once, and its jobs go back to the server.
#[cfg(not(unix))]
fn stop_on_signal(_: WorkerHandle) -> io::Result<()> {
    Ok(())
}
