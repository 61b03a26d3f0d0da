//! `ping`: is the server there, and how far away is it.

use std::time::Duration;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::units;

use crate::tool::Tool;

/// The end of `ping --help`.
pub const HELP: &str = "\
Protocol: ECHO_REQ; the answer must be the bytes that were sent. A server that leaves it unanswered for half of the time,
as geard does, is asked with GET_STATUS; `packet` in JSON says which of them was answered.
Connecting and answering are bounded by 2 s each unless --timeout says otherwise.

Examples:
  gearctl ping
  gearctl ping --count 10 --interval 100ms";

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

static PING: Shape = Shape::rows(
    "address",
    &[
        Column::new("address", "SERVER"),
        Column::new("n", "N"),
        Column::new("ms", "MS"),
        Column::on_request("packet", "PACKET"),
    ],
);

/// The bound where the flags say nothing.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Runs `ping`.
///
/// # Errors
/// The server cannot be reached (69), does not answer in time (124) or answers with other bytes (76).
pub fn run(tool: &mut Tool, args: PingArgs) -> Result<Exit, CliError> {
    tool.link.default_timeout(PATIENCE);
    let address = tool.link.address()?;
    let interrupts = tool.interrupts()?;
    tool.link.client()?;
    let mut list = tool.out.list(&PING)?;
    for n in 1..=args.count {
        if n > 1 {
            list.flush()?;
            interrupts.sleep(args.interval)?;
        }
        let pong = tool.link.ping(format!("gearctl {n}").as_bytes())?;
        let record = Record::new()
            .with("address", address.as_str())
            .with("n", n)
            .with("ms", milliseconds(pong.took))
            .with("packet", pong.asked.name());
        list.push(record)?;
    }
    list.finish()?;
    Ok(Exit::Done)
}

/// Milliseconds with three decimals.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
