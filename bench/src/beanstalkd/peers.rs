//! Other people's clients. None of them pipelines: a pipelined task is done one command at a time. None can be shared,
//! so many callers are threads with a connection each.
//!
//! The crate `tokio-beanstalkd` is not among them: its 0.4.2 prints every request and reply on stderr, so that is what
//! would be measured.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::scenario::{Contender, Scenario, Work};
use crate::crowd::crowd;

/// Every peer that can be run here; a message on stderr for each one that cannot.
pub fn all(address: SocketAddr) -> Vec<Box<dyn Contender>> {
    let peers = [
        ("beanstalkc", Beanstalkc::connect(address).map(boxed)),
        ("beanstalkd", Beanstalkd::connect(address).map(boxed)),
        ("greenstalk", Greenstalk::connect(address).map(boxed)),
    ];
    let mut running = Vec::new();
    for (name, peer) in peers {
        match peer {
            Ok(peer) => running.push(peer),
            Err(error) => eprintln!("bench: without the peer {name}: {error:#}"),
        }
    }
    running
}

fn boxed<C: Contender + 'static>(contender: C) -> Box<dyn Contender> {
    Box::new(contender)
}

/// The crate `beanstalkc`, blocking.
struct Beanstalkc {
    address: SocketAddr,
    clients: Vec<beanstalkc::Beanstalkc>,
}

impl Beanstalkc {
    fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Beanstalkc { address, clients: vec![Self::client(address)?] })
    }

    fn client(address: SocketAddr) -> Result<beanstalkc::Beanstalkc> {
        let to = beanstalkc::Beanstalkc::new().host(&address.ip().to_string());
        to.port(address.port()).connect().map_err(said)
    }
}

impl Contender for Beanstalkc {
    fn name(&self) -> &'static str {
        "beanstalkc"
    }

    fn can(&self, scenario: &Scenario) -> bool {
        scenario.task.threads() <= MOST_THREADS
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let address = self.address;
        let clients = enough(&mut self.clients, work, || Self::client(address))?;
        crowd(clients, work.jobs, |client, jobs| {
            for _ in 0..jobs {
                if work.task.takes() {
                    let mut job = client.reserve_with_timeout(Duration::ZERO).map_err(said)?;
                    job.delete().map_err(said)?;
                } else {
                    client.put(work.body, 1024, Duration::ZERO, TTR).map_err(said)?;
                }
            }
            Ok(())
        })
    }
}

/// The crate `beanstalkd`, blocking. It does not support reserves with a timeout.
struct Beanstalkd {
    address: SocketAddr,
    clients: Vec<::beanstalkd::Beanstalkd>,
}

impl Beanstalkd {
    fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Beanstalkd { address, clients: vec![Self::client(address)?] })
    }

    fn client(address: SocketAddr) -> Result<::beanstalkd::Beanstalkd> {
        let host = address.ip().to_string();
        ::beanstalkd::Beanstalkd::connect(&host, address.port()).map_err(said)
    }
}

impl Contender for Beanstalkd {
    fn name(&self) -> &'static str {
        "beanstalkd"
    }

    fn can(&self, scenario: &Scenario) -> bool {
        // It reads a body with one `read`, so a large one gets lost on the way.
        scenario.size <= 1024 && scenario.task.threads() <= MOST_THREADS
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let body = str::from_utf8(work.body)?;
        let address = self.address;
        let clients = enough(&mut self.clients, work, || Self::client(address))?;
        crowd(clients, work.jobs, |client, jobs| {
            for _ in 0..jobs {
                if work.task.takes() {
                    let (id, _body) = client.reserve().map_err(said)?;
                    client.delete(id).map_err(said)?;
                } else {
                    client.put(body, 1024, 0, TTR.as_secs() as u32).map_err(said)?;
                }
            }
            Ok(())
        })
    }
}

/// Nobody would use more threads.
const MOST_THREADS: usize = 64;

/// As many clients as the work needs; they are kept for later.
fn enough<'a, C>(
    clients: &'a mut Vec<C>,
    work: &Work<'_>,
    connect: impl Fn() -> Result<C>,
) -> Result<&'a mut [C]> {
    while clients.len() < work.task.threads() {
        clients.push(connect()?);
    }
    clients.get_mut(..work.task.threads()).context("there are this many")
}

/// The Python package `greenstalk`, blocking, in its own process that gets its instructions line by line.
struct Greenstalk {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

const GREENSTALK: &str = include_str!("../../peers/greenstalk_peer.py");

impl Greenstalk {
    fn connect(address: SocketAddr) -> Result<Self> {
        let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        let mut child = Command::new(&python)
            .args(["-c", GREENSTALK, &address.ip().to_string(), &address.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} cannot be started", python.display()))?;
        let to = child.stdin.take().context("no pipe to Python")?;
        let from = BufReader::new(child.stdout.take().context("no pipe from Python")?);
        let mut peer = Greenstalk { child, to, from };
        let greeting = peer.line()?;
        ensure!(
            greeting == "ready",
            "{} has no package greenstalk; `pip install greenstalk`, or set PYTHON to one that has it",
            python.display()
        );
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Contender for Greenstalk {
    fn name(&self) -> &'static str {
        "greenstalk"
    }

    fn can(&self, scenario: &Scenario) -> bool {
        scenario.task.threads() == 1
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let start = Instant::now();
        let verb = if work.task.takes() { "take" } else { "put" };
        writeln!(self.to, "{verb} {} {}", work.jobs, work.body.len())?;
        match self.line()?.as_str() {
            "done" => Ok(start.elapsed()),
            other => bail!("greenstalk said {other:?}"),
        }
    }
}

impl Drop for Greenstalk {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TTR: Duration = Duration::from_secs(60);

/// An error of a peer, which may not be one that the standard library knows.
fn said(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("{error:?}")
}
