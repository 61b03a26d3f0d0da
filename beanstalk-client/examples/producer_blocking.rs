//! Puts numbered jobs into a tube, many per write, with the blocking face.
//!
//! `cargo run --example producer_blocking -- 127.0.0.1:11300 numbers 10000`

use std::{env, error::Error};

use beanstalk_client::{PutOptions, blocking::Client, protocol::Put};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());
    let count: u32 = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let mut client = Client::connect(address)?;
    client.use_tube(tube.as_str())?;

    // A body is any bytes. A put is checked when it is made, so the pipeline takes only what can be sent.
    let puts: Vec<_> = (0..count)
        .map(|number| Put::new(number.to_string(), PutOptions::default()))
        .collect::<Result<_, _>>()?;
    let mut inserted = 0;
    for reply in client.call_many(puts) {
        // Each put has its own answer: an error here says of this one job whether it may exist (`error.fate()`).
        let reply = reply?;
        if reply.is_buried() {
            eprintln!("job {} is buried: the server is out of memory", reply.id());
        }
        inserted += 1;
    }
    println!("put {inserted} jobs into {tube}");
    client.quit()?;
    Ok(())
}
