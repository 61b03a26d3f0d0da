//! Puts every line of its standard input as a job, and survives failures of its servers, with the async face.
//!
//! It prints every line that a server has acknowledged. Kill the server, start it again, and it continues. With several
//! servers it does not even wait.
//!
//! `seq 1000 | cargo run --example resilient_producer -- 127.0.0.1:11300 numbers`

use std::{env, error::Error, process::ExitCode, time::Duration};

use beanstalk_client::{
    ConnectOptions, Delivery, Producer, ProducerOptions, PutOptions, RetryPolicy, Servers, TubeName,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    task::JoinSet,
};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let servers = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube: TubeName = arguments.next().unwrap_or_else(|| "numbers".into()).try_into()?;

    // A restarted server is found soon.
    let quick = RetryPolicy::default().backoff(Duration::from_millis(50), Duration::from_secs(1));
    let patient =
        |server: ConnectOptions| server.retry(quick).reply_timeout(Duration::from_secs(2));
    let servers: Servers = servers.parse()?;
    let options = ProducerOptions::from(servers.each(patient))
        // A job may exist twice, but none is given up because its answer was lost.
        .delivery(Delivery::AtLeastOnce)
        .timeout(Duration::from_secs(60));
    let producer = Producer::new(options)?;

    let mut puts = JoinSet::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        // Waits while too much is under way.
        let receipt = producer.enqueue(&tube, &line, PutOptions::default()).await?;
        puts.spawn(async move {
            match receipt.await {
                Ok(_) => println!("{line}"),
                Err(error) => eprintln!("{line}: {error}"),
            }
        });
        while puts.try_join_next().is_some() {}
    }
    while puts.join_next().await.is_some() {}
    let report = producer.close().await;
    eprintln!("{report}");
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
