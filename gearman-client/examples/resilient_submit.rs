//! Runs jobs to their end, whatever becomes of the server meanwhile, 16 at a time, with the async face.
//!
//! `cargo run --example resilient_submit -- 127.0.0.1:4730 square 1000`
//!
//! A server that restarts forgets its jobs, and a connection that is lost may take an answer with it. Squaring a number
//! twice does no harm, so these jobs are declared idempotent: what may have been lost is submitted again, under the
//! same unique id, for as long as the retry policy says.

use std::{env, error::Error, time::Duration};

use gearman_client::{Client, ConnectOptions, RetryPolicy, SubmitOptions};
use tokio::task::JoinSet;

/// How many jobs are under way at once.
const CALLERS: u64 = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let jobs: u64 = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let options: ConnectOptions = address.parse()?;
    // A minute and more, with at most a second between two attempts.
    let retry = RetryPolicy::new(120).backoff(Duration::from_millis(50), Duration::from_secs(1));
    let client = Client::connect(options.retry(retry)).await?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, function) = (client.clone(), function.clone());
        callers.spawn(async move {
            let mut right = 0;
            for number in (caller..jobs).step_by(CALLERS as usize) {
                right += u64::from(square(&client, &function, number).await?);
            }
            Ok::<u64, gearman_client::Error>(right)
        });
    }
    let mut right = 0;
    while let Some(caller) = callers.join_next().await {
        right += caller??;
    }
    println!("{right} of {jobs} results are right");
    Ok(())
}

/// Has a number squared; whether the result is right.
async fn square(client: &Client, function: &str, number: u64) -> gearman_client::Result<bool> {
    let patient = SubmitOptions::default().idempotent(true);
    let outcome = client.run(function, number.to_string(), patient).await?;
    let result = outcome.complete().unwrap_or_default();
    Ok(result == (number * number).to_string())
}
