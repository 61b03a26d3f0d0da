//! Reserving jobs in short slices: a blocked reserve could only be cancelled by closing the connection, which
//! would drop every other job it holds.

use std::time::{Duration, Instant};

use beanstalk_client::protocol::{Bury, Delete, ReserveWithTimeout, StatsJob, Touch};
use beanstalk_client::{Job, JobStats, Reserved};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::signals::Interrupts;

use crate::error::{NOT_FOUND, cli_error};
use crate::link::Link;

/// The longest wait in one command.
const SLICE: Duration = Duration::from_secs(1);

/// Takes jobs from the watch list of a connection.
pub struct Taker {
    interrupts: Interrupts,
    /// How long to wait for jobs; none takes only what is ready now.
    until: Option<Instant>,
}

impl Taker {
    /// Takes what is ready now, or waits up to `wait`.
    #[must_use]
    pub fn new(wait: Option<Duration>, interrupts: Interrupts) -> Self {
        let until = wait.filter(|wait| !wait.is_zero()).map(|wait| Instant::now() + wait);
        Self { interrupts, until }
    }

    /// The next jobs, at most `most`; empty when there are none in time, or a signal came. `held` jobs are kept
    /// from running out of time.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn next(&self, link: &mut Link, most: usize, held: &[Job]) -> Result<Vec<Job>, CliError> {
        loop {
            let jobs = reserve_ready(link, most, held)?;
            if !jobs.is_empty() || self.interrupts.requested().is_some() {
                return Ok(jobs);
            }
            let Some(until) = self.until else { return Ok(jobs) };
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(jobs);
            }
            let slice = ReserveWithTimeout::new(rest.min(SLICE)).map_err(cli_error)?;
            match link.call(slice)? {
                Reserved::Job(job) => return Ok(vec![job]),
                Reserved::DeadlineSoon => touch_all(link, held)?,
                Reserved::TimedOut => {}
            }
        }
    }
}

/// Reserves jobs that are ready now, at most `most`, in one pipeline.
///
/// # Errors
/// The failure of the connection.
pub fn reserve_ready(link: &mut Link, most: usize, held: &[Job]) -> Result<Vec<Job>, CliError> {
    let look = ReserveWithTimeout::new(Duration::ZERO).map_err(cli_error)?;
    let mut jobs = Vec::new();
    let mut deadline_soon = false;
    for reply in link.pipeline(std::iter::repeat_n(look, most))? {
        match reply? {
            Reserved::Job(job) => jobs.push(job),
            Reserved::DeadlineSoon => deadline_soon = true,
            Reserved::TimedOut => {}
        }
    }
    if deadline_soon {
        touch_all(link, held)?;
    }
    Ok(jobs)
}

/// Gives held jobs their full time again; one that ran out meanwhile is noticed when it is finished.
///
/// # Errors
/// The failure of the connection.
pub fn touch_all(link: &mut Link, held: &[Job]) -> Result<(), CliError> {
    for reply in link.pipeline(held.iter().map(Touch::new))? {
        reply.or_else(|error| if error.code == NOT_FOUND { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

/// The statistics of each job; none for one that is gone.
///
/// # Errors
/// The failure of the connection.
pub fn stats_of(link: &mut Link, jobs: &[Job]) -> Result<Vec<Option<JobStats>>, CliError> {
    link.pipeline(jobs.iter().map(|job| StatsJob(job.id)))?.collect()
}

/// Deletes reserved jobs and counts them.
///
/// # Errors
/// The failure of the connection.
pub fn delete_all(link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
    let replies = link.pipeline(jobs.iter().map(Delete::new))?;
    for (job, reply) in jobs.iter().zip(replies) {
        count(bulk, job, reply)?;
    }
    Ok(())
}

/// Buries reserved jobs with their own priority and counts them.
///
/// # Errors
/// The failure of the connection.
pub fn bury_all(
    link: &mut Link,
    jobs: &[Job],
    stats: &[Option<JobStats>],
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let priority = |stats: &Option<JobStats>| stats.as_ref().map(|s| s.pri).unwrap_or_default();
    let commands = jobs.iter().zip(stats).map(|(job, stats)| Bury::new(job, priority(stats)));
    for (job, reply) in jobs.iter().zip(link.pipeline(commands)?) {
        count(bulk, job, reply)?;
    }
    Ok(())
}

fn count(bulk: &mut Bulk, job: &Job, reply: Result<(), CliError>) -> Result<(), CliError> {
    match reply {
        Ok(()) => {
            bulk.success();
            Ok(())
        }
        Err(error) if error.code == NOT_FOUND => bulk.failure(
            format!("job {}", job.id),
            CliError::not_found(format!(
                "job {}: its time to run was over before it was finished",
                job.id
            )),
        ),
        Err(error) => bulk.failure(format!("job {}", job.id), error),
    }
}
