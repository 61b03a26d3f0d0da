//! Jobs that leave the queue for the output: written first, and deleted once they have arrived there.

use std::slice;
use std::time::{Duration, Instant};

use beanstalk_client::{Job, JobRef, JobStats};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::output::{Handover, Record};

use crate::jobs;
use crate::jobs::taker::{delete_all, stats_of, touch_all};
use crate::link::Link;

/// How often jobs are touched while they are kept: often enough for the shortest time to run.
pub(super) const BETWEEN_TOUCHES: Duration = Duration::from_millis(300);

/// Hands over reserved jobs and deletes them; after the last ones, ends the list. Jobs that have not arrived yet are
/// touched so that their time does not expire; on failure, closing the connection returns them to the queue.
///
/// # Errors
/// Write and connection failures; a signal.
pub fn hand_over(
    link: &mut Link,
    out: &mut Handover<'_, JobRef>,
    jobs: impl AsRef<[Job]>,
    are_last: bool,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let jobs = jobs.as_ref();
    let stats = stats_of(link, jobs)?;
    let mut touched = Instant::now();
    let mut leave = |arrived: Vec<JobRef>| {
        if !arrived.is_empty() {
            delete_all(link, arrived, bulk)?;
        }
        if touched.elapsed() >= BETWEEN_TOUCHES {
            touch_all(link, jobs)?;
            touched = Instant::now();
        }
        Ok(())
    };
    let records = jobs.iter().zip(&stats).map(|(job, stats)| record(job, stats.as_ref()));
    out.take(records, are_last, &mut leave)
}

/// Hands over a job that is not reserved, so that it may be deleted.
///
/// # Errors
/// As [`hand_over`].
pub fn show(link: &mut Link, out: &mut Handover<'_, JobRef>, job: &Job) -> Result<(), CliError> {
    let stats = stats_of(link, slice::from_ref(job))?;
    out.take(stats.iter().map(|stats| record(job, stats.as_ref())), false, &mut |_| Ok(()))
}

fn record(job: &Job, stats: Option<&JobStats>) -> (Record, String, JobRef) {
    let record = jobs::record_with_body(job.id, stats, &job.body);
    (record, format!("job {}", job.id), job.into())
}
