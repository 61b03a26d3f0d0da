//! The Adf.QueueServer clients against the in-memory server, and against a real one if there is one.

mod instructions;
mod ours;
mod peer;
mod raw;
mod scenario;

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use fixtures::real::AdfQueueServer;

pub use self::instructions::{run_instructions, run_probe};
use self::scenario::{Contender, Kind, SCENARIOS, Scenario, Work};
use crate::{
    in_memory::{InMemory, Protocol, QUEUE},
    measure::{Plan, Rates, interleave},
    options::Options,
    report::{Face, Report, Row},
};

/// Runs the scenarios and prints the results.
pub fn run(options: &Options) -> Result<()> {
    let scenarios = options.choose(&SCENARIOS, |scenario| scenario.name)?;
    let server = options.cores.place(|| InMemory::start(Protocol::Adf))?;
    let real = AdfQueueServer::find();
    let queue = real.as_ref().map(|real| real.queue("bench")).transpose()?;
    let mut arenas = vec![Arena::new("", server.address, QUEUE.to_owned(), options)?];
    if let (Some(real), Some(queue)) = (&real, &queue) {
        let (address, queue) = (real.socket_addr(), queue.name().to_owned());
        arenas.push(Arena::new(", real server", address, queue, options)?);
    }
    let peers = (!options.no_peers).then_some(PEER);
    let mut report = Report::new(options.json, peers.into_iter());
    for arena in &mut arenas {
        for scenario in &scenarios {
            let plan = options.plan(scenario.fewest_jobs..=scenario.most_jobs);
            report.add(arena.measure(plan, scenario)?)?;
        }
    }
    report.finish(&[
        "The tungstenite loop does one request at a time, and for many callers has a task with a connection each.",
        "Faces: blocking sockets and threads, tokio on a current-thread runtime, tokio on a runtime with two threads.",
    ]);
    Ok(())
}

const PEER: &str = peer::NAME;

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

/// A server, its contenders, and a connection to manage its queue.
struct Arena {
    /// The suffix of its scenarios' names.
    suffix: &'static str,
    queue: String,
    keeper: raw::Blocking,
    /// Each kind with its raw loop and our client.
    faces: Vec<(Kind, Boxed, Boxed)>,
    peer: Option<Boxed>,
}

impl Arena {
    fn new(
        suffix: &'static str,
        address: SocketAddr,
        queue: String,
        options: &Options,
    ) -> Result<Self> {
        let keeper = raw::Blocking::connect(address)?;
        let mut faces = Vec::new();
        for kind in [Kind::Blocking, Kind::Async, Kind::Multi] {
            faces.push((kind, raw(address, kind)?, ours(address, kind)?));
        }
        let peer = if options.no_peers {
            None
        } else {
            Some(Box::new(peer::Tungstenite::connect(address)?) as Boxed)
        };
        Ok(Arena { suffix, queue, keeper, faces, peer })
    }

    fn measure(&mut self, plan: Plan, scenario: &Scenario) -> Result<Row> {
        let Arena { suffix, queue, keeper, faces, peer } = self;
        let body = vec![b'x'; scenario.size];
        let mut running: Vec<&mut Boxed> = Vec::new();
        for (kind, raw, ours) in faces {
            if scenario.faces.iter().any(|(wanted, _)| wanted == kind) {
                running.extend([raw, ours]);
            }
        }
        running.extend(peer);
        let rates = interleave(plan, &mut running, |contender, jobs| {
            let work = Work { task: scenario.task, queue, body: &body, jobs };
            timed(keeper, contender.as_mut(), &work).with_context(|| {
                format!("{} in the scenario {:?}", contender.name(), scenario.name)
            })
        })?;
        Ok(row(format!("{}{suffix}", scenario.name), scenario, rates.into_iter()))
    }
}

fn row(name: String, scenario: &Scenario, mut rates: impl Iterator<Item = Rates>) -> Row {
    let mut faces = Vec::new();
    for (kind, target) in scenario.faces {
        let mut next = || rates.next().unwrap_or_default();
        let (raw, ours) = (next(), next());
        faces.push(Face { name: kind.name(), raw, ours, target: *target });
    }
    let peers = rates.map(|rates| (PEER, rates)).collect();
    let peer_target = scenario.peer_target.map(|times| (PEER, times));
    Row { scenario: name, faces, peers, peer_target }
}

/// Prepares the queue, runs the work, and verifies that it was done by the number of remaining messages.
fn timed(
    keeper: &mut raw::Blocking,
    contender: &mut dyn Contender,
    work: &Work<'_>,
) -> Result<Duration> {
    if work.task.takes() {
        keeper.fill(work.queue, work.body, work.jobs)?;
    }
    let time = contender.run(work)?;
    let expected = if work.task.takes() { 0 } else { work.jobs };
    let left = keeper.clear(work.queue)?;
    ensure!(left == expected, "it left {left} messages, and it should have been {expected}");
    Ok(time)
}
