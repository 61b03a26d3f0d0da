//! Puts numbered jobs and takes them again, with streams of answers, of jobs and of events.
//!
//! `cargo run --example job_streams --features stream -- 127.0.0.1:11300 numbers 10000`

use std::{env, error::Error};

use beanstalk_client::{Client, Producer, ProducerOptions, PutOptions, Reserved};
use futures_util::{StreamExt, TryStreamExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());
    let jobs: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let options: ProducerOptions = address.parse()?;
    let (options, mut events) = options.event_stream(64);
    let log = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            eprintln!("{event}");
        }
        if events.missed() > 0 {
            eprintln!("{} events were missed", events.missed());
        }
    });

    let producer = Producer::connect(options).await?;
    let bodies = (0..jobs).map(|number| number.to_string());
    let answers = producer.put_many(tube.as_str(), bodies, PutOptions::default())?.into_stream();
    let inserted = answers.try_fold(0, |count, _| async move { Ok(count + 1) }).await?;
    println!("put {inserted} jobs into {tube}");
    producer.close().await;
    drop(producer);
    // No source of events is left, so the stream ends.
    log.await?;

    let mut client = Client::connect(address).await?;
    client.watch_only([tube.as_str()]).await?;
    let mut taken = client.reserve_stream();
    let mut sum = 0;
    for _ in 0..jobs {
        // This consumer holds no job while it waits, so none of its deadlines can come.
        let Some(Reserved::Job(job)) = taken.try_next().await? else { break };
        sum += std::str::from_utf8(&job.body)?.parse::<u64>()?;
        taken.client().delete(&job).await?;
    }
    println!("took {jobs} jobs from {tube}, their sum is {sum}");
    Ok(())
}
