//! Instructions of client and worker for each job, without those of the server and of the kernel.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;

use super::{
    raw,
    scenario::{Kind, SCENARIOS, Scenario, Task, Work},
    start,
};
use crate::callgrind;

/// What to count.
#[derive(Args, Clone, Debug)]
pub struct InstructionsOptions {
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
    let (_server, address) = start()?;
    let mut keeper = raw::Keeper::connect(address)?;
    println!("Instructions per job, without the server and the kernel:");
    for scenario in SCENARIOS.iter().filter(|scenario| is_small(scenario)) {
        if !scenario.name.contains(wanted) {
            continue;
        }
        for (kind, _) in scenario.faces.iter().filter(|(kind, _)| *kind != Kind::Multi) {
            let raw = count(address, &mut keeper, scenario, *kind, true)?;
            let ours = count(address, &mut keeper, scenario, *kind, false)?;
            println!("{:<32} {:<9} raw {raw:>6}  ours {ours:>6}", scenario.name, kind.name());
        }
    }
    Ok(())
}

/// The round trip has a worker in this process, and where 1,000 or more are in flight there are too few jobs to tell two
/// runs apart.
fn is_small(scenario: &Scenario) -> bool {
    scenario.size == 64
        && scenario.functions == 1
        && scenario.fewest_jobs < 1000
        && scenario.task != Task::RoundTrip
}

fn count(
    address: SocketAddr,
    keeper: &mut raw::Keeper,
    scenario: &Scenario,
    kind: Kind,
    is_raw: bool,
) -> Result<u64> {
    let address = address.to_string();
    let mut arguments = vec!["gearmand-probe", "--address", &address, "--scenario", scenario.name];
    arguments.extend(["--kind", kind.name()]);
    arguments.extend(is_raw.then_some("--raw"));
    let functions = scenario.function_names();
    callgrind::per_job(&arguments, [1000, 5000], |jobs| {
        keeper.clear(&functions)?;
        if scenario.task.needs_jobs() {
            let workload = &vec![b'x'; scenario.size][..];
            keeper.fill(&Work { task: scenario.task, functions: &functions, workload, jobs })?;
        }
        Ok(())
    })
}

/// Runs a scenario once.
pub fn run_probe(options: &ProbeOptions) -> Result<()> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == options.scenario);
    let scenario = scenario.context("there is no such scenario")?;
    let functions = scenario.function_names();
    let workload = vec![b'x'; scenario.size];
    let mut contender = if options.raw {
        super::raw(options.address, options.kind)?
    } else {
        super::ours(options.address, options.kind)?
    };
    let jobs = options.jobs;
    contender.run(&Work {
        task: scenario.task,
        functions: &functions,
        workload: &workload,
        jobs,
    })?;
    Ok(())
}
