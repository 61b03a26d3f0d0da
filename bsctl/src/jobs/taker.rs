//! Reserving jobs in short slices: a blocked reserve could only be cancelled by closing the connection, which
//! would drop every other job it holds.

use std::time::{Duration, Instant};

use beanstalk_client::protocol::{
    AnyCommand, Bury, Delete, ReserveWithTimeout, Response, StatsJob, Touch,
};
use beanstalk_client::{Job, JobRef, JobStats, Priority, TubeName};
use ctl_core::bulk::Bulk;
use ctl_core::error::CliError;
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::Wait;
use ctl_core::system::signals::Interrupts;

use crate::error::{NOT_FOUND, cli_error};
use crate::jobs::paused;
use crate::link::{Link, SLICE};
use crate::seen::damaged;

/// Longest pause after a wait that the server has ended early.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes jobs from the watch list of a connection.
pub struct Taker {
    interrupts: Interrupts,
    messages: Messages,
    /// Zero takes only what is ready now.
    wait: Wait,
    /// The tubes that it waits for, if it shows the wait.
    tubes: Vec<TubeName>,
}

impl Taker {
    /// Takes what is ready now, or waits up to `wait`.
    pub fn new(wait: Option<Duration>, interrupts: Interrupts, messages: &Messages) -> Self {
        let wait = Wait::new(messages, "waiting for a job", Some(wait.unwrap_or_default()));
        Self { interrupts, messages: messages.clone(), wait, tubes: Vec::new() }
    }

    /// Shows how long it has waited, and which of these tubes are paused.
    pub fn showing(self, tubes: &[TubeName]) -> Self {
        Self { wait: self.wait.showing(&self.messages), tubes: tubes.to_vec(), ..self }
    }

    /// The next jobs, at most `most`; empty if none arrived in time, or on a signal. `held` jobs are touched so that
    /// their time does not expire. Damaged jobs are buried, with a warning, because the server would hand them out
    /// again forever.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn next(&self, link: &mut Link, most: usize, held: &[Job]) -> Result<Vec<Job>, CliError> {
        let mut taken = reserve_ready(link, most, held)?;
        let mut shown = self.wait.shown();
        loop {
            for &job in &taken.damaged {
                bury_as_it_is(link, job)?;
                let error = damaged(job);
                self.messages.warn(format!("{}: {}; it is buried now", error.code, error.message));
            }
            let rest = self.wait.rest();
            let looks_on = !taken.damaged.is_empty() || !rest.is_zero();
            if !taken.jobs.is_empty() || self.interrupts.requested().is_some() || !looks_on {
                return Ok(taken.jobs);
            }
            if self.wait.is_seen() {
                let seen = paused::told(&paused::among(link, &self.tubes)?);
                shown.see(&seen.unwrap_or_default());
            }
            taken = if taken.damaged.is_empty() {
                let (slice, start) = (rest.min(SLICE), Instant::now());
                let taken = reserve(link, 1, slice, held)?;
                if taken.jobs.is_empty() && taken.damaged.is_empty() {
                    // The next round notices a signal.
                    let _ = self.interrupts.sleep(pause_after(start, slice));
                }
                taken
            } else {
                reserve_ready(link, most, held)?
            };
        }
    }
}

/// The result of reserving.
#[derive(Default)]
pub struct Taken {
    /// Whole jobs.
    pub jobs: Vec<Job>,
    /// Jobs whose body the server lost in a crash.
    pub damaged: Vec<JobRef>,
}

/// Reserves jobs that are ready now, at most `most`, in one pipeline.
///
/// # Errors
/// The failure of the connection.
pub fn reserve_ready(link: &mut Link, most: usize, held: &[Job]) -> Result<Taken, CliError> {
    reserve(link, most, Duration::ZERO, held)
}

/// The pause after a wait of this length that brought nothing: a server that ends waits at once would be asked thousands
/// of times a second.
pub fn pause_after(start: Instant, slice: Duration) -> Duration {
    let rest = slice.saturating_sub(start.elapsed());
    if rest > slice / 2 { rest.min(PAUSE) } else { Duration::ZERO }
}

fn reserve(link: &mut Link, times: usize, wait: Duration, held: &[Job]) -> Result<Taken, CliError> {
    let command = AnyCommand::new(&ReserveWithTimeout::new(wait).map_err(cli_error)?);
    let mut taken = Taken::default();
    let mut deadline_soon = false;
    for reply in link.pipeline(std::iter::repeat_n(command, times))? {
        match reply? {
            Response::Reserved(job) => taken.jobs.push(job),
            Response::BodyDamaged { job, .. } => taken.damaged.push(job),
            Response::DeadlineSoon => deadline_soon = true,
            Response::TimedOut => {}
            refusal => return Err(cli_error(refusal.refuse())),
        }
    }
    if deadline_soon {
        touch_all(link, held)?;
    }
    Ok(taken)
}

/// Restores the full time of held jobs; a job whose time has expired is noticed when it is finished.
///
/// # Errors
/// The failure of the connection.
pub fn touch_all(
    link: &mut Link,
    held: impl IntoIterator<Item = impl Into<JobRef>>,
) -> Result<(), CliError> {
    for reply in link.pipeline(held.into_iter().map(Touch::new))? {
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
pub fn delete_all(
    link: &mut Link,
    jobs: impl IntoIterator<Item = impl Into<JobRef>>,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let jobs: Vec<JobRef> = jobs.into_iter().map(Into::into).collect();
    let replies = link.pipeline(jobs.iter().copied().map(Delete::new))?;
    for (&job, reply) in jobs.iter().zip(replies) {
        count(bulk, job, reply)?;
    }
    Ok(())
}

/// Buries damaged jobs with their own priority and counts each as a failure.
///
/// # Errors
/// The failure of the connection.
pub fn bury_damaged(link: &mut Link, jobs: &[JobRef], bulk: &mut Bulk) -> Result<(), CliError> {
    for &job in jobs {
        bury_as_it_is(link, job)?;
        bulk.failure(format!("job {}", job.id()), damaged(job))?;
    }
    Ok(())
}

fn bury_as_it_is(link: &mut Link, job: JobRef) -> Result<(), CliError> {
    let stats = link.call(StatsJob(job.id()))?;
    link.call(Bury::new(job, own_priority(&stats)))
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
    let commands = jobs.iter().zip(stats).map(|(job, stats)| Bury::new(job, own_priority(stats)));
    for (job, reply) in jobs.iter().zip(link.pipeline(commands)?) {
        count(bulk, job.into(), reply)?;
    }
    Ok(())
}

fn own_priority(stats: &Option<JobStats>) -> Priority {
    stats.as_ref().map(|stats| stats.pri).unwrap_or_default()
}

fn count(bulk: &mut Bulk, job: JobRef, reply: Result<(), CliError>) -> Result<(), CliError> {
    let id = job.id();
    let outcome = reply.map_err(|error| match error.code {
        NOT_FOUND => {
            CliError::not_found(format!("job {id}: its time to run expired before it was finished"))
        }
        _ => error.about("ID", id),
    });
    bulk.count(format!("job {id}"), outcome)
}
