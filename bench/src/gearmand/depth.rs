//! How fast submissions are when many jobs are queued already, with a unique id for each and without.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context, Result};
use clap::Args;
use fixtures::real::{Gearmand, RealServer};
use gearman_client::{FunctionName, SubmitOptions, blocking::Client, protocol::Submit};
use serde_json::json;

use crate::{
    cores::Cores,
    in_memory::{InMemory, Protocol},
    measure::Rates,
};

/// The depths, and the number of runs.
#[derive(Args, Clone, Debug)]
pub struct DepthOptions {
    /// One JSON object per line instead of text
    #[arg(long)]
    json: bool,
    /// Queued jobs at which to measure, in ascending order; with the default hash table of gearmand, filling a queue of
    /// 1,000,000 jobs takes minutes
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [0, 100_000, 1_000_000])]
    depths: Vec<u64>,
    /// Runs at each depth; an odd number has a real median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..1000))]
    rounds: u16,
    /// The processor cores of the server and the clients
    #[arg(long, value_enum, default_value_t = Cores::One)]
    cores: Cores,
}

/// The jobs of one run. They stay queued, so the depth is that of the runs' beginning within a few percent.
const RUN: u64 = 2_000;

/// A server that is measured; it ends when this is dropped.
enum Server {
    Real(RealServer),
    InMemory(InMemory),
}

type Start = fn() -> Result<Server>;

const SERVERS: [(&str, Start); 3] = [
    ("gearmand", || real(&[])),
    ("gearmand --hashtable-buckets=100003", || real(&["--hashtable-buckets=100003"])),
    ("in-memory", || Ok(Server::InMemory(InMemory::start(Protocol::Gearmand)?))),
];

fn real(arguments: &[&str]) -> Result<Server> {
    let builder = arguments.iter().fold(Gearmand::builder(), |builder, one| builder.arg(*one));
    Ok(Server::Real(builder.start().context("gearmand is not installed")?))
}

impl Server {
    fn address(&self) -> Result<SocketAddr> {
        match self {
            Server::Real(server) => server.socket_addr().context("it does not listen on TCP"),
            Server::InMemory(server) => Ok(server.address),
        }
    }
}

/// Measures each server with and without ids, and prints a line for each depth.
pub fn run_depth(options: &DepthOptions) -> Result<()> {
    for (name, start) in SERVERS {
        for (ids, submit) in [
            ("with ids", SubmitOptions::default()),
            ("without ids", SubmitOptions::default().without_id()),
        ] {
            let server = options.cores.place(start)?;
            measure(options, &format!("{name}, {ids}"), server.address()?, submit)?;
        }
    }
    Ok(())
}

fn measure(
    options: &DepthOptions,
    what: &str,
    address: SocketAddr,
    submit: SubmitOptions,
) -> Result<()> {
    let mut client = Client::connect(address.to_string())?;
    let mut queued = 0;
    let mut first = None;
    for depth in &options.depths {
        fill(&mut client, depth.saturating_sub(queued), submit)?;
        queued = queued.max(*depth);
        let mut rates = Rates::default();
        for _ in 0..options.rounds {
            let start = Instant::now();
            fill(&mut client, RUN, submit)?;
            rates.add(RUN, start.elapsed());
            queued += RUN;
        }
        let rate = rates.median();
        let ratio = rate / *first.get_or_insert(rate);
        if options.json {
            let rate = rate.round();
            println!("{}", json!({"server": what, "depth": depth, "rate": rate, "ratio": ratio}));
        } else {
            println!("{what:50} {depth:>9} queued {rate:>9.0}/s, {ratio:.2} of the first");
        }
    }
    Ok(())
}

/// Submits that many jobs in a batch.
fn fill(client: &mut Client, jobs: u64, options: SubmitOptions) -> Result<()> {
    let function = FunctionName::try_from("depth")?;
    let submits = (0..jobs).map(|_| Submit::background(function.clone(), [b'x'; 64], options));
    let submits: Vec<_> = submits.collect::<Result<_, _>>()?;
    for submitted in client.call_many(submits) {
        submitted?;
    }
    Ok(())
}
