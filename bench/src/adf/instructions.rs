//! Instructions of the clients for each message, without those of the server and of the kernel.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::{
    raw,
    scenario::{Kind, SCENARIOS, Scenario, Work},
    server::{InMemory, QUEUE},
};
use crate::callgrind;

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

/// One run, in a process of its own.
#[derive(Args, Clone, Debug)]
pub struct ProbeOptions {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    scenario: String,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    raw: bool,
    #[arg(long)]
    jobs: u64,
}

/// Counts, and prints a line for each scenario and face.
pub fn run_instructions(options: &InstructionsOptions) -> Result<()> {
    let wanted = options.only.as_deref().unwrap_or_default();
    let server = InMemory::start()?;
    let mut keeper = raw::Blocking::connect(server.address)?;
    if !options.json {
        println!("Instructions per message, without the server and the kernel:");
    }
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.size == 64) {
        if !scenario.name.contains(wanted) {
            continue;
        }
        // How two threads meet is another story in every run.
        for (kind, _) in scenario.faces.iter().filter(|(kind, _)| *kind != Kind::Multi) {
            let mut count = |is_raw| count(server.address, &mut keeper, scenario, *kind, is_raw);
            let (raw, ours) = (count(true)?, count(false)?);
            let (name, face) = (scenario.name, kind.name());
            if options.json {
                let line = json!({ "scenario": name, "face": face, "instructions_raw": raw, "instructions_ours": ours });
                println!("{line}");
            } else {
                println!("{name:<24} {face:<9} raw {raw:>6}  ours {ours:>6}");
            }
        }
    }
    Ok(())
}

fn count(
    address: SocketAddr,
    keeper: &mut raw::Blocking,
    scenario: &Scenario,
    kind: Kind,
    is_raw: bool,
) -> Result<u64> {
    let address = address.to_string();
    let mut arguments = vec!["adf-probe", "--address", &address, "--scenario", scenario.name];
    arguments.extend(["--kind", kind.name()]);
    arguments.extend(is_raw.then_some("--raw"));
    let body = vec![b'x'; scenario.size];
    callgrind::per_job(&arguments, [2000, 10_000], |jobs| {
        keeper.clear(QUEUE)?;
        if scenario.task.takes() {
            keeper.fill(QUEUE, &body, jobs)?;
        }
        Ok(())
    })
}

/// Runs a scenario once.
pub fn run_probe(options: &ProbeOptions) -> Result<()> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == options.scenario);
    let scenario = scenario.context("there is no such scenario")?;
    let body = vec![b'x'; scenario.size];
    let mut contender = if options.raw {
        super::raw(options.address, options.kind)?
    } else {
        super::ours(options.address, options.kind)?
    };
    contender.run(&Work { task: scenario.task, queue: QUEUE, body: &body, jobs: options.jobs })?;
    Ok(())
}
