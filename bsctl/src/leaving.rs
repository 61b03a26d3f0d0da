//! Jobs that leave the queue for the output: written first, and deleted when they have arrived there.

use std::time::{Duration, Instant};

use beanstalk_client::{Job, JobRef, JobStats};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::messages::Messages;
use ctl_core::output::{Handover, List};
use ctl_core::signals::Interrupts;

use crate::jobs;
use crate::link::Link;
use crate::taker::{delete_all, stats_of, touch_all};

/// Writes jobs and deletes those that have arrived. When it fails, the others go back to the queue with the connection.
pub struct Leaving<'a> {
    out: Handover<'a, JobRef>,
}

/// How often jobs are touched while their reader is waited for: often enough for the shortest time to run.
const BETWEEN_TOUCHES: Duration = Duration::from_millis(300);

impl<'a> Leaving<'a> {
    /// Jobs leave by this list.
    ///
    /// # Errors
    /// A list that is sorted: exit 2.
    pub fn new(
        list: List<'a>,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        Ok(Self { out: Handover::new(list, interrupts, messages)? })
    }

    /// How many jobs should be reserved at once, `most` at most.
    pub fn window(&mut self, most: usize) -> usize {
        self.out.window(most)
    }

    /// Hands reserved jobs over and deletes them.
    ///
    /// # Errors
    /// Failures of writing or of the connection; a signal.
    pub fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        self.hand_over(link, jobs, bulk, false)
    }

    /// As [`Leaving::take`] for the last jobs, whose reader may wait for the end of this process, and ends the list.
    ///
    /// # Errors
    /// As [`Leaving::take`].
    pub fn take_last(
        mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        self.hand_over(link, jobs, bulk, true)
    }

    /// Hands over a job that nobody holds, so that it may be deleted.
    ///
    /// # Errors
    /// As [`Leaving::take`].
    pub fn show(&mut self, link: &mut Link, job: &Job) -> Result<(), CliError> {
        let stats = stats_of(link, std::slice::from_ref(job))?;
        let mut leave = |_| Ok(());
        for stats in &stats {
            self.push(job, stats.as_ref(), &mut leave)?;
        }
        self.out.settle(&mut leave)
    }

    /// Ends the list.
    ///
    /// # Errors
    /// Failures of writing.
    pub fn finish(mut self) -> Result<(), CliError> {
        self.out.finish(&mut |_| Ok(()))
    }

    fn hand_over(
        &mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
        are_last: bool,
    ) -> Result<(), CliError> {
        let stats = stats_of(link, jobs)?;
        let mut leave = leave(link, jobs, bulk);
        for (job, stats) in jobs.iter().zip(&stats) {
            self.push(job, stats.as_ref(), &mut leave)?;
        }
        if are_last { self.out.finish(&mut leave) } else { self.out.settle(&mut leave) }
    }

    fn push(
        &mut self,
        job: &Job,
        stats: Option<&JobStats>,
        leave: &mut dyn FnMut(Vec<JobRef>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let record = jobs::record_with_body(job.id, stats, &job.body);
        self.out.push(record, format!("job {}", job.id), job.into(), leave)
    }
}

/// Deletes jobs that have arrived, and keeps those that have not from running out of time.
fn leave<'a>(
    link: &'a mut Link,
    jobs: &'a [Job],
    bulk: &'a mut Bulk,
) -> impl FnMut(Vec<JobRef>) -> Result<(), CliError> + use<'a> {
    let mut touched = Instant::now();
    move |arrived| {
        if !arrived.is_empty() {
            delete_all(link, arrived, bulk)?;
        }
        if touched.elapsed() >= BETWEEN_TOUCHES {
            touch_all(link, jobs)?;
            touched = Instant::now();
        }
        Ok(())
    }
}
