//! Pushes numbers by a producer, and adds them up by a worker that may fail, with the blocking face.
//!
//! `cargo run --example handler_blocking -- 127.0.0.1:6230 /numbers 10000`

use std::{
    env,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use adf_queue_client::{
    JobLimit, ProducerOptions, QueueName, WorkerOptions,
    blocking::{Producer, Worker},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:6230".into());
    let queue: QueueName = arguments.next().unwrap_or_else(|| "/numbers".into()).try_into()?;
    let messages: u64 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let options: ProducerOptions = address.parse()?;
    let producer = Producer::new(options.create_queues(true))?;
    for number in 0..messages {
        producer.rpush(queue.clone(), number.to_string())?;
    }
    println!("pushed {messages} messages");

    let options: WorkerOptions = address.parse()?;
    let mut worker = Worker::new(options.slots(8).prefetch(8).limit(JobLimit::new(messages)))?;
    let sum = Arc::new(AtomicU64::new(0));
    let adds = sum.clone();
    worker.register(queue, move |job| {
        let number: u64 = std::str::from_utf8(job.body())?.parse()?;
        adds.fetch_add(number, Ordering::Relaxed);
        Ok::<(), Box<dyn Error>>(())
    })?;
    let report = worker.run();
    println!("deleted {} messages, their sum is {}", report.deleted, sum.load(Ordering::Relaxed));
    Ok(())
}
