//! Takes jobs from the heads of their lists: ready ones are reserved in batches, delayed and buried ones are taken one
//! by one.

use std::slice;

use beanstalk_client::protocol::{AnyCommand, Command, Delete, PeekBuried, PeekDelayed, PeekReady};
use beanstalk_client::{Job, JobId, JobState};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;

use super::{Target, Way};
use crate::jobs::taker::{bury_damaged, delete_all, reserve_ready};
use crate::link::Link;
use crate::seen::{Seen, damaged};

/// Takes up to `most` jobs of one target, and deletes them once they have arrived. A job whose body the server lost in
/// a crash cannot be kept: it counts as a failure and stays, buried. If nothing is to be kept, it is deleted like the
/// others.
///
/// Returns a job that stays at the head of its list, and hides the ones behind it.
///
/// # Errors
/// The failure of the connection, or the failure of `way`.
pub fn sweep(
    link: &mut Link,
    target: &Target,
    most: u64,
    window: usize,
    bulk: &mut Bulk,
    way: &mut dyn Way,
) -> Result<Option<JobId>, CliError> {
    let (mut left, gate) = (most, bulk.gate());
    if target.state == JobState::Ready {
        link.watch_only(slice::from_ref(&target.tube))?;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(window).min(window);
            let most = way.window(most);
            if !gate.turn(most) {
                return Ok(None);
            }
            let taken = reserve_ready(link, most, &[])?;
            let count = taken.jobs.len() + taken.damaged.len();
            if count == 0 {
                break;
            }
            if way.needs_bodies() {
                way.take(link, &taken.jobs, bulk)?;
                bury_damaged(link, &taken.damaged, bulk)?;
            } else {
                delete_all(link, taken.damaged, bulk)?;
                way.take(link, &taken.jobs, bulk)?;
            }
            left = left.saturating_sub(count as u64);
        }
    }
    // Jobs of a paused tube cannot be reserved, but the head of its list can be reached.
    link.use_tube(&target.tube)?;
    match target.state {
        JobState::Ready => heads(link, &PeekReady, left, bulk, way),
        JobState::Delayed => heads(link, &PeekDelayed, left, bulk, way),
        _ => heads(link, &PeekBuried, left, bulk, way),
    }
}

/// Deletes from the head of a list; each delete is sent together with the next peek. Returns a job that stays there.
fn heads<P: Command<Reply = Option<Job>>>(
    link: &mut Link,
    peek: &P,
    mut left: u64,
    bulk: &mut Bulk,
    way: &mut dyn Way,
) -> Result<Option<JobId>, CliError> {
    let gate = bulk.gate();
    if left == 0 || !gate.is_open() {
        return Ok(None);
    }
    let mut head = Seen::ask(link, peek)?;
    while let Some(seen) = head {
        if left == 0 || !gate.turn(1) {
            break;
        }
        left -= 1;
        let id = seen.job().id();
        if way.needs_bodies() {
            match &seen {
                Seen::Whole(job) => {
                    let kept = way.keep(link, slice::from_ref(job), bulk)?;
                    if kept != [true] {
                        head = Seen::ask(link, peek)?;
                        if head.as_ref().is_some_and(|next| next.job().id() == id) {
                            return Ok(Some(id));
                        }
                        continue;
                    }
                }
                Seen::Damaged(job, _) => {
                    // A damaged list needs a human.
                    return bulk.failure(format!("job {id}"), damaged(*job)).map(|()| None);
                }
            }
        }
        let (deleted, next) = match link.pair(Delete::new(id), AnyCommand::new(peek)) {
            Ok(replies) => replies,
            // It is unknown whether it was deleted.
            Err(error) => return way.deleted(id, Err(error), bulk).map(|()| None),
        };
        let is_gone = deleted.is_ok();
        let ends = deleted.as_ref().is_err_and(CliError::ends_everything);
        way.deleted(id, deleted, bulk)?;
        if ends {
            return Ok(None);
        }
        head = Seen::of(peek, next?)?;
        let is_stuck = !is_gone && head.as_ref().is_some_and(|next| next.job().id() == id);
        if is_stuck {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
