//! Submits numbered background jobs in one batch, then a foreground one and shows its events, with the blocking face.
//!
//! `cargo run --example submit_blocking -- 127.0.0.1:4730 square 10000`

use std::{env, error::Error};

use gearman_client::{FunctionName, JobEvent, SubmitOptions, blocking::Client, protocol::Submit};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4730".into());
    let function = arguments.next().unwrap_or_else(|| "square".into());
    let jobs: u32 = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let mut client = Client::connect(address)?;
    let function = FunctionName::try_from(function)?;
    let options = SubmitOptions::default();
    let submits: Result<Vec<_>, _> = (0..jobs)
        .map(|number| Submit::background(function.clone(), number.to_string(), options))
        .collect();
    for job in client.call_many(submits?) {
        job?;
    }
    println!("submitted {jobs} jobs");

    for event in client.submit(&function, "12", options)? {
        match event? {
            JobEvent::Status(progress) => println!("progress {:?}", progress.share()),
            JobEvent::Complete(result) => println!("12 gives {}", String::from_utf8_lossy(&result)),
            other => println!("{other:?}"),
        }
    }
    Ok(())
}
