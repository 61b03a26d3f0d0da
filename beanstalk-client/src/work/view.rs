//! A handler's view of its reservation.

use std::time::{Duration, Instant};

use crate::{
    Error, ErrorKind, Fate, Job, JobId, JobStats, LostReason, TubeName, protocol::ReservationChange,
};

/// State of a reservation: the slot writes it, the handler reads it.
#[derive(Debug, Default)]
pub(crate) struct ReservationState {
    pub(crate) lost: Option<LostReason>,
    pub(crate) end: Option<Instant>,
    pub(crate) stats: Option<Box<JobStats>>,
    pub(crate) tube: TubeName,
    /// Number of answered touches.
    pub(crate) touches: u64,
    /// Set if the last touch was refused.
    pub(crate) refused: Option<ErrorKind>,
    /// Set when the handler has ended: its requests get no answer any more.
    pub(crate) has_ended: bool,
}

impl ReservationState {
    /// An answer that comes after the end of the handler changes nothing.
    pub(crate) fn apply(&mut self, change: ReservationChange) {
        if self.has_ended {
            return;
        }
        match change {
            ReservationChange::Touched(end) => {
                self.touches += 1;
                self.refused = None;
                self.end = end.or(self.end);
            }
            ReservationChange::TouchRefused(kind) => {
                self.touches += 1;
                self.refused = Some(kind);
            }
            ReservationChange::Known(stats, end) => {
                self.stats = Some(stats);
                self.end = end;
            }
            ReservationChange::Lost(reason) => self.lost = Some(reason),
        }
    }

    /// The worker is gone, and the handler is not.
    pub(crate) fn abandon(&mut self) {
        self.lost.get_or_insert(LostReason::Stopped);
    }

    /// How often the job was reserved, including this time, if known.
    pub(crate) fn attempt(&self) -> Option<i64> {
        self.stats.as_ref().map(|stats| stats.reserves as i64)
    }

    /// The outcome of a touch that was requested after this many answered ones; `None` until it is answered.
    pub(crate) fn touch_after(&self, id: JobId, touches: u64) -> Option<Result<(), Error>> {
        if let Some(reason) = self.lost {
            return Some(Err(lost(id, reason)));
        }
        if self.touches <= touches {
            return self.has_ended.then(|| Err(ended(id)));
        }
        Some(match self.refused {
            Some(kind) => {
                Err(Error::refused(kind, "the server refused to prolong the reservation"))
            }
            None => Ok(()),
        })
    }

    /// The counters, once known.
    pub(crate) fn counters(&self, id: JobId) -> Option<Result<JobStats, Error>> {
        match (&self.stats, self.lost) {
            (Some(stats), _) => Some(Ok(JobStats::clone(stats))),
            (None, Some(reason)) => Some(Err(lost(id, reason))),
            (None, None) => self.has_ended.then(|| Err(ended(id))),
        }
    }

    /// The rest of the reservation.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        match self.lost {
            Some(_) => Some(Duration::ZERO),
            None => self.end.map(|end| end.saturating_duration_since(now)),
        }
    }
}

/// The counters of a job for testing a handler.
pub(crate) fn test_stats(job: &Job) -> Option<JobStats> {
    let text =
        format!("---\nid: {}\ntube: default\nstate: reserved\nttr: 60\nreserves: 1\n", job.id);
    JobStats::parse(text.as_bytes()).ok()
}

fn lost(id: JobId, reason: LostReason) -> Error {
    not_reserved(id, &reason)
}

fn ended(id: JobId) -> Error {
    not_reserved(id, &"its handler has ended")
}

fn not_reserved(id: JobId, why: &dyn std::fmt::Display) -> Error {
    let message = format!("job {id} is not reserved any more: {why}");
    Error::new(ErrorKind::JobLost, Fate::NotSent, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_after_the_end_of_the_handler_is_dropped() {
        let (mut view, id) = (ReservationState::default(), JobId::from(7));
        view.apply(ReservationChange::Touched(None));
        assert!(view.touch_after(id, 0).unwrap().is_ok());
        view.has_ended = true;
        // The answer to a touch whose caller was refused must not pass for the answer to the next one.
        view.apply(ReservationChange::Touched(None));
        assert_eq!(view.touch_after(id, 1).unwrap().unwrap_err().kind(), ErrorKind::JobLost);
    }
}
