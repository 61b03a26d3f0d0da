//! The jobs that a session holds: what is known about each beyond the reservation, and which was the last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use beanstalk_client::{JobId, Priority};

use crate::tool::{Held, Session};

/// With less time left than this, a person is warned.
pub(super) const WARN_BELOW: Duration = Duration::from_secs(10);

/// What a session knows about its jobs besides their reservations.
#[derive(Default)]
pub(super) struct Notebook {
    notes: BTreeMap<JobId, Note>,
    /// Whether to touch every job before its time expires.
    pub(super) autotouch: bool,
}

/// What is known about one job.
pub(super) struct Note {
    /// Its body.
    pub(super) body: bytes::Bytes,
    /// Its priority when it was reserved.
    pub(super) pri: Priority,
    /// Whether it is touched automatically.
    pub(super) hold: bool,
    /// The latest moment at which its time can have been restarted.
    pub(super) touched: Instant,
    /// Its position in the order of reserving.
    order: u64,
    warned: bool,
}

/// What has become due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Touch this job.
    Touch(JobId),
    /// Warn a person that this job has this much time left.
    Warn(JobId, Duration),
    /// The job's time is over.
    Over(JobId),
}

impl Notebook {
    /// A job was reserved.
    pub(super) fn add(&mut self, id: JobId, body: bytes::Bytes, pri: Priority, touched: Instant) {
        let order = self.notes.values().map(|note| note.order + 1).max().unwrap_or(0);
        let note = Note { body, pri, hold: false, touched, order, warned: false };
        self.notes.insert(id, note);
    }

    /// Forgets the jobs that the session no longer holds.
    pub(super) fn keep_only(&mut self, session: &Session) {
        self.notes.retain(|id, _| session.held.contains_key(id));
    }

    /// What is known about a job.
    pub(super) fn get(&self, id: JobId) -> Option<&Note> {
        self.notes.get(&id)
    }

    /// Like [`Notebook::get`], to change it.
    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Note> {
        self.notes.get_mut(&id)
    }

    /// The most recently reserved job that is still held.
    pub(super) fn last(&self) -> Option<JobId> {
        self.notes.iter().max_by_key(|(_, note)| note.order).map(|(id, _)| *id)
    }

    /// A job's time has started again.
    pub(super) fn touched(&mut self, id: JobId, at: Instant) {
        if let Some(note) = self.notes.get_mut(&id) {
            note.touched = at;
            note.warned = false;
        }
    }

    /// Whether the job is touched automatically.
    pub(super) fn is_kept(&self, id: JobId) -> bool {
        self.autotouch || self.notes.get(&id).is_some_and(|note| note.hold)
    }

    /// What is due at `now`. A job gets one warning each time its time restarts.
    pub(super) fn due(&mut self, session: &Session, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        for (id, held) in &session.held {
            let kept = self.is_kept(*id);
            let Some(note) = self.notes.get_mut(id) else { continue };
            let left = held.deadline.saturating_duration_since(now);
            if left.is_zero() {
                due.push(Due::Over(*id));
            } else if kept && now.saturating_duration_since(note.touched) >= held.ttr / 3 {
                due.push(Due::Touch(*id));
            } else if !kept && left < WARN_BELOW && !note.warned {
                note.warned = true;
                due.push(Due::Warn(*id, left));
            }
        }
        due
    }
}

/// The jobs' ids for people: `7, 9`.
pub(super) fn list<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> String {
    ids.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The shortest time left of any job.
pub(super) fn shortest(session: &Session, now: Instant) -> Option<Duration> {
    session.held.values().map(|held: &Held| held.deadline.saturating_duration_since(now)).min()
}

#[cfg(test)]
mod tests {
    use beanstalk_client::JobRef;

    use super::*;

    const TTR: Duration = Duration::from_secs(60);

    fn holding(ids: &[u64]) -> (Notebook, Session, Instant) {
        let start = Instant::now();
        let (mut notebook, mut session) = (Notebook::default(), Session::default());
        for id in ids {
            let id = JobId::from(*id);
            let held = Held {
                job: JobRef::from(id),
                tube: None,
                size: 1,
                ttr: TTR,
                deadline: start + TTR,
            };
            session.held.insert(id, held);
            notebook.add(id, bytes::Bytes::from_static(b"x"), Priority::default(), start);
        }
        (notebook, session, start)
    }

    #[test]
    fn a_warning_comes_once_below_ten_seconds() {
        let (mut notebook, session, start) = holding(&[7]);
        assert_eq!(notebook.due(&session, start + Duration::from_secs(50)), []);
        let late = start + Duration::from_secs(51);
        let nine = Duration::from_secs(9);
        assert_eq!(notebook.due(&session, late), [Due::Warn(7.into(), nine)]);
        assert_eq!(notebook.due(&session, late), []);
        notebook.touched(7.into(), start);
        assert_eq!(notebook.due(&session, late), [Due::Warn(7.into(), nine)]);
    }

    #[test]
    fn touches_kept_jobs_each_third_without_a_warning() {
        let (mut notebook, session, start) = holding(&[7, 8]);
        notebook.get_mut(7.into()).unwrap().hold = true;
        assert_eq!(notebook.due(&session, start + Duration::from_secs(19)), []);
        let third = start + Duration::from_secs(20);
        assert_eq!(notebook.due(&session, third), [Due::Touch(7.into())]);
        notebook.autotouch = true;
        assert_eq!(notebook.due(&session, third), [Due::Touch(7.into()), Due::Touch(8.into())]);
        notebook.touched(7.into(), third);
        assert_eq!(notebook.due(&session, third), [Due::Touch(8.into())]);
    }

    #[test]
    fn reports_expired_reservations() {
        let (mut notebook, session, start) = holding(&[7]);
        assert_eq!(notebook.due(&session, start + TTR), [Due::Over(7.into())]);
        assert_eq!(shortest(&session, start), Some(TTR));
    }

    #[test]
    fn the_last_job_is_the_newest_still_held() {
        let (mut notebook, mut session, _) = holding(&[9, 7, 8]);
        assert_eq!(notebook.last(), Some(8.into()));
        session.held.remove(&8.into());
        notebook.keep_only(&session);
        assert_eq!(notebook.last(), Some(7.into()));
        assert_eq!(list(session.held.keys()), "7, 9");
    }
}
