//! `ping`: whether the servers answer, and how fast.

use std::time::Duration;

use clap::Args;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::link::PATIENCE;
use crate::output::Record;
use crate::system::at_once::at_once;
use crate::text::units;

/// Arguments of `ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// Number of round trips
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Interval between two round trips
    #[arg(short, long, value_name = "DUR", default_value = "1s", value_parser = units::duration)]
    interval: Duration,
}

/// Runs `ping`: queries all servers at the same time, shows the answers of each round, and a summary at the end, also
/// after Ctrl-C.
///
/// # Errors
/// No server can be reached (69), answers in time (124) or answers correctly (76).
pub fn run<T: Tool>(context: &mut Context<T>, args: &PingArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    let interrupts = context.interrupts()?;
    let mut servers: Vec<Server<T::Link>> =
        context.link.each()?.into_iter().map(Server::new).collect();
    if let [only] = servers.as_mut_slice() {
        // Uses the session's connection, if there is one.
        std::mem::swap(&mut only.link, &mut context.link);
    }
    let mut list = context.out.list(T::Link::PING)?.live();
    let (mut asked, is_alone) = (Ok(()), servers.len() == 1);
    'rounds: for n in 1..=args.count {
        if n > 1 {
            asked = list.flush();
            if asked.is_err() || interrupts.sleep(args.interval).is_err() {
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
        let failure = servers.into_iter().filter_map(|server| server.failure).max_by_key(code);
        return Err(failure.unwrap_or_else(|| CliError::interrupted(Exit::Interrupted)));
    }
    list.finish()?;
    if args.count > 1 || servers.len() > 1 {
        servers.iter().for_each(|server| context.messages.note(server.summary()));
    }
    let worst = servers.iter().filter_map(|server| server.failure.as_ref()).max_by_key(|e| code(e));
    let worst = worst.map_or(Exit::Done, |error| error.exit);
    Ok(interrupts.requested().unwrap_or(worst))
}

fn code(error: &CliError) -> u8 {
    error.exit.code()
}

/// A server and its answers.
struct Server<L> {
    address: String,
    link: L,
    times: Vec<Duration>,
    lost: u64,
    /// The last failure.
    failure: Option<CliError>,
}

impl<L: Link> Server<L> {
    fn new((address, link): (String, L)) -> Self {
        Self { address, link, times: Vec::new(), lost: 0, failure: None }
    }

    /// The record of the `n`th answer, or of its absence, with the reason.
    fn ask(&mut self, n: u64) -> Result<Record, (Record, String)> {
        let record = Record::new().with("address", self.address.as_str()).with("n", n);
        // Connecting is not part of the measured time.
        match self.link.connect().and_then(|()| self.link.ping(n)) {
            Ok(pong) => {
                self.times.push(pong.took);
                let record = record.with("ms", units::milliseconds(pong.took));
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

    /// For example `localhost:11300: 4 of 5 answered, min 0.1 ms, avg 0.2 ms, max 0.3 ms`.
    fn summary(&self) -> String {
        let came = self.times.len();
        let asked = came as u64 + self.lost;
        let count = format!("{}: {came} of {asked} answered", self.address);
        let sum: Duration = self.times.iter().sum();
        let average = u32::try_from(came).ok().and_then(|came| sum.checked_div(came));
        match (self.times.iter().min(), average, self.times.iter().max()) {
            (Some(min), Some(average), Some(max)) => {
                let [min, average, max] = [*min, average, *max].map(units::milliseconds);
                format!("{count}, min {min} ms, avg {average} ms, max {max} ms")
            }
            _ => count,
        }
    }
}
