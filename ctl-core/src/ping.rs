//! `ping`: is the server there, and how far away is it.

use std::time::Duration;

use clap::Args;

use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::Record;
use crate::tool::{Context, Tool};
use crate::units;

/// Arguments of `ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// How often
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    count: u64,

    /// Pause between two
    #[arg(short, long, value_name = "DUR", default_value = "1s", value_parser = units::duration)]
    interval: Duration,
}

/// The bound of `ping` and `check` where the flags say nothing.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Runs `ping`.
///
/// # Errors
/// The server cannot be reached (69), does not answer in time (124) or answers with something else (76).
pub fn run<T: Tool>(context: &mut Context<T>, args: &PingArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    let address = context.link.dialer_mut().address()?;
    let interrupts = context.interrupts()?;
    context.link.connect()?;
    let mut list = context.out.list(T::Link::PING)?;
    for n in 1..=args.count {
        if n > 1 {
            list.flush()?;
            interrupts.sleep(args.interval)?;
        }
        let pong = context.link.ping(n)?;
        let record = Record::new().with("address", address.as_str()).with("n", n);
        let record = record.with("ms", units::milliseconds(pong.took));
        list.push(match pong.more {
            Some((key, value)) => record.with(key, value),
            None => record,
        })?;
    }
    list.finish()?;
    Ok(Exit::Done)
}
