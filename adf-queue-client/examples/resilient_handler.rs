//! A worker that survives failures of its servers, with the async face.
//!
//! It prints the body of every message until its standard input ends: handlers that run are finished then. Kill the
//! server, start it again, and it continues once the queue exists again.
//!
//! `cargo run --example resilient_handler -- 127.0.0.1:6230 /numbers`

use std::{convert::Infallible, env, error::Error, io::Read, thread, time::Duration};

use adf_queue_client::{
    JobContext, QueueName, RetryPolicy, Servers, Worker, WorkerEvent, WorkerEventKind,
    WorkerOptions,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers: Servers = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into()).parse()?;
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/numbers".into()).try_into()?;

    let pauses = RetryPolicy::default().backoff(Duration::from_millis(50), Duration::from_secs(2));
    let servers = servers.each(|server| server.retry(pauses));
    let options =
        WorkerOptions::from(servers).slots(4).on_event(|event: &WorkerEvent| match &event.what {
            WorkerEventKind::Disconnected(error) => eprintln!("{}: {error}", event.server),
            WorkerEventKind::Refused { queue, error, .. } => eprintln!("{queue}: {error}"),
            _ => {}
        });
    let mut worker = Worker::new(options)?;
    worker.register(queue, handle)?;

    let stop = worker.handle();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    let report = worker.run().await;
    eprintln!("{report}");
    Ok(())
}

/// Does the work, unless the message is lost on the way: then others do it.
async fn handle(job: JobContext) -> Result<(), Infallible> {
    tokio::select! {
        biased;
        reason = job.lost() => eprintln!("message {} was lost: {reason}", job.message_id()),
        () = work(&job) => {}
    }
    Ok(())
}

async fn work(job: &JobContext) {
    tokio::time::sleep(Duration::from_millis(5)).await;
    println!("{}", job.body().escape_ascii());
}
