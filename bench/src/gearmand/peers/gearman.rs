//! The crate `gearman`, async, on either kind of runtime. Its client is shared by callers; its worker has one
//! connection for each processor.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use gearman::{
    client::{Client, ClientBuilder, SubmitOptions},
    worker::WorkerBuilder,
};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::said;
use crate::{
    gearmand::scenario::{BATCH, Contender, Kind, LIMIT, Scenario, Task, Work},
    stopwatch::Stopwatch,
};

pub struct Gearman {
    address: String,
    kind: Kind,
}

impl Gearman {
    pub fn new(address: SocketAddr, kind: Kind) -> Self {
        Gearman { address: address.to_string(), kind }
    }
}

/// The work that its callers share.
#[derive(Clone)]
struct Jobs {
    function: String,
    workload: Bytes,
    count: u64,
    is_foreground: bool,
}

impl Contender for Gearman {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Multi => "gearman multi",
            _ => "gearman",
        }
    }

    fn can(&self, scenario: &Scenario) -> bool {
        if scenario.functions > 1 || scenario.size > 64 {
            return false;
        }
        // Only callers that share a client are measured on both runtimes.
        if self.kind == Kind::Multi && !matches!(scenario.task, Task::SubmitCallers { .. }) {
            return false;
        }
        // A caller for each of 10,000 jobs would measure tokio.
        !matches!(scenario.task, Task::Foreground { in_flight } if in_flight > BATCH)
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let jobs = Jobs {
            function: work.function().to_owned(),
            workload: Bytes::copy_from_slice(work.workload),
            count: work.jobs,
            is_foreground: matches!(work.task, Task::RoundTrip | Task::Foreground { .. }),
        };
        let callers = match work.task {
            Task::Submit | Task::RoundTrip => 1,
            Task::SubmitCallers { callers } => callers as u64,
            Task::SubmitBatch => BATCH as u64,
            Task::Foreground { in_flight } => in_flight as u64,
            Task::Work { .. } => 0,
        };
        let functions = work.functions.to_vec();
        let task = work.task;
        let address = self.address.clone();
        // A runtime for each run, because leftovers of the last one must not request jobs of this one.
        let runtime = self.kind.runtime()?;
        let running = async move {
            let client = ClientBuilder::new().servers([address.clone()]).connect();
            let client = client.await.map_err(said)?;
            match task {
                Task::Work { .. } => serve(&address, &functions, &jobs).await,
                Task::Foreground { .. } => {
                    let (done, worker) = start(&address, &functions, &jobs).await;
                    let start = Stopwatch::start();
                    call(&client, &jobs, callers).await?;
                    let time = start.elapsed();
                    drop(done);
                    worker.shutdown().await;
                    Ok(time)
                }
                _ => {
                    let start = Stopwatch::start();
                    call(&client, &jobs, callers).await?;
                    Ok(start.elapsed())
                }
            }
        };
        runtime.block_on(async { timeout(LIMIT, running).await })?
    }
}

/// Everybody else sends a unique id with each job, which costs the server work; this one has to be given it.
fn unique() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("gearman-{:028}", LAST.fetch_add(1, Ordering::Relaxed))
}

async fn call(client: &Client, jobs: &Jobs, callers: u64) -> Result<()> {
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let (client, jobs) = (client.clone(), jobs.clone());
        running.spawn(async move {
            for _ in 0..(jobs.count + caller) / callers {
                let (unique, workload) = (unique(), jobs.workload.clone());
                let (function, unique) = (&jobs.function, Some(unique.as_str()));
                if jobs.is_foreground {
                    client.submit_fg_unique(function, unique, workload).await?;
                } else {
                    let options = SubmitOptions::background();
                    client.submit(function, unique, workload, options).await?;
                }
            }
            Ok::<_, gearman::GearmanError>(())
        });
    }
    while let Some(caller) = running.join_next().await {
        caller?.map_err(said)?;
    }
    Ok(())
}

/// Starts a worker, which adds a permit for every job that it did.
async fn start(
    address: &str,
    functions: &[String],
    jobs: &Jobs,
) -> (Arc<Semaphore>, gearman::worker::Worker) {
    let done = Arc::new(Semaphore::new(0));
    let mut builder = WorkerBuilder::new().servers([address]);
    for function in functions {
        let (done, result) = (done.clone(), jobs.workload.clone());
        builder = builder.register(function, move |_job| {
            let (done, result) = (done.clone(), result.clone());
            async move {
                done.add_permits(1);
                Ok(result)
            }
        });
    }
    (done, builder.run())
}

/// It connects when it runs, which is negligible with many jobs.
async fn serve(address: &str, functions: &[String], jobs: &Jobs) -> Result<Duration> {
    let begin = Stopwatch::start();
    let (done, worker) = start(address, functions, jobs).await;
    done.acquire_many(jobs.count as u32).await?.forget();
    let time = begin.elapsed();
    // The last results are in flight.
    worker.shutdown().await;
    sleep(Duration::from_millis(1)).await;
    Ok(time)
}
