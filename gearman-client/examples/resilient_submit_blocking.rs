//! Runs jobs to their end, whatever becomes of the server meanwhile, on four threads, with the blocking face.
//!
//! `cargo run --example resilient_submit_blocking -- 127.0.0.1:4730 square 1000`
//!
//! A server that restarts forgets its jobs, and a connection that is lost may take an answer with it. Squaring a number
//! twice does no harm, so these jobs are declared idempotent: what may have been lost is submitted again, under the
//! same unique id, for as long as the retry policy says.

use std::{env, error::Error, thread, time::Duration};

use gearman_client::{ConnectOptions, RetryPolicy, SubmitOptions, blocking::Client};

/// How many threads submit, each over its own connection.
const THREADS: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let jobs: u64 = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let options: ConnectOptions = address.parse()?;
    // A minute and more, with at most a second between two attempts.
    let retry = RetryPolicy::new(120).backoff(Duration::from_millis(50), Duration::from_secs(1));
    let options = options.retry(retry);
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (options, function) = (options.clone(), function.clone());
            let numbers = (thread..jobs).step_by(THREADS as usize);
            thread::spawn(move || squares(options, &function, numbers))
        })
        .collect();
    let mut right = 0;
    for thread in threads {
        right += thread.join().map_err(|_| "a thread has panicked")??;
    }
    println!("{right} of {jobs} results are right");
    Ok(())
}

/// Has numbers squared; how many results are right.
fn squares(
    options: ConnectOptions,
    function: &str,
    numbers: impl Iterator<Item = u64>,
) -> gearman_client::Result<u64> {
    let mut client = Client::new(options)?;
    let mut right = 0;
    for number in numbers {
        let again = SubmitOptions::default().idempotent(true);
        let outcome = client.run(function, number.to_string(), again)?;
        let result = outcome.complete().unwrap_or_default();
        right += u64::from(result == (number * number).to_string());
    }
    Ok(right)
}
