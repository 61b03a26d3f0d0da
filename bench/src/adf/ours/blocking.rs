//! The blocking face.

use std::time::{Duration, Instant};

use adf_queue_client::{
    Push,
    blocking::{Client, Producer, Worker},
};
use anyhow::Result;

use super::{Countdown, Typed, worker_options};
use crate::{
    adf::scenario::{Contender, Task, Work},
    crowd::crowd,
};

/// The blocking face.
pub struct Blocking {
    address: String,
    client: Client,
    producer: Producer,
}

impl Blocking {
    pub fn connect(address: &str) -> Result<Self> {
        let (client, producer) = (Client::connect(address)?, Producer::new(address)?);
        Ok(Blocking { address: address.to_owned(), client, producer })
    }

    fn push(&mut self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            self.client.rpush(&work.queue, &work.body)?;
        }
        Ok(())
    }

    fn push_pipelined(&mut self, work: &Typed) -> Result<()> {
        let push = |_| Push::right(work.queue.clone(), &work.body);
        let mut pushed = self.client.push_many((0..work.jobs).map(push));
        pushed.try_for_each(|id| id.map(drop))?;
        Ok(())
    }

    fn push_callers(&self, callers: usize, work: &Typed) -> Result<Duration> {
        let mut callers = vec![&self.producer; callers];
        crowd(&mut callers, work.jobs, |producer, jobs| {
            for _ in 0..jobs {
                producer.rpush(&work.queue, &work.body)?;
            }
            Ok(())
        })
    }

    fn take(&mut self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            let message = self.client.pull(&work.queue)?;
            self.client.delete(&message)?;
        }
        Ok(())
    }

    fn work(&self, prefetch: usize, work: &Typed) -> Result<()> {
        let mut worker = Worker::new(worker_options(&self.address, prefetch)?)?;
        let countdown = Countdown::new(work.jobs, worker.handle());
        worker.register(&work.queue, move |_job| countdown.count())?;
        work.check(worker.run())
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "ours blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let work = Typed::new(work)?;
        let start = Instant::now();
        match work.task {
            Task::Push => self.push(&work)?,
            Task::PushPipelined => self.push_pipelined(&work)?,
            Task::PushCallers(callers) => return self.push_callers(callers, &work),
            Task::Take => self.take(&work)?,
            Task::Work { prefetch } => self.work(prefetch, &work)?,
        }
        Ok(start.elapsed())
    }
}
