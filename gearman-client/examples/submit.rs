//! Submits numbered background jobs in one batch, then a foreground one and shows its events, with the async face.
//!
//! `cargo run --example submit -- 127.0.0.1:4730 square 10000`

use std::{env, error::Error};

use gearman_client::{Client, FunctionName, JobEvent, SubmitOptions, protocol::Submit};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let jobs: u32 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let client = Client::connect(address).await?;
    let function = FunctionName::try_from(function)?;
    let options = SubmitOptions::default();
    let submits: Result<Vec<_>, _> = (0..jobs)
        .map(|number| Submit::background(function.clone(), number.to_string(), options))
        .collect();
    let mut submitted = client.call_many(submits?);
    while let Some(job) = submitted.next().await {
        job?;
    }
    println!("submitted {jobs} jobs");

    let mut job = client.submit(&function, "12", options).await?;
    while let Some(event) = job.next().await {
        match event? {
            JobEvent::Status(progress) => println!("progress {:?}", progress.share()),
            JobEvent::Complete(result) => println!("12 gives {}", String::from_utf8_lossy(&result)),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
