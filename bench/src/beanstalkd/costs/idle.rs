//! How much is sent when there is nothing to do, and when the server says that a job's time is about to expire.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use beanstalk_client::{
    Inspect, Producer, PutOptions, ServerStats, Worker, WorkerHandle, WorkerOptions,
    blocking::{self, Client},
};

use tokio::runtime::Runtime;

use crate::{
    beanstalkd::{ours::ready, scenario::Kind, start},
    figures::Figures,
};

/// A request and its reply are two.
const MOST_PACKETS: f64 = 2.0;

const SLOTS: usize = 4;

/// How long a handler takes: longer than the measurement.
const HANDLING: Duration = Duration::from_secs(60);

pub fn measure(figures: Figures, quick: bool) -> Result<()> {
    let time = Duration::from_secs(if quick { 5 } else { 30 });
    // All at the same time, each with its own server.
    let runs: Vec<_> = [
        ("idle slot", Load::Workers, Kind::Async),
        ("idle slot", Load::Workers, Kind::Blocking),
        ("idle producer", Load::Producer, Kind::Async),
        ("idle producer", Load::Producer, Kind::Blocking),
        ("slot in a DEADLINE_SOON storm", Load::Storm, Kind::Async),
        ("slot in a DEADLINE_SOON storm", Load::Storm, Kind::Blocking),
    ]
    .into_iter()
    .map(|(name, load, kind)| (name, kind, thread::spawn(move || load.run(kind, time))))
    .collect();
    for (name, kind, run) in runs {
        let packets = run.join().map_err(|_| anyhow!("a thread panicked"))??;
        let what = format!("packets of an {name}, {}", kind.name()).replace("an slot", "a slot");
        figures.print(&what, packets, "per second", Some(MOST_PACKETS));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Load {
    /// A worker without a job.
    Workers,
    /// A producer that has put a job.
    Producer,
    /// A worker that holds a job in its last second all the time, and has room for others: the server answers every
    /// reserve at once, and with no job. Those reserves are counted; the touches that keep the job are not.
    Storm,
}

impl Load {
    /// Packets a second of each connection.
    fn run(self, kind: Kind, time: Duration) -> Result<f64> {
        let (server, _) = start()?;
        let (address, runtime) = (server.address(), kind.runtime()?);
        let mut observer = Client::connect(address)?;
        if let Load::Storm = self {
            let short = PutOptions::default().ttr(Duration::from_secs(1));
            ready(observer.put("x", short)?)?;
        }
        let _engaged = match self {
            Load::Producer => produce(kind, address, &runtime)?,
            Load::Workers | Load::Storm => work(kind, self.worker_options(address)?, &runtime)?,
        };
        // The first second belongs to the start.
        pass(&runtime, kind, Duration::from_secs(1));
        let before = self.commands(&observer.stats()?);
        let start = Instant::now();
        pass(&runtime, kind, time);
        let time = start.elapsed();
        // The observer's own requests do not count.
        let own = if let Load::Storm = self { 0 } else { 1 };
        let commands = self.commands(&observer.stats()?).saturating_sub(before + own);
        let connections = if let Load::Workers = self { SLOTS as f64 } else { 1.0 };
        Ok(2.0 * commands as f64 / connections / time.as_secs_f64())
    }

    fn worker_options(self, address: &str) -> Result<WorkerOptions> {
        let options = WorkerOptions::new(address)?.inspect(Inspect::OnDemand);
        Ok(match self {
            Load::Storm => options.prefetch(16),
            Load::Workers | Load::Producer => options.slots(SLOTS),
        })
    }

    fn commands(self, stats: &ServerStats) -> u64 {
        if let Load::Storm = self {
            return stats.cmd_reserve_with_timeout;
        }
        let commands = stats.entries().filter(|(key, _)| key.starts_with("cmd-"));
        commands.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
    }
}

/// Lets time pass while the runtime runs.
fn pass(runtime: &Runtime, kind: Kind, time: Duration) {
    match kind {
        Kind::Blocking => thread::sleep(time),
        Kind::Async | Kind::Multi => runtime.block_on(async { tokio::time::sleep(time).await }),
    }
}

/// A contender that stays connected until this is dropped.
enum Engaged {
    Producer { _blocking: Option<blocking::Producer>, _asynchronous: Option<Producer> },
    Worker(WorkerHandle),
}

impl Drop for Engaged {
    fn drop(&mut self) {
        if let Engaged::Worker(handle) = self {
            handle.stop_now();
        }
    }
}

/// A producer that has put a job.
fn produce(kind: Kind, address: &str, runtime: &Runtime) -> Result<Engaged> {
    let (mut _blocking, mut _asynchronous) = (None, None);
    let put = PutOptions::default();
    if kind == Kind::Blocking {
        let producer = blocking::Producer::connect(address)?;
        ready(producer.put("mail", "hello", put)?)?;
        _blocking = Some(producer);
    } else {
        let producer = runtime.block_on(Producer::connect(address))?;
        ready(runtime.block_on(producer.put("mail", "hello", put))?)?;
        _asynchronous = Some(producer);
    }
    Ok(Engaged::Producer { _blocking, _asynchronous })
}

/// A worker whose handler does not end.
fn work(kind: Kind, options: WorkerOptions, runtime: &Runtime) -> Result<Engaged> {
    Ok(Engaged::Worker(if kind == Kind::Blocking {
        let mut worker = blocking::Worker::new(options)?;
        let handle = worker.handle();
        worker.register("default", |_job| thread::sleep(HANDLING))?;
        thread::spawn(move || worker.run());
        handle
    } else {
        let mut worker = Worker::new(options)?;
        let handle = worker.handle();
        worker.register("default", |_job| tokio::time::sleep(HANDLING))?;
        runtime.spawn(worker.run());
        handle
    }))
}
