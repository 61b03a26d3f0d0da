//! The beanstalkd clients against a real server.

mod costs;
mod instructions;
mod ours;
mod peers;
mod raw;
mod scenario;
#[cfg(unix)]
mod tool;

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use fixtures::real::{Beanstalkd, RealServer};

use self::scenario::{Contender, Kind, SCENARIOS, Scenario, Work};
#[cfg(unix)]
pub use self::tool::{ToolOptions, run_tool};
pub use self::{
    costs::{CostsOptions, MemoryProbeOptions, run_costs, run_memory_probe},
    instructions::{run_instructions, run_probe},
};
use crate::{
    measure::{Plan, Rates, interleave},
    options::Options,
    report::{Face, Report, Row},
};

/// Runs the scenarios and prints the results.
pub fn run(options: &Options) -> Result<()> {
    let scenarios = options.choose(&SCENARIOS, |scenario| scenario.name)?;
    let (_server, address) = options.cores.place(start)?;
    let mut arena = Arena {
        keeper: raw::Blocking::connect(address)?,
        faces: Vec::new(),
        peers: if options.no_peers { Vec::new() } else { peers::all(address) },
    };
    for kind in [Kind::Blocking, Kind::Async, Kind::Multi] {
        arena.faces.push((kind, raw(address, kind)?, ours(address, kind)?));
    }
    let mut report = Report::new(options.json, arena.peers.iter().map(|peer| peer.name()));
    for scenario in scenarios {
        let plan = options.plan(scenario.fewest_jobs..=scenario.most_jobs);
        report.add(arena.measure(plan, &scenario)?)?;
    }
    report.finish(&[
        "Peers have no pipelining: in a pipelined scenario they do one command at a time. For many callers, or slots, they have a thread with a connection each.",
        "Faces: blocking sockets and threads, tokio on a current-thread runtime, tokio on a runtime with two threads.",
    ]);
    Ok(())
}

/// A real server, and its address.
fn start() -> Result<(RealServer, SocketAddr)> {
    let server = Beanstalkd::start().context(
        "beanstalkd is not installed: install the package `beanstalkd` or set BEANSTALKD to the program",
    )?;
    let address = server.socket_addr().context("the server does not listen on TCP")?;
    Ok((server, address))
}

type Boxed = Box<dyn Contender>;

fn raw(address: SocketAddr, kind: Kind) -> Result<Boxed> {
    Ok(match kind {
        Kind::Blocking => Box::new(raw::Blocking::connect(address)?),
        Kind::Async | Kind::Multi => Box::new(raw::Tokio::connect(address, kind)?),
    })
}

fn ours(address: SocketAddr, kind: Kind) -> Result<Boxed> {
    let address = address.to_string();
    Ok(match kind {
        Kind::Blocking => Box::new(ours::Blocking::connect(&address)?),
        Kind::Async | Kind::Multi => Box::new(ours::Async::connect(&address, kind)?),
    })
}

/// All contenders, and a connection to manage the server.
struct Arena {
    keeper: raw::Blocking,
    /// Each kind with its raw loop and our client.
    faces: Vec<(Kind, Boxed, Boxed)>,
    peers: Vec<Boxed>,
}

impl Arena {
    fn measure(&mut self, plan: Plan, scenario: &Scenario) -> Result<Row> {
        let Arena { keeper, faces, peers } = self;
        let body = vec![b'x'; scenario.size];
        let mut running: Vec<&mut Boxed> = Vec::new();
        for (kind, raw, ours) in faces {
            if scenario.faces.iter().any(|(wanted, _)| wanted == kind) {
                running.extend([raw, ours]);
            }
        }
        running.extend(peers.iter_mut().filter(|peer| peer.can(scenario)));
        let rates = interleave(plan, &mut running, |contender, jobs| {
            let work = Work { task: scenario.task, body: &body, jobs };
            timed(keeper, contender.as_mut(), &work).with_context(|| {
                format!("{} in the scenario {:?}", contender.name(), scenario.name)
            })
        })?;
        Ok(row(scenario, running.iter().map(|contender| contender.name()).zip(rates)))
    }
}

fn row(scenario: &Scenario, mut rates: impl Iterator<Item = (&'static str, Rates)>) -> Row {
    let mut faces = Vec::new();
    for (kind, target) in scenario.faces {
        let mut next = || rates.next().map(|(_, rates)| rates).unwrap_or_default();
        let (raw, ours) = (next(), next());
        faces.push(Face { name: kind.name(), raw, ours, target: *target });
    }
    let peers: Vec<_> = rates.collect();
    let by_rate = |(_, a): &&(_, Rates), (_, b): &&(_, Rates)| a.median().total_cmp(&b.median());
    let best = peers.iter().max_by(by_rate).map(|(name, _)| *name);
    let peer_target = best.zip(scenario.peer_target);
    Row { scenario: scenario.name.to_owned(), faces, peers, peer_target }
}

/// Prepares the tube, runs the work, and verifies that it was done by the number of remaining jobs.
fn timed(
    keeper: &mut raw::Blocking,
    contender: &mut dyn Contender,
    work: &Work<'_>,
) -> Result<Duration> {
    if work.task.takes() {
        keeper.fill(work.body, work.jobs)?;
    }
    let time = contender.run(work)?;
    let expected = if work.task.takes() { 0 } else { work.jobs };
    let left = keeper.clear()?;
    ensure!(left == expected, "it left {left} jobs, and it should have been {expected}");
    Ok(time)
}
