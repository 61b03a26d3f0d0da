//! The async face, on a runtime of either kind.

use std::time::{Duration, Instant};

use adf_queue_client::{Client, Producer, Push, Worker};
use anyhow::Result;
use tokio::{runtime::Runtime, task::JoinSet};

use super::{Countdown, Typed, worker_options};
use crate::{
    adf::scenario::{Contender, Kind, Task, Work},
    crowd::share,
};

/// The async face.
pub struct Async {
    name: &'static str,
    runtime: Runtime,
    user: User,
}

/// What its user has.
#[derive(Clone)]
struct User {
    address: String,
    client: Client,
    producer: Producer,
}

impl Async {
    pub fn connect(address: &str, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let client = runtime.block_on(Client::connect(address))?;
        let user = User { address: address.to_owned(), client, producer: Producer::new(address)? };
        let name = if kind == Kind::Multi { "ours multi" } else { "ours async" };
        Ok(Async { name, runtime, user })
    }
}

impl Contender for Async {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let (user, work) = (self.user.clone(), Typed::new(work)?);
        // A task of the runtime, like everything in a service.
        self.runtime.block_on(self.runtime.spawn(user.run(work)))?
    }
}

impl User {
    async fn run(self, work: Typed) -> Result<Duration> {
        let start = Instant::now();
        match work.task {
            Task::Push => self.push(&work).await?,
            Task::PushPipelined => self.push_pipelined(&work).await?,
            Task::PushCallers(callers) => self.push_callers(callers, &work).await?,
            Task::Take => self.take(&work).await?,
            Task::Work { prefetch } => self.work(prefetch, &work).await?,
        }
        Ok(start.elapsed())
    }

    async fn push(&self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            self.client.rpush(&work.queue, &work.body).await?;
        }
        Ok(())
    }

    async fn push_pipelined(&self, work: &Typed) -> Result<()> {
        let push = |_| Push::right(work.queue.clone(), &work.body);
        let mut pushed = self.client.push_many((0..work.jobs).map(push));
        while pushed.next().await.transpose()?.is_some() {}
        Ok(())
    }

    async fn push_callers(&self, callers: usize, work: &Typed) -> Result<()> {
        let mut running = JoinSet::new();
        for caller in 0..callers {
            let (producer, work) = (self.producer.clone(), work.clone());
            running.spawn(async move {
                for _ in 0..share(work.jobs, callers, caller) {
                    producer.rpush(&work.queue, &work.body).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(caller) = running.join_next().await {
            caller??;
        }
        Ok(())
    }

    async fn take(&self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            let message = self.client.pull(&work.queue).await?;
            self.client.delete(&message).await?;
        }
        Ok(())
    }

    async fn work(&self, prefetch: usize, work: &Typed) -> Result<()> {
        let mut worker = Worker::new(worker_options(&self.address, prefetch)?)?;
        let countdown = Countdown::new(work.jobs, worker.handle());
        worker.register(&work.queue, move |_job| {
            countdown.count();
            async {}
        })?;
        work.check(worker.run().await)
    }
}
