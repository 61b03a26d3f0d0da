//! Pushes numbered messages, then pulls and deletes them, with the blocking face.
//!
//! `cargo run --example messages_blocking -- 127.0.0.1:6230 /numbers 10000`

use std::{env, error::Error};

use adf_queue_client::{QueueName, blocking::Client};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into());
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/numbers".into()).try_into()?;
    let messages: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let mut client = Client::connect(address)?;
    client.ensure_queue(&queue)?;
    for number in 0..messages {
        client.rpush(&queue, number.to_string())?;
    }
    println!("pushed {messages} messages");

    let mut sum = 0;
    for _ in 0..messages {
        let message = client.pull(&queue)?;
        sum += std::str::from_utf8(message.body())?.parse::<u64>()?;
        client.delete(&message)?;
    }
    println!("deleted {messages} messages, their sum is {sum}");
    Ok(())
}
