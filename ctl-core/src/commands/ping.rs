//! `ping`: whether the servers answer, how fast, and how these times are distributed.

use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::{Link, PATIENCE};
use crate::output::{Record, times};
use crate::system::at_once::at_once;
use crate::text::units;

/// The end of `ping --help`, with the tool's words.
pub(crate) const HELP: &str = "\
{ping}

Examples:
  {name} ping
  {name} ping --count 1000 --interval 10ms";

/// Arguments of `ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Number of round trips [default: 1, or until Ctrl-C with --interval]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Interval between two round trips [default: 1s]
    #[arg(short, long, value_name = "DUR", value_parser = units::duration)]
    interval: Option<Duration>,
}

/// Runs `ping`: queries all servers at the same time, shows the answers of each round, and at the end how the times
/// are distributed, also after Ctrl-C.
///
/// # Errors
/// No server can be reached (69), answers in time (124) or answers correctly (76).
pub fn run<T: Tool>(context: &mut Context<T>, args: &PingArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    let interrupts = context.interrupts()?;
    let blank = times::histogram()?;
    let server =
        |(address, link)| Server { address, link, times: blank.clone(), lost: 0, failure: None };
    let mut servers: Vec<Server<T::Link>> = context.link.each()?.into_iter().map(server).collect();
    if let [only] = servers.as_mut_slice() {
        // Uses the session's connection, if there is one.
        std::mem::swap(&mut only.link, &mut context.link);
    }
    let mut list = context.out.list(T::Link::PING)?.live();
    let (mut asked, is_alone) = (Ok(()), servers.len() == 1);
    let most = args.count.unwrap_or(if args.interval.is_some() { u64::MAX } else { 1 });
    'rounds: for n in 1..=most {
        if n > 1 {
            asked = list.flush();
            let interval = args.interval.unwrap_or(Duration::from_secs(1));
            if asked.is_err() || interrupts.sleep(interval).is_err() {
                break;
            }
        }
        for answer in at_once(&mut servers, |server| server.ask(n)) {
            match answer {
                Ok(record) => asked = list.push(record),
                // The error is sufficient.
                Err(_) if n == 1 && is_alone => break 'rounds,
                Err((record, said)) => {
                    context.messages.warn(said);
                    asked = list.push(record);
                }
            }
            if asked.is_err() || interrupts.requested().is_some() {
                break 'rounds;
            }
        }
    }
    if let [only] = servers.as_mut_slice() {
        std::mem::swap(&mut only.link, &mut context.link);
    }
    asked?;
    if servers.iter().all(|server| server.times.is_empty()) {
        let failures = servers.into_iter().filter_map(|server| server.failure);
        let worst = failures.max_by_key(|error| error.exit.code());
        return Err(worst.unwrap_or_else(|| CliError::interrupted(Exit::Interrupted)));
    }
    list.finish()?;
    if most > 1 || servers.len() > 1 {
        for Server { address, times, lost, .. } in &servers {
            context.messages.note(summary(address, times, *lost));
        }
    }
    let exits = servers.iter().filter_map(|server| Some(server.failure.as_ref()?.exit));
    let worst = exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Done);
    Ok(interrupts.requested().unwrap_or(worst))
}

/// A server and its answers.
struct Server<L> {
    address: String,
    link: L,
    times: Histogram<u64>,
    lost: u64,
    /// The last failure.
    failure: Option<CliError>,
}

impl<L: Link> Server<L> {
    /// The record of the `n`th answer, or of its absence, with the reason.
    fn ask(&mut self, n: u64) -> Result<Record, (Record, String)> {
        let record = Record::new().with("server", self.address.as_str()).with("n", n);
        // Connecting is not part of the measured time.
        match self.link.connect().and_then(|()| self.link.ping(n)) {
            Ok(pong) => {
                self.times.saturating_record(times::nanoseconds(pong.took));
                let record = record.with("duration_ms", units::milliseconds(pong.took));
                Ok(match pong.more {
                    Some((key, value)) => record.with(key, value),
                    None => record,
                })
            }
            Err(error) => {
                self.lost += 1;
                let text = error.to_string();
                let said = error.at(&self.address);
                self.failure = Some(error);
                Err((record.with("error", text), said))
            }
        }
    }
}

/// For example `localhost:11300: 4 of 5 answered, min 0.1 ms, avg 0.2 ms, p50 0.2 ms, p99 0.3 ms, max 0.3 ms`.
fn summary(address: &str, times: &Histogram<u64>, lost: u64) -> String {
    let came = times.len();
    let count = format!("{address}: {came} of {} answered", came + lost);
    if times.is_empty() {
        return count;
    }
    let [p50, p99] = [0.5, 0.99].map(|quantile| times.value_at_quantile(quantile));
    let [min, avg, p50, p99, max] =
        [times.min(), times.mean() as u64, p50, p99, times.max()].map(times::milliseconds);
    format!("{count}, min {min} ms, avg {avg} ms, p50 {p50} ms, p99 {p99} ms, max {max} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_percentiles() {
        let mut times = times::histogram().unwrap();
        assert_eq!(summary("x", &times, 3), "x: 0 of 3 answered");
        (1..=100).for_each(|ms| times.saturating_record(ms * 1_000_000));
        let text = summary("x", &times, 1);
        let said: Vec<f64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(text.starts_with("x: 100 of 101 answered, min "), "{text}");
        let near = |(said, expected): (&f64, f64)| (said - expected).abs() <= expected / 500.0;
        let of_times = said[2..].iter().zip([1.0, 50.5, 50.0, 99.0, 100.0]);
        assert!(said.len() == 7 && of_times.into_iter().all(near), "{text}");
    }
}
