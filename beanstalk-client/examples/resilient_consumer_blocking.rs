//! A worker that survives failures of its servers, with the blocking face.
//!
//! It prints the body of every job, and what happens to it, until its standard input ends: jobs that run are finished
//! then. Kill the server, start it again, and it continues.
//!
//! `cargo run --example resilient_consumer_blocking -- 127.0.0.1:11300 numbers`

use std::{env, error::Error, io::Read, thread, time::Duration};

use beanstalk_client::{
    Outcome, Retries, WorkerEvent, WorkerEventKind, WorkerOptions,
    blocking::{JobContext, Worker},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());

    let options = WorkerOptions::new(servers)?
        .slots(4)
        .retries(Retries::default().backoff(Duration::from_secs(1), 2, Duration::from_secs(60)))
        .reconnect_backoff(Duration::from_millis(50), Duration::from_secs(2))
        .on_event(|event: &WorkerEvent| match &event.what {
            WorkerEventKind::Disconnected(error) => eprintln!("{}: {error}", event.server),
            WorkerEventKind::Failed { job, error } => eprintln!("job {job} failed: {error}"),
            _ => {}
        });
    let mut worker = Worker::new(options)?;

    let stop = worker.handle();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    worker.register(tube, handle)?;
    let report = worker.run();
    eprintln!("{report}");
    Ok(())
}

/// Does the work, step by step, unless the job is lost on the way: then others do it.
fn handle(job: &JobContext) -> Outcome {
    for _ in 0..5 {
        if job.is_lost() {
            eprintln!("job {} was lost", job.id);
            return Outcome::release(); // not sent: the job is not ours any more
        }
        thread::sleep(Duration::from_millis(1));
    }
    println!("{}", job.body.escape_ascii());
    Outcome::Delete
}
