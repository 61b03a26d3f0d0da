//! Pushes numbered messages, then pulls and deletes them, with streams of answers, of messages and of events.
//!
//! `cargo run --example message_streams --features stream -- 127.0.0.1:6230 /numbers 10000`

use std::{env, error::Error};

use adf_queue_client::{Client, Producer, ProducerOptions, Push, QueueName};
use futures_util::{StreamExt, TryStreamExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into());
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/numbers".into()).try_into()?;
    let messages: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let options: ProducerOptions = address.parse()?;
    let (options, mut events) = options.create_queues(true).event_stream(64);
    let log = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            eprintln!("{event}");
        }
        if events.missed() > 0 {
            eprintln!("{} events were missed", events.missed());
        }
    });
    let producer = Producer::new(options)?;
    let first: u64 = messages.min(1);
    if first == 1 {
        producer.rpush(&queue, "0").await?;
    }
    drop(producer);
    // No source of events is left, so the stream ends.
    log.await?;

    let client = Client::connect(address).await?;
    let pushes = (first..messages).map(|number| Push::right(queue.clone(), number.to_string()));
    let pushed = client.push_many(pushes).into_stream();
    let pushed = pushed.try_fold(first, |count, _| async move { Ok(count + 1) }).await?;
    println!("pushed {pushed} messages");

    let mut pulled = client.messages(&queue)?;
    let mut sum = 0;
    for _ in 0..messages {
        let Some(message) = pulled.try_next().await? else { break };
        sum += std::str::from_utf8(message.body())?.parse::<u64>()?;
        client.delete(&message).await?;
    }
    println!("deleted {messages} messages, their sum is {sum}");
    Ok(())
}
