//! What becomes of jobs that leave their tube.

use beanstalk_client::{Job, JobId, JobRef};
use ctl_core::commands::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::output::Handover;

use crate::jobs::leaving::{hand_over, show};
use crate::jobs::taker::delete_all;
use crate::link::Link;

/// Where jobs go that leave their tube.
pub trait Way {
    /// How many should be taken at once, `most` at most.
    fn window(&mut self, most: usize) -> usize {
        most
    }

    /// Whether it has a use for bodies: then a job whose body the server lost in a crash stays.
    fn needs_bodies(&self) -> bool {
        true
    }

    /// Takes jobs that this connection has reserved, deletes those that have arrived, and counts them.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError>;

    /// Takes jobs that nobody holds, and gives which of them have arrived, so that they can be deleted; counts the
    /// others.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn keep(
        &mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
    ) -> Result<Vec<bool>, CliError>;

    /// Counts what the server said to the deletion of a job that was kept.
    ///
    /// # Errors
    /// Nothing more can be done.
    fn deleted(
        &mut self,
        id: JobId,
        reply: Result<(), CliError>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        match reply {
            // Somebody else took it in between.
            Err(error) if error.code == crate::error::NOT_FOUND => {
                bulk.skip();
                Ok(())
            }
            reply => bulk.count(format!("job {id}"), reply),
        }
    }
}

/// Jobs are deleted, and that is all.
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
