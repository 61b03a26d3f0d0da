//! The destination of jobs that leave their tube.

use beanstalk_client::{Job, JobId, JobRef};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::output::Handover;

use crate::jobs::leaving::{hand_over, show};
use crate::jobs::taker::delete_all;
use crate::link::Link;

/// Where jobs that leave their tube go.
pub trait Way {
    /// Number of jobs to take at once, `most` at most.
    fn window(&mut self, most: usize) -> usize {
        most
    }

    /// Whether it needs bodies: if so, a job whose body the server lost in a crash stays.
    fn needs_bodies(&self) -> bool {
        true
    }

    /// Whether ready jobs are reserved while they are dealt with.
    fn reserves(&self) -> bool {
        self.needs_bodies()
    }

    /// Takes jobs that this connection has reserved, deletes those that have arrived, and counts them.
    ///
    /// # Errors
    /// The sweep cannot continue.
    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError>;

    /// Takes unreserved jobs, and returns which of them have arrived, so that they can be deleted; counts the
    /// others.
    ///
    /// # Errors
    /// The sweep cannot continue.
    fn keep(
        &mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
    ) -> Result<Vec<bool>, CliError>;

    /// Counts the server's answer to the deletion of a job that was kept.
    ///
    /// # Errors
    /// The sweep cannot continue.
    fn deleted(
        &mut self,
        id: JobId,
        reply: Result<(), CliError>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        match reply {
            // Another client took it in the meantime.
            Err(error) if error.code == crate::error::NOT_FOUND => {
                bulk.skip();
                Ok(())
            }
            reply => bulk.count(format!("job {id}"), reply.map_err(|error| error.about("ID", id))),
        }
    }
}

/// Jobs are only deleted.
pub struct Nowhere;

impl Way for Nowhere {
    fn needs_bodies(&self) -> bool {
        false
    }

    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        delete_all(link, jobs, bulk)
    }

    fn keep(&mut self, _: &mut Link, jobs: &[Job], _: &mut Bulk) -> Result<Vec<bool>, CliError> {
        Ok(vec![true; jobs.len()])
    }
}

impl Way for Handover<'_, JobRef> {
    fn window(&mut self, most: usize) -> usize {
        Handover::window(self, most)
    }

    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        hand_over(link, self, jobs, false, bulk)
    }

    fn keep(&mut self, link: &mut Link, jobs: &[Job], _: &mut Bulk) -> Result<Vec<bool>, CliError> {
        for job in jobs {
            show(link, self, job)?;
        }
        Ok(vec![true; jobs.len()])
    }
}
