//! Instructions of the clients for each message, without those of the server and of the kernel.

use anyhow::{Context, Result};

use super::{
    raw,
    scenario::{Kind, SCENARIOS, Scenario, Work},
};
use crate::{
    in_memory::{InMemory, Protocol, QUEUE},
    instructions::{Count, Counted, InstructionsOptions, ProbeOptions},
};

/// Counts, and prints a line for each scenario and face.
pub fn run_instructions(options: &InstructionsOptions) -> Result<()> {
    let server = InMemory::start(Protocol::Adf)?;
    let mut keeper = raw::Blocking::connect(server.address)?;
    let (address, jobs) = (server.address, [2000, 10_000]);
    let count = Count { probe: "adf-probe", noun: "message", address, jobs };
    let scenarios = SCENARIOS.iter().filter(|scenario| scenario.size == 64);
    count.run(options, scenarios, |scenario, jobs| {
        keeper.clear(QUEUE)?;
        if scenario.task.takes() {
            keeper.fill(QUEUE, &vec![b'x'; scenario.size], jobs)?;
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
