//! A worker for systemd and Kubernetes, with the blocking face: SIGTERM or Ctrl-C lets the running job finish.
//!
//! It takes no new job after the signal, prints what it did and exits with 0.
//!
//! `cargo run --example graceful_worker_blocking -- 127.0.0.1:4730 reverse`

use std::{env, error::Error, io, thread, time::Duration};

use gearman_client::{WorkerHandle, blocking::Worker};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "reverse".into());

    let mut worker = Worker::new(servers)?;
    stop_on_signal(worker.handle())?;
    worker.register(function, |job| {
        println!("began {}", job.workload.escape_ascii());
        thread::sleep(Duration::from_millis(200)); // the real work
        println!("ended {}", job.workload.escape_ascii());
        job.workload.iter().rev().copied().collect::<Vec<u8>>()
    })?;
    eprintln!("{}", worker.run()?);
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

/// Elsewhere the process ends at once, and the server hands its job to another worker.
#[cfg(not(unix))]
fn stop_on_signal(_: WorkerHandle) -> io::Result<()> {
    Ok(())
}
