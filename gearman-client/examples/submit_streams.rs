//! Submits numbers in the foreground and works on them in the same program, with streams of events and of jobs.
//!
//! `cargo run --example submit_streams --features stream -- 127.0.0.1:4730 square 10000`

use std::{env, error::Error};

use futures_util::{StreamExt, TryStreamExt, future};
use gearman_client::{
    Client, FunctionName, JobEvent, SubmitOptions, Worker, WorkerOptions, protocol::Submit,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function: FunctionName =
        arguments.next().unwrap_or_else(|| "square".into()).as_str().try_into()?;
    let jobs: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let options: WorkerOptions = address.parse()?;
    let (options, events) = options.slots(8).event_stream(64);
    let log = tokio::spawn(events.for_each(|event| {
        eprintln!("{event}");
        future::ready(())
    }));
    let mut worker = Worker::connect(options).await?;
    worker.can_do(function.clone(), None)?;
    let handle = worker.handle();
    let working = tokio::spawn(async move {
        let each = worker.jobs().for_each_concurrent(8, |job| async move {
            let number = std::str::from_utf8(&job.workload).map(str::parse::<u64>);
            // A result that cannot be sent belongs to a job that runs again.
            let _ = match number {
                Ok(Ok(number)) => job.complete((number * number).to_string()).await,
                _ => job.fail().await,
            };
        });
        each.await;
        worker.stop().await
    });

    let client = Client::connect(address).await?;
    let mut submits = Vec::new();
    for number in 0..jobs {
        let options = SubmitOptions::default();
        submits.push(Submit::foreground(function.clone(), number.to_string(), options)?);
    }
    let results = client.submit_many(submits).into_stream().map(|(_, event)| event);
    let sum = results.try_fold(0, |sum, event| async move {
        let JobEvent::Complete(result) = event else { return Ok(sum) };
        Ok(sum + String::from_utf8_lossy(&result).parse().unwrap_or(0))
    });
    let sum: u64 = sum.await?;
    println!("the sum of {jobs} squares is {sum}");

    handle.stop();
    let report = working.await?;
    println!("{} completed, {} failed", report.completed, report.failed);
    log.await?;
    Ok(())
}
