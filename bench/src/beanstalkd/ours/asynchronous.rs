//! The async face, on a runtime of either kind.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use beanstalk_client::{
    Client, Producer, PutOptions, TubeName, Worker,
    protocol::{Delete, Put, ReserveWithTimeout},
};
use tokio::{runtime::Runtime, task::JoinSet};

use super::{Drain, check, ready, the_job, worker_options};
use crate::{
    beanstalkd::scenario::{Contender, Kind, Task, Work, Workers},
    crowd::share,
};

/// The async face.
pub struct Async {
    name: &'static str,
    address: String,
    runtime: Runtime,
    client: Client,
    producer: Producer,
}

impl Async {
    pub fn connect(address: &str, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let client = runtime.block_on(Client::connect(address))?;
        let producer = runtime.block_on(Producer::connect(address))?;
        let name = if kind == Kind::Multi { "ours multi" } else { "ours async" };
        Ok(Async { name, address: address.to_owned(), runtime, client, producer })
    }
}

impl Contender for Async {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, body, jobs } = *work;
        let Async { address, runtime, client, producer, .. } = self;
        let start = Instant::now();
        match task {
            Task::Put => runtime.block_on(put(client, body, jobs))?,
            Task::PutPipelined => runtime.block_on(put_pipelined(client, body, jobs))?,
            Task::Take => runtime.block_on(take(client, jobs))?,
            Task::TakeInTwoTrips => runtime.block_on(take_in_two_trips(client, jobs))?,
            Task::Drain => runtime.block_on(drain(client))?,
            // Tasks of the runtime, like everything in a service.
            Task::PutCallers(callers) => {
                let putting = put_callers(producer.clone(), callers, body.into(), jobs);
                runtime.block_on(runtime.spawn(putting))??;
            }
            Task::Work(workers) => {
                runtime.block_on(runtime.spawn(self::work(address.clone(), workers, jobs)))??;
            }
        }
        Ok(start.elapsed())
    }
}

async fn put(client: &mut Client, body: &[u8], jobs: u64) -> Result<()> {
    for _ in 0..jobs {
        ready(client.put(body, PutOptions::default()).await?)?;
    }
    Ok(())
}

async fn put_pipelined(client: &mut Client, body: &[u8], jobs: u64) -> Result<()> {
    let put = Put::new(body, PutOptions::default())?;
    let mut replies = client.call_many((0..jobs).map(|_| put.clone()));
    while let Some(inserted) = replies.next().await {
        ready(inserted?)?;
    }
    Ok(())
}

async fn take(client: &mut Client, jobs: u64) -> Result<()> {
    let next = ReserveWithTimeout::new(Duration::ZERO)?;
    let mut job = the_job(client.reserve_with_timeout(Duration::ZERO).await?)?;
    for _ in 1..jobs {
        let (deleted, reserved) = client.call_pair(&Delete::new(&job), &next).await?;
        deleted?;
        job = the_job(reserved?)?;
    }
    Ok(client.delete(&job).await?)
}

async fn take_in_two_trips(client: &mut Client, jobs: u64) -> Result<()> {
    for _ in 0..jobs {
        let job = the_job(client.reserve_with_timeout(Duration::ZERO).await?)?;
        client.delete(&job).await?;
    }
    Ok(())
}

async fn drain(client: &mut Client) -> Result<()> {
    let drain = Drain::new()?;
    let mut replies = client.call_many(drain.commands());
    while let Some(reply) = replies.next().await {
        drain.take(reply?)?;
    }
    Ok(())
}

async fn put_callers(producer: Producer, callers: usize, body: Arc<[u8]>, jobs: u64) -> Result<()> {
    let tube = TubeName::default();
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let (producer, tube, body) = (producer.clone(), tube.clone(), body.clone());
        running.spawn(async move {
            for _ in 0..share(jobs, callers, caller) {
                ready(producer.put(&tube, &body, PutOptions::default()).await?)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = running.join_next().await {
        caller??;
    }
    Ok(())
}

async fn work(address: String, workers: Workers, jobs: u64) -> Result<()> {
    let mut worker = Worker::new(worker_options(&address, workers)?)?;
    worker.register("default", |_job| async {})?;
    check(worker.run().await, jobs)
}
