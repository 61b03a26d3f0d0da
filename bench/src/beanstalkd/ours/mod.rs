//! The two faces of `beanstalk-client`, used as documented.

mod asynchronous;
mod blocking;

use std::{cell::RefCell, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use beanstalk_client::{
    Inserted, Inspect, Job, JobRef, Reserved, WorkerOptions, WorkerReport,
    protocol::{AnyCommand, Delete, ReserveWithTimeout, Response},
};

pub use self::{asynchronous::Async, blocking::Blocking};
use super::scenario::Workers;

fn worker_options(address: &str, workers: Workers) -> Result<WorkerOptions> {
    let inspect = if workers.inspects { Inspect::default() } else { Inspect::OnDemand };
    let options = WorkerOptions::new(address)?.slots(workers.slots).prefetch(workers.prefetch);
    Ok(options.inspect(inspect).until_empty())
}

fn check(report: WorkerReport, jobs: u64) -> Result<()> {
    ensure!(report.finished == jobs, "{jobs} jobs were there, and this became of them: {report:?}");
    Ok(())
}

/// Nobody will run a buried job.
pub fn ready(inserted: Inserted) -> Result<()> {
    ensure!(!inserted.is_buried(), "the server is out of memory");
    Ok(())
}

fn the_job(reserved: Reserved) -> Result<Job> {
    reserved.job().context("there should be another job")
}

/// The commands of a drain: deletes for the jobs that have arrived, otherwise another reserve, until one finds nothing.
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
