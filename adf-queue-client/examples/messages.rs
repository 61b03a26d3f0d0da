//! Pushes numbered messages with up to 64 pushes under way at once, then pulls and deletes them, with the async face.
//!
//! `cargo run --example messages -- 127.0.0.1:6230 /numbers 10000`

use std::{env, error::Error};

use adf_queue_client::{Client, QueueName};
use tokio::task::JoinSet;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into());
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/numbers".into()).try_into()?;
    let messages: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let client = Client::connect(address).await?;
    client.ensure_queue(&queue).await?;
    let mut pushes = JoinSet::new();
    for number in 0..messages {
        if pushes.len() == 64
            && let Some(pushed) = pushes.join_next().await
        {
            pushed??;
        }
        let (client, queue) = (client.clone(), queue.clone());
        pushes.spawn(async move { client.rpush(queue, number.to_string()).await });
    }
    while let Some(pushed) = pushes.join_next().await {
        pushed??;
    }
    println!("pushed {messages} messages");

    let mut sum = 0;
    for _ in 0..messages {
        let message = client.pull(&queue).await?;
        sum += std::str::from_utf8(message.body())?.parse::<u64>()?;
        client.delete(&message).await?;
    }
    println!("deleted {messages} messages, their sum is {sum}");
    Ok(())
}
