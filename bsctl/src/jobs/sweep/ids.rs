//! Takes jobs by id, leaving all others alone.

use beanstalk_client::protocol::{AnyCommand, Command, Delete, Peek, ReserveJob};
use beanstalk_client::{Job, JobId, JobRef, JobState, JobStats};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;

use super::Way;
use crate::jobs::scan::{Wanted, fetch};
use crate::jobs::taker::bury_damaged;
use crate::link::Link;
use crate::seen::{Seen, damaged};

/// Takes those of these jobs that are still wanted, and deletes them once they have arrived. Ready ones whose bodies
/// are needed are reserved first (server 1.12 or later), so that no worker takes them in the meantime.
///
/// # Errors
/// The failure of the connection, or the failure of `way`.
pub(crate) fn sweep_ids(
    link: &mut Link,
    ids: &[JobId],
    wanted: &Wanted,
    window: usize,
    bulk: &mut Bulk,
    way: &mut dyn Way,
) -> Result<(), CliError> {
    let reserves = way.reserves() && link.knows_reserve_job()?;
    let (mut rest, gate) = (ids, bulk.gate());
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(way.window(window).clamp(1, rest.len()));
        if !gate.turn(chunk.len()) {
            break;
        }
        rest = behind;
        let found = fetch(link, chunk, wanted, false)?;
        // Gone, or no longer wanted.
        (found.len()..chunk.len()).for_each(|_| bulk.skip());
        if !way.needs_bodies() {
            let all: Vec<JobId> = found.into_iter().map(|(stats, _)| stats.id).collect();
            delete(link, &all, bulk, way)?;
            continue;
        }
        let (ready, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(stats, _)| reserves && stats.state == JobState::Ready);
        let of = |jobs: Vec<(JobStats, _)>| jobs.into_iter().map(|(stats, _)| stats.id).collect();
        let (ready, others): (Vec<JobId>, Vec<JobId>) = (of(ready), of(others));
        let (jobs, broken) = ask(link, &ready, ReserveJob, bulk)?;
        way.take(link, &jobs, bulk)?;
        bury_damaged(link, &broken, bulk)?;
        let (jobs, broken) = ask(link, &others, Peek, bulk)?;
        for job in broken {
            bulk.failure(format!("job {}", job.id()), damaged(job))?;
        }
        let kept = way.keep(link, &jobs, bulk)?;
        let kept = jobs.iter().zip(kept).filter(|(_, is_kept)| *is_kept);
        let kept: Vec<JobId> = kept.map(|(job, _)| job.id).collect();
        delete(link, &kept, bulk, way)?;
    }
    Ok(())
}

/// The jobs, and those whose body is lost; jobs that another client took first are skipped.
fn ask<C: Command<Reply = Option<Job>>>(
    link: &mut Link,
    ids: &[JobId],
    command: impl Fn(JobId) -> C,
    bulk: &mut Bulk,
) -> Result<(Vec<Job>, Vec<JobRef>), CliError> {
    let (mut jobs, mut broken) = (Vec::new(), Vec::new());
    let commands: Vec<C> = ids.iter().map(|id| command(*id)).collect();
    let replies = link.pipeline(commands.iter().map(AnyCommand::new))?;
    for (command, reply) in commands.iter().zip(replies) {
        match Seen::of(command, reply?)? {
            Some(Seen::Whole(job)) => jobs.push(job),
            Some(Seen::Damaged(job, _)) => broken.push(job),
            None => bulk.skip(),
        }
    }
    Ok((jobs, broken))
}

/// Deletes jobs that are not reserved.
pub(crate) fn delete(
    link: &mut Link,
    ids: &[JobId],
    bulk: &mut Bulk,
    way: &mut dyn Way,
) -> Result<(), CliError> {
    let replies = link.pipeline(ids.iter().map(|id| Delete::new(*id)))?;
    // Every outcome is reported, even if one of them ends everything.
    let mut outcome = Ok(());
    for (id, reply) in ids.iter().zip(replies) {
        outcome = outcome.and(way.deleted(*id, reply, bulk));
    }
    outcome
}
