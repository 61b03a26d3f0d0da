//! Instructions of the clients for each job, without those of the server and of the kernel.

use anyhow::{Context, Result};

use super::{
    raw,
    scenario::{Kind, SCENARIOS, Scenario, Work},
    start,
};
use crate::instructions::{Count, Counted, InstructionsOptions, ProbeOptions};

/// Counts, and prints a line for each scenario and face.
pub fn run_instructions(options: &InstructionsOptions) -> Result<()> {
    let (_server, address) = start()?;
    let mut keeper = raw::Blocking::connect(address)?;
    let count = Count { probe: "beanstalkd-probe", noun: "job", address, jobs: [2000, 10_000] };
    let scenarios = SCENARIOS.iter().filter(|scenario| is_small(scenario));
    count.run(options, scenarios, |scenario, jobs| {
        keeper.clear()?;
        if scenario.task.takes() {
            keeper.fill(&vec![b'x'; scenario.size], jobs)?;
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

/// Valgrind does not take a thousand threads.
fn is_small(scenario: &Scenario) -> bool {
    scenario.size == 64 && scenario.task.threads() <= 100
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
    contender.run(&Work { task: scenario.task, body: &body, jobs: options.jobs })?;
    Ok(())
}
