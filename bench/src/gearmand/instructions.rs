//! Instructions of client and worker for each job, without those of the server and of the kernel.

use anyhow::{Context, Result};

use super::{
    raw,
    scenario::{Kind, SCENARIOS, Scenario, Task, Work},
    start,
};
use crate::instructions::{Count, Counted, InstructionsOptions, ProbeOptions};

/// Counts, and prints a line for each scenario and face.
pub fn run_instructions(options: &InstructionsOptions) -> Result<()> {
    let (_server, address) = start()?;
    let mut keeper = raw::Keeper::connect(address)?;
    let count = Count { probe: "gearmand-probe", noun: "job", address, jobs: [1000, 5000] };
    let scenarios = SCENARIOS.iter().filter(|scenario| is_small(scenario));
    count.run(options, scenarios, |scenario, jobs| {
        let functions = scenario.function_names();
        keeper.clear(&functions)?;
        if scenario.task.needs_jobs() {
            let workload = &vec![b'x'; scenario.size][..];
            keeper.fill(&Work { task: scenario.task, functions: &functions, workload, jobs })?;
        }
        Ok(())
    })
}

impl Counted for Scenario {
    fn name(&self) -> &'static str {
        self.name
    }

    fn faces(&self) -> &'static [(Kind, Option<f64>)] {
        self.faces
    }
}

/// The round trip has a worker in this process, and where 1,000 or more are in flight there are too few jobs to tell
/// two runs apart.
fn is_small(scenario: &Scenario) -> bool {
    scenario.size == 64
        && scenario.functions == 1
        && scenario.fewest_jobs < 1000
        && scenario.task != Task::RoundTrip
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
