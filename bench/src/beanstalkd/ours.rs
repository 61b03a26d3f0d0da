//! The two faces of `beanstalk-client`, used the way its documentation tells.

use std::{cell::RefCell, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use beanstalk_client::{
    Client, Inserted, Job, JobRef, PutOptions, Reserved, blocking,
    protocol::{AnyCommand, Delete, Put, ReserveWithTimeout, Response},
};
use tokio::runtime::Runtime;

use super::scenario::{Contender, Task, Work};

/// The blocking face.
pub struct Blocking(blocking::Client);

impl Blocking {
    pub fn connect(address: &str) -> Result<Self> {
        Ok(Blocking(blocking::Client::connect(address)?))
    }

    fn take(&mut self, jobs: u64) -> Result<()> {
        let client = &mut self.0;
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
            let job = the_job(self.0.reserve_with_timeout(Duration::ZERO)?)?;
            self.0.delete(&job)?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let drain = Drain::new()?;
        for reply in self.0.call_many(drain.commands()) {
            drain.take(reply?)?;
        }
        Ok(())
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "ours blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<()> {
        let Work { task, body, jobs } = *work;
        match task {
            Task::Put => {
                for _ in 0..jobs {
                    ready(self.0.put(body, PutOptions::default())?)?;
                }
                Ok(())
            }
            Task::PutPipelined => {
                let put = Put::new(body, PutOptions::default())?;
                for inserted in self.0.call_many((0..jobs).map(|_| put.clone())) {
                    ready(inserted?)?;
                }
                Ok(())
            }
            Task::Take => self.take(jobs),
            Task::TakeInTwoTrips => self.take_in_two_trips(jobs),
            Task::Drain => self.drain(),
        }
    }
}

/// The async face, on a current-thread runtime.
pub struct Async {
    runtime: Runtime,
    client: Client,
}

impl Async {
    pub fn connect(address: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(Client::connect(address))?;
        Ok(Async { runtime, client })
    }
}

impl Contender for Async {
    fn name(&self) -> &'static str {
        "ours async"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<()> {
        let Work { task, body, jobs } = *work;
        let Async { runtime, client } = self;
        match task {
            Task::Put => runtime.block_on(put(client, body, jobs)),
            Task::PutPipelined => runtime.block_on(put_pipelined(client, body, jobs)),
            Task::Take => runtime.block_on(take(client, jobs)),
            Task::TakeInTwoTrips => runtime.block_on(take_in_two_trips(client, jobs)),
            Task::Drain => runtime.block_on(drain(client)),
        }
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

fn ready(inserted: Inserted) -> Result<()> {
    ensure!(!inserted.is_buried(), "the server is out of memory");
    Ok(())
}

fn the_job(reserved: Reserved) -> Result<Job> {
    reserved.job().context("there should be another job")
}

/// The commands of a drain: deletes for the jobs that have come, otherwise another reserve, until one finds nothing.
struct Drain {
    reserve: AnyCommand,
    state: RefCell<DrainState>,
}

#[derive(Default)]
struct DrainState {
    to_delete: Vec<JobRef>,
    empty: bool,
}

impl Drain {
    fn new() -> Result<Self> {
        let reserve = AnyCommand::new(&ReserveWithTimeout::new(Duration::ZERO)?);
        Ok(Drain { reserve, state: RefCell::default() })
    }

    fn commands(&self) -> impl Iterator<Item = AnyCommand> {
        std::iter::from_fn(|| {
            let mut state = self.state.borrow_mut();
            match state.to_delete.pop() {
                Some(job) => Some(AnyCommand::new(&Delete::new(job))),
                None => (!state.empty).then(|| self.reserve.clone()),
            }
        })
    }

    fn take(&self, reply: Response) -> Result<()> {
        let mut state = self.state.borrow_mut();
        match reply {
            Response::Reserved(job) => state.to_delete.push((&job).into()),
            Response::TimedOut => state.empty = true,
            Response::Deleted => {}
            other => bail!("a reserve or delete was answered with {}", other.word()),
        }
        Ok(())
    }
}
