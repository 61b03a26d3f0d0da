//! Takes numbered jobs from a tube until none comes for two seconds, with the blocking face.
//!
//! Finishing a job and asking for the next one go out in one write, so a job costs one round trip.
//!
//! `cargo run --example consumer_blocking -- 127.0.0.1:11300 numbers`

use std::{collections::HashSet, env, error::Error, time::Duration};

use beanstalk_client::{
    Job, Reserved,
    blocking::Client,
    protocol::{Delete, ReserveWithTimeout},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:11300".into());
    let tube = arguments.next().unwrap_or_else(|| "numbers".into());

    let mut client = Client::connect(address)?;
    client.watch(tube.as_str())?;
    client.ignore("default")?;

    let mut seen = HashSet::new();
    let next = ReserveWithTimeout::new(Duration::from_secs(2))?;
    let mut reserved = client.call(&next)?;
    loop {
        let job = match reserved {
            Reserved::Job(job) => job,
            // This consumer holds no job while it waits, so none of its deadlines can come.
            Reserved::TimedOut | Reserved::DeadlineSoon => break,
        };
        work(&job, &mut seen)?;
        let (deleted, following) = client.call_pair(&Delete::new(&job), &next)?;
        deleted?;
        reserved = following?;
    }
    println!("took {} jobs from {tube}", seen.len());
    Ok(())
}

/// The work itself: here, to see every number once.
fn work(job: &Job, seen: &mut HashSet<u32>) -> Result<(), Box<dyn Error>> {
    let number: u32 = std::str::from_utf8(&job.body)?.parse()?;
    if !seen.insert(number) {
        return Err(format!("job {} repeats the number {number}", job.id).into());
    }
    Ok(())
}
