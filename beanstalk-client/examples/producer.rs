//! Puts numbered jobs into a tube, many per write, with the async face.
//!
//! `cargo run --example producer -- 127.0.0.1:11300 numbers 10000`

use std::{env, error::Error};

use beanstalk_client::{Client, PutOptions, protocol::Put};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());
    let count: u32 = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let mut client = Client::connect(address).await?;
    client.use_tube(tube.as_str()).await?;

    // A body is any bytes. A put is checked when it is made, so the pipeline takes only what can be sent.
    let puts: Vec<_> = (0..count)
        .map(|number| Put::new(number.to_string(), PutOptions::default()))
        .collect::<Result<_, _>>()?;
    let mut replies = client.call_many(puts);
    let mut inserted = 0;
    while let Some(reply) = replies.next().await {
        // Each put has its own answer: an error here says of this one job whether it may exist (`error.fate()`).
        let reply = reply?;
        if reply.is_buried() {
            eprintln!("job {} is buried: the server is out of memory", reply.id());
        }
        inserted += 1;
    }
    println!("put {inserted} jobs into {tube}");
    client.quit().await?;
    Ok(())
}
