//! The command line of every comparison; knows no queue.

use std::{ops::RangeInclusive, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;

use crate::{cores::Cores, measure::Plan};

/// What to measure, and how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// One JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Fewer and shorter rounds, for a first look
    #[arg(long)]
    quick: bool,
    /// Rounds per scenario; an odd number has a real median [default: 15, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..1000))]
    rounds: Option<u16>,
    /// Only the scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The processor cores of the server and the clients
    #[arg(long, value_enum, default_value_t = Cores::One)]
    pub cores: Cores,
    /// Raw sockets and our own clients only
    #[arg(long)]
    pub no_peers: bool,
}

impl Options {
    /// How long and how often each contender runs, for runs of that many jobs.
    pub fn plan(&self, jobs: RangeInclusive<u64>) -> Plan {
        let (rounds, slice) = if self.quick { (3, 20) } else { (15, 60) };
        Plan {
            rounds: self.rounds.map_or(rounds, usize::from),
            slice: Duration::from_millis(slice),
            fewest_jobs: *jobs.start(),
            most_jobs: *jobs.end(),
        }
    }

    /// The scenarios that are wanted, of all that there are.
    pub fn choose<S: Copy>(&self, all: &[S], name: impl Fn(&S) -> &'static str) -> Result<Vec<S>> {
        let wanted = self.only.as_deref().unwrap_or_default();
        let chosen: Vec<_> =
            all.iter().filter(|scenario| name(scenario).contains(wanted)).copied().collect();
        let names: Vec<_> = all.iter().map(name).collect();
        let names = names.join("; ");
        ensure!(!chosen.is_empty(), "no scenario's name contains {wanted:?}; there are: {names}");
        Ok(chosen)
    }
}
