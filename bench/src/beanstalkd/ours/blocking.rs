//! The blocking face.

use std::time::{Duration, Instant};

use anyhow::Result;
use beanstalk_client::{
    PutOptions, TubeName,
    blocking::{Client, Producer, Worker},
    protocol::{Delete, Put, ReserveWithTimeout},
};

use super::{Drain, check, ready, the_job, worker_options};
use crate::{
    beanstalkd::scenario::{Contender, Task, Work},
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
        let (client, producer) = (Client::connect(address)?, Producer::connect(address)?);
        Ok(Blocking { address: address.to_owned(), client, producer })
    }

    fn put(&mut self, body: &[u8], jobs: u64) -> Result<()> {
        for _ in 0..jobs {
            ready(self.client.put(body, PutOptions::default())?)?;
        }
        Ok(())
    }

    fn put_pipelined(&mut self, body: &[u8], jobs: u64) -> Result<()> {
        let put = Put::new(body, PutOptions::default())?;
        for inserted in self.client.call_many((0..jobs).map(|_| put.clone())) {
            ready(inserted?)?;
        }
        Ok(())
    }

    fn put_callers(&self, callers: usize, body: &[u8], jobs: u64) -> Result<Duration> {
        let tube = TubeName::default();
        let mut callers = vec![self.producer.clone(); callers];
        crowd(&mut callers, jobs, |producer, jobs| {
            for _ in 0..jobs {
                ready(producer.put(&tube, body, PutOptions::default())?)?;
            }
            Ok(())
        })
    }

    fn take(&mut self, jobs: u64) -> Result<()> {
        let client = &mut self.client;
        let next = ReserveWithTimeout::new(Duration::ZERO)?;
        let mut job = the_job(client.reserve_with_timeout(Duration::ZERO)?)?;
        for _ in 1..jobs {
            let (deleted, reserved) = client.call_pair(&Delete::new(&job), &next)?;
            deleted?;
            job = the_job(reserved?)?;
        }
        Ok(client.delete(&job)?)
    }

    fn take_in_two_trips(&mut self, jobs: u64) -> Result<()> {
        for _ in 0..jobs {
            let job = the_job(self.client.reserve_with_timeout(Duration::ZERO)?)?;
            self.client.delete(&job)?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let drain = Drain::new()?;
        for reply in self.client.call_many(drain.commands()) {
            drain.take(reply?)?;
        }
        Ok(())
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "ours blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let Work { task, body, jobs } = *work;
        let start = Instant::now();
        match task {
            Task::Put => self.put(body, jobs)?,
            Task::PutPipelined => self.put_pipelined(body, jobs)?,
            Task::PutCallers(callers) => return self.put_callers(callers, body, jobs),
            Task::Take => self.take(jobs)?,
            Task::TakeInTwoTrips => self.take_in_two_trips(jobs)?,
            Task::Drain => self.drain()?,
            Task::Work(workers) => {
                let mut worker = Worker::new(worker_options(&self.address, workers)?)?;
                worker.register("default", |_job| ())?;
                check(worker.run(), jobs)?;
            }
        }
        Ok(start.elapsed())
    }
}
