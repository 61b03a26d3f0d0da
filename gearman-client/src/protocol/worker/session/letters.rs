//! Jobs that have failed, kept as jobs of another function.

use std::time::Instant;

use bytes::Bytes;

use super::{
    super::{confirm::Question, work::JobEnd},
    WorkerSession,
};
use crate::{
    Error, FunctionName, JobHandle, UniqueId,
    protocol::{Assignment, PacketType},
};

/// A job that has failed, on its way to the function of dead letters.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) job: JobHandle,
    pub(crate) function: FunctionName,
    /// Why it has failed.
    pub(crate) reason: String,
    /// How often it was run, as far as known.
    pub(crate) attempts: u32,
    /// The end that its submitters get: an exception, or a failure.
    exception: Option<Bytes>,
    /// Why the server has not taken it.
    pub(crate) refusal: Option<Error>,
}

impl WorkerSession {
    /// Keeps jobs that fail as background jobs of this function.
    pub fn set_dead_letter(&mut self, function: FunctionName) {
        self.dead_letter = Some(function);
    }

    /// What is kept of a new job until it ends. A dead letter that fails has nowhere to go.
    pub(super) fn to_keep(&self, job: &Assignment) -> Option<Box<(Assignment, u32)>> {
        let to = self.dead_letter.as_ref()?;
        (*to != job.function).then(|| Box::new((job.clone(), 1)))
    }

    /// Records how often a job was run, including this time.
    pub(crate) fn attempted(&mut self, job: &JobHandle, times: u32) {
        if job.epoch() == Some(self.origin.epoch)
            && let Some(held) = self.running.get_mut(&job.short())
            && let Some(kept) = &mut held.to_keep
        {
            kept.1 = times;
        }
    }

    /// Submits a job that has failed as a dead letter. It ends once the server has confirmed that.
    pub(super) fn becomes_letter(
        &mut self,
        job: &JobHandle,
        end: JobEnd<'_>,
        now: Instant,
    ) -> bool {
        let (reason, exception) = match end {
            JobEnd::Complete(_) | JobEnd::GiveBack => return false,
            JobEnd::Fail => ("the handler gave no reason".to_owned(), None),
            JobEnd::Panic(why) => (format!("the handler panicked: {why}"), None),
            JobEnd::Exception(why) => {
                (String::from_utf8_lossy(why).into_owned(), Some(Bytes::copy_from_slice(why)))
            }
        };
        let Some(to) = self.dead_letter.clone() else { return false };
        let is_here = job.epoch() == Some(self.origin.epoch);
        let held = self.running.get_mut(&job.short()).filter(|_| is_here);
        let Some((held, kept)) = held.and_then(|held| {
            let kept = held.to_keep.take()?;
            Some((held, kept))
        }) else {
            return false;
        };
        // Its handler has ended, and outlives no connection.
        held.has_begun = false;
        let (Assignment { handle: job, function, workload, .. }, attempts) = *kept;
        let unique = UniqueId::random();
        self.put(PacketType::SubmitJobBg, &[to.as_bytes(), unique.as_bytes()], &workload);
        self.confirmations.asked(Question::Letter, self.queued, None, now);
        self.letters.push_back(Letter {
            job,
            function,
            reason,
            attempts,
            exception,
            refusal: None,
        });
        true
    }

    /// The oldest letter is confirmed, so its job ends.
    pub(super) fn letter_is_confirmed(&mut self, now: Instant) {
        let Some(letter) = self.letters.pop_front() else { return };
        let end = letter.exception.as_deref().map_or(JobEnd::Fail, JobEnd::Exception);
        // The server may have given the job to another worker meanwhile.
        if self.finish(&letter.job, end, now).is_ok() {
            self.posted.push(letter);
        }
    }

    /// The oldest letter is refused, so its job goes back.
    pub(super) fn letter_is_refused(&mut self, error: Error, now: Instant) {
        let Some(letter) = self.letters.pop_front() else { return };
        if self.finish(&letter.job, JobEnd::GiveBack, now).is_ok() {
            self.posted.push(Letter { refusal: Some(error), ..letter });
        }
    }

    /// The letters that were confirmed or refused since the last call.
    pub(in crate::protocol::worker) fn posted(&mut self) -> impl Iterator<Item = Letter> {
        self.posted.drain(..)
    }
}
