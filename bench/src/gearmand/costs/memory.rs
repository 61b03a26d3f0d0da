//! Memory of idle connections, and of jobs that wait for their workers.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use gearman_client::{
    Client, FunctionName, JobEvent, SubmitOptions, Worker, WorkerOptions, blocking,
    protocol::Submit,
};

use crate::{
    figures::Figures,
    gearmand::{scenario::Kind, start},
    memory::{per_thing, resident},
};

/// One run, in its own process.
#[derive(Args, Clone, Debug)]
pub struct MemoryProbeOptions {
    #[arg(long)]
    address: SocketAddr,
    #[arg(long, value_enum)]
    what: What,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    count: usize,
}

/// What is counted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Connected clients.
    Clients,
    /// Connections of a worker, asleep.
    Workers,
    /// Foreground jobs of one client, in flight.
    Jobs,
}

pub fn measure(figures: Figures) -> Result<()> {
    let (_server, address) = start()?;
    let address = address.to_string();
    for (what, name) in [("clients", "client"), ("workers", "worker")] {
        for kind in [Kind::Async, Kind::Blocking] {
            let each = per_thing(&probe(&address, what, kind), [50, 350])?;
            let of = format!("memory of an idle {name}, {}", kind.name());
            figures.print(&of, each / 1024.0, "KiB", None);
        }
    }
    for kind in [Kind::Async, Kind::Blocking] {
        let each = per_thing(&probe(&address, "jobs", kind), [10_000, 60_000])?;
        let of = format!("memory of 10,000 jobs of 64 B in flight, {}", kind.name());
        figures.print(&of, each * 10_000.0 / 1024.0 / 1024.0, "MiB", None);
    }
    Ok(())
}

fn probe<'a>(address: &'a str, what: &'a str, kind: Kind) -> [&'a str; 7] {
    let kind = kind.name();
    ["gearmand-memory-probe", "--address", address, "--what", what, "--kind", kind]
}

/// Makes this number of something, and prints the memory in bytes.
pub fn run_memory_probe(options: &MemoryProbeOptions) -> Result<()> {
    let bytes = match options.kind {
        Kind::Blocking => blocking(options)?,
        kind => kind.runtime()?.block_on(asynchronous(options))?,
    };
    println!("{bytes}");
    Ok(())
}

/// Interval between two checks of connections that are being made.
const GLANCE: Duration = Duration::from_millis(5);

const WORKLOAD: [u8; 64] = [b'x'; 64];

/// The connections of one worker that has a function without jobs.
fn lanes(options: &MemoryProbeOptions) -> Result<WorkerOptions> {
    let worker: WorkerOptions = options.address.to_string().parse()?;
    Ok(worker.connections(options.count))
}

fn blocking(options: &MemoryProbeOptions) -> Result<u64> {
    use blocking::{Client, Worker};

    let address = options.address.to_string();
    match options.what {
        What::Clients => {
            let connect = |_| {
                let mut client = Client::connect(&address)?;
                client.echo("ready")?;
                anyhow::Ok(client)
            };
            let _clients: Vec<_> = (0..options.count).map(connect).collect::<Result<_>>()?;
            resident()
        }
        What::Workers => {
            let mut worker = Worker::connect(lanes(options)?)?;
            worker.can_do("nothing", None)?;
            worker.echo_barrier()?;
            resident()
        }
        What::Jobs => {
            let mut client = Client::connect(&address)?;
            let function = FunctionName::try_from("waiting")?;
            let jobs = (0..options.count).map_while(|_| {
                Submit::foreground(function.clone(), WORKLOAD, SubmitOptions::default()).ok()
            });
            let mut events = client.submit_many(jobs).window(options.count);
            for _ in 0..options.count {
                let (_, event) = events.next().context("too few events")?;
                anyhow::ensure!(matches!(event?, JobEvent::Created(_)), "a job was done");
            }
            resident()
        }
    }
}

async fn asynchronous(options: &MemoryProbeOptions) -> Result<u64> {
    let address = options.address.to_string();
    match options.what {
        What::Clients => {
            let mut clients = Vec::new();
            for _ in 0..options.count {
                let client = Client::connect(&address).await?;
                client.echo("ready").await?;
                clients.push(client);
            }
            resident()
        }
        What::Workers => {
            let mut worker = Worker::connect(lanes(options)?).await?;
            worker.can_do("nothing", None)?;
            while worker.connected() < options.count {
                tokio::time::sleep(GLANCE).await;
            }
            worker.echo_barrier().await?;
            resident()
        }
        What::Jobs => {
            let client = Client::connect(&address).await?;
            let function = FunctionName::try_from("waiting")?;
            let mut jobs = Vec::new();
            for _ in 0..options.count {
                jobs.push(client.submit(&function, WORKLOAD, SubmitOptions::default()).await?);
            }
            resident()
        }
    }
}
