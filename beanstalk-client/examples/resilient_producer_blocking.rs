//! Puts every line of its standard input as a job, and survives failures of its servers, with the blocking face.
//!
//! It prints every line that a server has acknowledged. Kill the server, start it again, and it continues. With several
//! servers it does not even wait.
//!
//! `seq 1000 | cargo run --example resilient_producer_blocking -- 127.0.0.1:11300 numbers`

use std::{env, error::Error, io::stdin, process::ExitCode, thread, time::Duration};

use beanstalk_client::{
    ConnectOptions, Delivery, ProducerOptions, PutOptions, RetryPolicy, Servers, TubeName,
    blocking::Producer,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
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

    // However many threads put jobs, they share one connection to each server.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut text = String::new();
                while stdin().read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
                    let line = std::mem::take(&mut text);
                    let line = line.trim_end();
                    match producer.put(&tube, line, PutOptions::default()) {
                        Ok(_) => println!("{line}"),
                        Err(error) => eprintln!("{line}: {error}"),
                    }
                }
            });
        }
    });
    let report = producer.close();
    eprintln!("{report}");
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
