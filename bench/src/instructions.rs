//! Instructions of the clients for each job, without those of the server and of the kernel; knows no queue.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::{callgrind, kind::Kind};

/// What to count.
#[derive(Args, Clone, Debug)]
pub struct InstructionsOptions {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Only the scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// One run, in its own process.
#[derive(Args, Clone, Debug)]
pub struct ProbeOptions {
    #[arg(long)]
    pub address: SocketAddr,
    #[arg(long)]
    pub scenario: String,
    #[arg(long, value_enum)]
    pub kind: Kind,
    #[arg(long)]
    pub raw: bool,
    #[arg(long)]
    pub jobs: u64,
}

/// A scenario whose instructions are counted.
pub trait Counted {
    fn name(&self) -> &'static str;

    /// The faces that it has, with their targets.
    fn faces(&self) -> &'static [(Kind, Option<f64>)];
}

/// How the scenarios of a server are counted.
pub struct Count {
    /// The subcommand that runs one of them once, by [`ProbeOptions`].
    pub probe: &'static str,
    /// What is done with each.
    pub noun: &'static str,
    pub address: SocketAddr,
    /// How many, in each of two runs.
    pub jobs: [u64; 2],
}

impl Count {
    /// Counts, and prints a line for each scenario and face. `prepare` makes the server ready for a run of this number
    /// of jobs.
    pub fn run<'s, S: Counted + 's>(
        &self,
        options: &InstructionsOptions,
        scenarios: impl Iterator<Item = &'s S>,
        mut prepare: impl FnMut(&S, u64) -> Result<()>,
    ) -> Result<()> {
        let wanted = options.only.as_deref().unwrap_or_default();
        if !options.json {
            println!("Instructions per {}, without the server and the kernel:", self.noun);
        }
        for scenario in scenarios.filter(|scenario| scenario.name().contains(wanted)) {
            // How two threads meet differs in every run.
            for (kind, _) in scenario.faces().iter().filter(|(kind, _)| *kind != Kind::Multi) {
                let (name, face) = (scenario.name(), kind.name());
                let mut count =
                    |is_raw| self.of(name, face, is_raw, |jobs| prepare(scenario, jobs));
                let (raw, ours) = (count(true)?, count(false)?);
                if options.json {
                    let line = json!({ "scenario": name, "face": face, "instructions_raw": raw, "instructions_ours": ours });
                    println!("{line}");
                } else {
                    println!("{name:<34} {face:<9} raw {raw:>6}  ours {ours:>6}");
                }
            }
        }
        Ok(())
    }

    fn of(
        &self,
        name: &str,
        face: &str,
        is_raw: bool,
        prepare: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let address = self.address.to_string();
        let mut arguments = vec![self.probe, "--address", &address, "--scenario", name];
        arguments.extend(["--kind", face]);
        arguments.extend(is_raw.then_some("--raw"));
        callgrind::per_job(&arguments, self.jobs, prepare)
    }
}
