//! How a bulk command proceeds, and the flags that say so.

use clap::{Args, ValueEnum};

use super::rate::Rate;

/// Flags of commands that process their items one by one.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bulk options")]
pub struct ItemArgs {
    /// Process at most N items
    #[arg(short, long, alias = "limit", value_name = "N")]
    pub count: Option<u64>,

    /// What to do when an item fails
    #[arg(hide_short_help = true, long, value_name = "WHAT", default_value = "continue")]
    pub on_error: OnError,

    /// Rate limit: N/s, N/m or N/h, evenly spaced
    #[arg(hide_short_help = true, long, value_name = "N/s")]
    pub rate: Option<Rate>,
}

/// Flags of commands that have several requests in flight.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bulk options")]
pub struct BulkArgs {
    /// Those for each item.
    #[command(flatten)]
    pub items: ItemArgs,

    /// Maximum number of requests in flight
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(1..=500))]
    pub batch: u16,
}

impl BulkArgs {
    /// `--batch` as a count; under `--rate`, at most as many as keep an even pace.
    pub fn window(&self) -> usize {
        let batch = usize::from(self.batch);
        self.items.rate.map_or(batch, |rate| rate.step().min(batch))
    }
}

/// How a bulk command proceeds.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// What to do after a failure.
    pub on_error: OnError,
    /// The rate limit, if any.
    pub rate: Option<Rate>,
}

impl From<OnError> for Manner {
    fn from(on_error: OnError) -> Self {
        Self { on_error, rate: None }
    }
}

impl From<&ItemArgs> for Manner {
    fn from(args: &ItemArgs) -> Self {
        Self { on_error: args.on_error, rate: args.rate }
    }
}

/// The value of `--on-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Start nothing new after the first failure.
    Stop,
    /// Continue, and report failures at the end.
    Continue,
}
