//! The Gearman clients and workers against a real server.

mod costs;
mod depth;
mod instructions;
mod ours;
mod peers;
mod raw;
mod scenario;

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fixtures::real::{Gearmand, RealServer};

use self::scenario::{Contender, Kind, SCENARIOS, Scenario, Task, Work};
pub use self::{
    costs::{CostsOptions, MemoryProbeOptions, run_costs, run_memory_probe},
    depth::{DepthOptions, run_depth},
    instructions::{run_instructions, run_probe},
};
use crate::{
    measure::{Plan, Rates, interleave},
    options,
    report::{Face, Report, Row},
    stopwatch::Clock,
};

/// What to measure, and how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    common: options::Options,
    /// Clock of the figures; with one core, both clocks show much the same on an otherwise idle machine
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    clock: Clock,
}

/// Runs the scenarios and prints the results.
pub fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let scenarios = common.choose(&SCENARIOS, |scenario| scenario.name)?;
    let (server, address) = common.cores.place(start)?;
    options.clock.choose(server.pid())?;
    let mut arena = Arena {
        address,
        keeper: raw::Keeper::connect(address)?,
        faces: Vec::new(),
        peers: if common.no_peers { Vec::new() } else { peers::all(address) },
    };
    for kind in [Kind::Blocking, Kind::Async, Kind::Multi] {
        arena.faces.push((kind, raw(address, kind)?, ours(address, kind)?));
    }
    let mut report = Report::new(common.json, arena.peers.iter().map(|peer| peer.name()));
    for scenario in scenarios {
        let plan = common.plan(scenario.fewest_jobs..=scenario.most_jobs);
        report.add(arena.measure(plan, &scenario)?)?;
    }
    let of_processor = options.clock == Clock::Processor;
    report.finish(&[
        if of_processor {
            "Seconds are those in which the processor worked for server and clients, not those in which they waited."
        } else {
            "Seconds are those that passed."
        },
        "Faces: blocking sockets, tokio on a current-thread runtime, tokio on a runtime with two threads; peers run as they are.",
    ]);
    Ok(())
}

/// A real server, and its address.
fn start() -> Result<(RealServer, SocketAddr)> {
    let server = Gearmand::start().context(
        "gearmand is not installed: install the package `gearman-job-server` or set GEARMAND to the program",
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

/// The server, and its contenders.
struct Arena {
    address: SocketAddr,
    keeper: raw::Keeper,
    /// Each kind with its raw loop and our client.
    faces: Vec<(Kind, Boxed, Boxed)>,
    peers: Vec<Boxed>,
}

/// A contender that runs a scenario.
struct Running<'a> {
    contender: &'a mut Boxed,
    is_peer: bool,
    /// A peer that failed has no figures.
    has_failed: bool,
}

impl Arena {
    fn measure(&mut self, plan: Plan, scenario: &Scenario) -> Result<Row> {
        let Arena { address, keeper, faces, peers } = self;
        let functions = scenario.function_names();
        let workload = vec![b'x'; scenario.size];
        let own = |contender| Running { contender, is_peer: false, has_failed: false };
        let mut running = Vec::new();
        for (kind, raw, ours) in faces {
            if scenario.faces.iter().any(|(wanted, _)| wanted == kind) {
                running.extend([own(raw), own(ours)]);
            }
        }
        let able = peers.iter_mut().filter(|peer| peer.can(scenario));
        running.extend(able.map(|peer| Running { is_peer: true, ..own(peer) }));
        let rates = interleave(plan, &mut running, |running, jobs| {
            let (functions, workload) = (&functions[..], &workload[..]);
            let work = Work { task: scenario.task, functions, workload, jobs };
            running.run(*address, keeper, &work).with_context(|| {
                format!("{} in the scenario {:?}", running.contender.name(), scenario.name)
            })
        })?;
        Ok(row(scenario, &running, rates))
    }
}

impl Running<'_> {
    /// Runs the work, but skips a peer that has failed once.
    fn run(
        &mut self,
        address: SocketAddr,
        keeper: &mut raw::Keeper,
        work: &Work<'_>,
    ) -> Result<Duration> {
        const NEVER: Duration = Duration::from_secs(3600);
        if self.has_failed {
            return Ok(NEVER);
        }
        match timed(address, keeper, self.contender.as_mut(), work) {
            Err(error) if self.is_peer => {
                eprintln!("bench: without the peer {}: {error:#}", self.contender.name());
                self.has_failed = true;
                keeper.clear(work.functions)?;
                Ok(NEVER)
            }
            outcome => outcome,
        }
    }
}

/// Prepares the queue, runs the work, and verifies that it was done by the number of remaining jobs.
fn timed(
    address: SocketAddr,
    keeper: &mut raw::Keeper,
    contender: &mut dyn Contender,
    work: &Work<'_>,
) -> Result<Duration> {
    if work.task.needs_jobs() {
        keeper.fill(work)?;
    }
    let time = if work.task == Task::RoundTrip {
        let worker = raw::Helper::start(address, work, 1)?;
        let time = contender.run(work)?;
        worker.finish()?;
        time
    } else {
        contender.run(work)?
    };
    let expected = if work.task.leaves_jobs() { work.jobs } else { 0 };
    let left = keeper.clear(work.functions)?;
    ensure!(left == expected, "it left {left} jobs, and it should have been {expected}");
    Ok(time)
}

fn row(scenario: &Scenario, running: &[Running<'_>], rates: Vec<Rates>) -> Row {
    let mut faces = Vec::new();
    let mut rates = running.iter().zip(rates);
    let mut next = || rates.next().map(|(_, rates)| rates).unwrap_or_default();
    for (kind, target) in scenario.faces {
        let (raw, ours) = (next(), next());
        faces.push(Face { name: kind.name(), raw, ours, target: *target });
    }
    let peers = rates
        .filter(|(peer, _)| !peer.has_failed)
        .map(|(peer, rates)| (peer.contender.name(), rates))
        .collect();
    Row { scenario: scenario.name.to_owned(), faces, peers, peer_target: scenario.peer_target }
}
