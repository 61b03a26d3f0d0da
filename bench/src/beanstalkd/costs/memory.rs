//! Memory of idle connections, and of puts that wait for a server.

use std::{
    net::TcpListener,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use beanstalk_client::{
    Client, Producer, ProducerOptions, PutOptions, SlotState, TubeName, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use clap::{Args, ValueEnum};
use tokio::runtime::Runtime;

use crate::{
    beanstalkd::{scenario::Kind, start},
    figures::Figures,
    memory::{per_thing, resident},
};

/// One run, in its own process.
#[derive(Args, Clone, Debug)]
pub struct MemoryProbeOptions {
    #[arg(long)]
    address: String,
    #[arg(long, value_enum)]
    what: What,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    count: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Connected clients.
    Clients,
    /// Connected producers.
    Producers,
    /// Slots of a worker, each with its connection.
    Slots,
    /// Puts of one producer whose server cannot be reached, with their receipts.
    Puts,
}

pub fn measure(figures: Figures) -> Result<()> {
    let (server, _) = start()?;
    // Nobody listens there once it is dropped.
    let nowhere = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.to_string();
    for (what, name) in
        [(What::Clients, "client"), (What::Producers, "producer"), (What::Slots, "slot")]
    {
        for kind in [Kind::Async, Kind::Blocking] {
            let each = probe(what, kind, server.address(), [50, 350])?;
            let of = format!("memory of an idle {name}, {}", kind.name());
            figures.print(&of, each / 1024.0, "KiB", None);
        }
    }
    for kind in [Kind::Async, Kind::Blocking] {
        let each = probe(What::Puts, kind, &nowhere, [10_000, 110_000])?;
        let of = format!("memory of 10,000 puts of 64 B in the queue, {}", kind.name());
        figures.print(&of, each * 10_000.0 / 1024.0 / 1024.0, "MiB", None);
    }
    Ok(())
}

fn probe(what: What, kind: Kind, address: &str, counts: [u64; 2]) -> Result<f64> {
    let what = match what {
        What::Clients => "clients",
        What::Producers => "producers",
        What::Slots => "slots",
        What::Puts => "puts",
    };
    let arguments = ["beanstalkd-memory-probe", "--address", address, "--what", what];
    per_thing(&[&arguments[..], &["--kind", kind.name()]].concat(), counts)
}

/// Makes this number of something, and prints the memory in bytes.
pub fn run_memory_probe(options: &MemoryProbeOptions) -> Result<()> {
    let runtime = options.kind.runtime()?;
    let bytes = match options.kind {
        Kind::Blocking => blocking(options)?,
        Kind::Async | Kind::Multi => asynchronous(options, &runtime)?,
    };
    println!("{bytes}");
    Ok(())
}

fn blocking(options: &MemoryProbeOptions) -> Result<u64> {
    use blocking::{Client, Producer, Worker};

    let address = options.address.as_str();
    let numbers = 0..options.count;
    match options.what {
        What::Clients => {
            let connect = |_| {
                let mut client = Client::connect(address)?;
                client.watch("mail")?;
                anyhow::Ok(client)
            };
            let _clients: Vec<_> = numbers.map(connect).collect::<Result<_>>()?;
            resident()
        }
        What::Producers => {
            let connect = |_| Ok(Producer::connect(address)?);
            let _producers: Vec<_> = numbers.map(connect).collect::<Result<_>>()?;
            resident()
        }
        What::Slots => {
            let mut worker = Worker::new(slots(options)?)?;
            let handle = worker.handle();
            worker.register("default", |_job| ())?;
            let running = thread::spawn(move || worker.run());
            wait_for_slots(&handle, || thread::sleep(GLANCE))?;
            let bytes = resident()?;
            handle.stop();
            ensure!(running.join().is_ok(), "the worker panicked");
            Ok(bytes)
        }
        What::Puts => {
            let producer = Producer::new(patient(address)?)?;
            let (tube, body) = (TubeName::default(), [b'x'; 64]);
            let put = |_| Ok(producer.enqueue(&tube, body, PutOptions::default())?);
            let receipts: Vec<_> = numbers.map(put).collect::<Result<_>>()?;
            let bytes = resident();
            // Nobody waits for puts that cannot be sent.
            std::mem::forget((producer.clone(), receipts));
            bytes
        }
    }
}

fn asynchronous(options: &MemoryProbeOptions, runtime: &Runtime) -> Result<u64> {
    let address = options.address.clone();
    let options = options.clone();
    runtime.block_on(async move {
        match options.what {
            What::Clients => {
                let mut clients = Vec::new();
                for _ in 0..options.count {
                    let mut client = Client::connect(address.as_str()).await?;
                    client.watch("mail").await?;
                    clients.push(client);
                }
                resident()
            }
            What::Producers => {
                let mut producers = Vec::new();
                for _ in 0..options.count {
                    producers.push(Producer::connect(address.as_str()).await?);
                }
                resident()
            }
            What::Slots => {
                let mut worker = Worker::new(slots(&options)?)?;
                let handle = worker.handle();
                worker.register("default", |_job| async {})?;
                let running = tokio::spawn(worker.run());
                while !all_wait(&handle) {
                    ensure!(!running.is_finished(), "the worker has ended");
                    tokio::time::sleep(GLANCE).await;
                }
                resident()
            }
            What::Puts => {
                let producer = Arc::new(Producer::new(patient(&address)?)?);
                let (tube, body) = (TubeName::default(), [b'x'; 64]);
                let mut receipts = Vec::new();
                for _ in 0..options.count {
                    receipts.push(producer.enqueue(&tube, body, PutOptions::default()).await?);
                }
                resident()
            }
        }
    })
}

const GLANCE: Duration = Duration::from_millis(10);

fn slots(options: &MemoryProbeOptions) -> Result<WorkerOptions> {
    let slots = usize::try_from(options.count)?;
    Ok(WorkerOptions::new(options.address.as_str())?.slots(slots))
}

/// A producer that keeps what it cannot put.
fn patient(address: &str) -> Result<ProducerOptions> {
    let options = ProducerOptions::try_from(address)?;
    Ok(options.max_jobs(1_000_000).max_bytes(1 << 30).timeout(Duration::from_secs(3600)))
}

fn all_wait(handle: &WorkerHandle) -> bool {
    handle.slots().iter().all(|slot| slot.state == SlotState::Waiting)
}

fn wait_for_slots(handle: &WorkerHandle, pause: impl Fn()) -> Result<()> {
    let start = Instant::now();
    while !all_wait(handle) {
        ensure!(start.elapsed() < Duration::from_secs(60), "the slots do not get connected");
        pause();
    }
    Ok(())
}
