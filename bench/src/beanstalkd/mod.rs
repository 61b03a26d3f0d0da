//! The beanstalkd clients against a real server.

mod ours;
mod peers;
mod raw;
mod scenario;
#[cfg(unix)]
mod tool;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fixtures::real::{Beanstalkd, RealServer};

use self::scenario::{Contender, SCENARIOS, Scenario, Work};
#[cfg(unix)]
pub use self::tool::{ToolOptions, run_tool};
use crate::{
    cores::Cores,
    measure::{Plan, interleave},
    report::{Face, Report, Row},
};

/// What to measure, and how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// One JSON object per line instead of a table
    #[arg(long)]
    json: bool,
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
    cores: Cores,
    /// Raw sockets and our own clients only
    #[arg(long)]
    no_peers: bool,
}

impl Options {
    fn plan(&self, scenario: &Scenario) -> Plan {
        let (rounds, slice) = if self.quick { (3, 20) } else { (15, 60) };
        Plan {
            rounds: self.rounds.map_or(rounds, usize::from),
            slice: Duration::from_millis(slice),
            fewest_jobs: 64,
            most_jobs: scenario.most_jobs,
        }
    }

    fn scenarios(&self) -> Result<Vec<Scenario>> {
        let wanted = self.only.as_deref().unwrap_or_default();
        let chosen: Vec<_> =
            SCENARIOS.into_iter().filter(|scenario| scenario.name.contains(wanted)).collect();
        let names = SCENARIOS.map(|scenario| scenario.name).join("; ");
        ensure!(!chosen.is_empty(), "no scenario's name contains {wanted:?}; there are: {names}");
        Ok(chosen)
    }
}

/// Runs the scenarios and prints what came out.
pub fn run(options: &Options) -> Result<()> {
    let scenarios = options.scenarios()?;
    let (_server, address) = options.cores.place(start)?;
    let mut keeper = raw::Blocking::connect(address)?;
    let mut contenders: Vec<Box<dyn Contender>> = vec![
        Box::new(raw::Blocking::connect(address)?),
        Box::new(raw::Tokio::connect(address)?),
        Box::new(ours::Blocking::connect(&address.to_string())?),
        Box::new(ours::Async::connect(&address.to_string())?),
    ];
    if !options.no_peers {
        contenders.extend(peers::all(address));
    }
    let mut report = Report::new(options.json, contenders.iter().skip(OWN).map(|c| c.name()));
    for scenario in scenarios {
        report.add(measure(options, &scenario, &mut keeper, &mut contenders)?)?;
    }
    report.finish(&[
        "Peers have no pipelining: in a pipelined scenario they do one command at a time.",
    ]);
    Ok(())
}

/// How many of the contenders are no peers.
const OWN: usize = 4;

/// A real server, and where it is.
fn start() -> Result<(RealServer, SocketAddr)> {
    let server = Beanstalkd::start().context(
        "beanstalkd is not installed: install the package `beanstalkd` or set BEANSTALKD to the program",
    )?;
    let address = server.socket_addr().context("the server does not listen on TCP")?;
    Ok((server, address))
}

fn measure(
    options: &Options,
    scenario: &Scenario,
    keeper: &mut raw::Blocking,
    contenders: &mut [Box<dyn Contender>],
) -> Result<Row> {
    let body = vec![b'x'; scenario.size];
    let mut running: Vec<&mut Box<dyn Contender>> = contenders
        .iter_mut()
        .filter(|contender| contender.takes_bodies_of(scenario.size))
        .collect();
    let rates = interleave(options.plan(scenario), &mut running, |contender, jobs| {
        let work = Work { task: scenario.task, body: &body, jobs };
        timed(keeper, contender.as_mut(), &work)
            .with_context(|| format!("{} in the scenario {:?}", contender.name(), scenario.name))
    })?;
    let mut rates = running.iter().map(|contender| contender.name()).zip(rates);
    let mut next = || rates.next().map(|(_, rates)| rates).unwrap_or_default();
    let (raw_blocking, raw_async, blocking, asynchronous) = (next(), next(), next(), next());
    let faces = [
        Face {
            name: "blocking",
            raw: raw_blocking,
            ours: blocking,
            target: scenario.target_blocking,
        },
        Face { name: "async", raw: raw_async, ours: asynchronous, target: scenario.target_async },
    ];
    let peers = rates.collect();
    Ok(Row { scenario: scenario.name, faces: faces.into(), peers, peer_target: None })
}

/// Prepares the tube, runs the work, and makes sure that it was done: as many jobs are left as there should be.
fn timed(
    keeper: &mut raw::Blocking,
    contender: &mut dyn Contender,
    work: &Work<'_>,
) -> Result<Duration> {
    if work.task.takes() {
        keeper.fill(work.body, work.jobs)?;
    }
    let start = Instant::now();
    contender.run(work)?;
    let time = start.elapsed();
    let expected = if work.task.takes() { 0 } else { work.jobs };
    let left = keeper.clear()?;
    ensure!(left == expected, "it left {left} jobs, and it should have been {expected}");
    Ok(time)
}
