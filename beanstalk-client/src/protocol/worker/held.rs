//! A job that the connection holds.

use std::time::{Duration, Instant};

use super::{JobKey, Settings, lease::Lease};
use crate::{Heartbeat, Job, JobFate, JobRef, JobStats, Outcome, ReleaseOptions};

#[derive(Debug)]
pub(super) struct Held {
    pub(super) key: JobKey,
    pub(super) job: JobRef,
    /// Until it is given to the handler.
    pub(super) body: Option<Job>,
    pub(super) phase: Phase,
    pub(super) lease: Lease,
    pub(super) stats: Option<Box<JobStats>>,
    /// A `stats-job` is under way.
    pub(super) is_looking: bool,
    pub(super) started: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Not yet given to the handler: its reservation or its counters are being looked at.
    Checking,
    /// With the handler.
    Running,
    /// The handler has ended, and what is to be done needs the job's counters.
    Deciding(Verdict),
    /// The last command is on its way.
    Finishing,
    /// The handler does not know yet, or has not ended.
    Lost,
}

/// What is to become of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Outcome(Outcome),
    /// Back to the server as if it had not been taken.
    GiveBack,
}

impl Phase {
    /// Whether the server has the job down as ours.
    pub(super) fn is_active(self) -> bool {
        matches!(self, Phase::Checking | Phase::Running | Phase::Deciding(_))
    }
}

impl Settings {
    /// Whether a job that was given to the handler then is still kept alive.
    pub(super) fn beats(&self, started: Option<Instant>, now: Instant) -> bool {
        match (self.heartbeat, started) {
            (Heartbeat::Never, Some(_)) => false,
            (Heartbeat::AtMost(most), Some(started)) => {
                now.saturating_duration_since(started) < most
            }
            // One that waits for its turn is kept alive in any case.
            _ => true,
        }
    }
}

/// The last command for a job.
pub(super) enum Last {
    Delete,
    Release(ReleaseOptions, JobFate),
    Bury(crate::Priority),
}

impl Held {
    /// The command for a verdict; `None` while the job's counters are needed for it.
    pub(super) fn command(&self, verdict: Verdict, retries: &crate::Retries) -> Option<Last> {
        let known = self.stats.as_ref().map(|stats| stats.pri);
        let release =
            |priority, delay, fate| Last::Release(ReleaseOptions::new(priority).delay(delay), fate);
        Some(match verdict {
            Verdict::GiveBack => release(known?, Duration::ZERO, JobFate::Abandoned),
            Verdict::Outcome(Outcome::Delete) => Last::Delete,
            Verdict::Outcome(Outcome::Release { delay, priority }) => {
                release(priority.or(known)?, delay, JobFate::Released(delay))
            }
            Verdict::Outcome(Outcome::Bury { priority }) => Last::Bury(priority.or(known)?),
            Verdict::Outcome(Outcome::Retry) => {
                let stats = self.stats.as_ref()?;
                return self.command(Verdict::Outcome(retries.failed(stats)), retries);
            }
        })
    }
}
