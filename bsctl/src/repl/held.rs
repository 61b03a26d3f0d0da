//! The jobs that a session holds: what is known about each beyond the reservation, and which was the last.

use std::time::{Duration, Instant};

use beanstalk_client::JobId;

use crate::tool::{Held, Session};

/// With less time left than this, a person is warned.
pub(super) const WARN_BELOW: Duration = Duration::from_secs(10);

/// A task that has become due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Touch this job.
    Touch(JobId),
    /// Warn a person that this job has this much time left.
    Warn(JobId, Duration),
    /// The job's time is over.
    Over(JobId),
}

impl Held {
    /// How much of its time is left.
    pub(super) fn left(&self, now: Instant) -> Duration {
        (self.touched + self.ttr).saturating_duration_since(now)
    }
}

impl Session {
    /// The most recently reserved job that is still held.
    pub(super) fn last(&self) -> Option<JobId> {
        self.held.iter().max_by_key(|(_, held)| held.order).map(|(id, _)| *id)
    }

    /// The tasks that are due at `now`. A job gets one warning each time its time restarts.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        for (id, held) in &mut self.held {
            let (left, kept) = (held.left(now), self.autotouch || held.hold);
            if left.is_zero() {
                due.push(Due::Over(*id));
            } else if kept && now.saturating_duration_since(held.touched) >= held.ttr / 3 {
                due.push(Due::Touch(*id));
            } else if !kept && left < WARN_BELOW && !held.warned {
                held.warned = true;
                due.push(Due::Warn(*id, left));
            }
        }
        due
    }

    /// The shortest time left of any job.
    pub(super) fn shortest(&self, now: Instant) -> Option<Duration> {
        self.held.values().map(|held| held.left(now)).min()
    }
}

/// The jobs' ids for people: `7, 9`.
pub(super) fn list<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> String {
    ids.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use beanstalk_client::{JobRef, Priority};
    use bytes::Bytes;

    use super::*;

    const TTR: Duration = Duration::from_secs(60);

    fn holding(ids: &[u64]) -> (Session, Instant) {
        let start = Instant::now();
        let mut session = Session::default();
        for (id, order) in ids.iter().map(|id| JobId::from(*id)).zip(0..) {
            let held = Held {
                job: JobRef::from(id),
                tube: None,
                body: Bytes::from_static(b"x"),
                pri: Priority::default(),
                ttr: TTR,
                touched: start,
                hold: false,
                order,
                warned: false,
            };
            session.held.insert(id, held);
        }
        (session, start)
    }

    fn touch(session: &mut Session, id: u64, at: Instant) {
        let held = session.held.get_mut(&id.into()).unwrap();
        (held.touched, held.warned) = (at, false);
    }

    #[test]
    fn a_warning_comes_once_below_ten_seconds() {
        let (mut session, start) = holding(&[7]);
        assert_eq!(session.due(start + Duration::from_secs(50)), []);
        let late = start + Duration::from_secs(51);
        let nine = Duration::from_secs(9);
        assert_eq!(session.due(late), [Due::Warn(7.into(), nine)]);
        assert_eq!(session.due(late), []);
        touch(&mut session, 7, start);
        assert_eq!(session.due(late), [Due::Warn(7.into(), nine)]);
    }

    #[test]
    fn kept_jobs_are_touched_each_third_and_not_warned_about() {
        let (mut session, start) = holding(&[7, 8]);
        session.held.get_mut(&7.into()).unwrap().hold = true;
        assert_eq!(session.due(start + Duration::from_secs(19)), []);
        let third = start + Duration::from_secs(20);
        assert_eq!(session.due(third), [Due::Touch(7.into())]);
        session.autotouch = true;
        assert_eq!(session.due(third), [Due::Touch(7.into()), Due::Touch(8.into())]);
        touch(&mut session, 7, third);
        assert_eq!(session.due(third), [Due::Touch(8.into())]);
    }

    #[test]
    fn time_that_is_over_is_said() {
        let (mut session, start) = holding(&[7]);
        assert_eq!(session.due(start + TTR), [Due::Over(7.into())]);
        assert_eq!(session.shortest(start), Some(TTR));
    }

    #[test]
    fn the_last_job_is_the_one_reserved_last_that_is_still_held() {
        let (mut session, _) = holding(&[9, 7, 8]);
        assert_eq!(session.last(), Some(8.into()));
        session.held.remove(&8.into());
        assert_eq!(session.last(), Some(7.into()));
        assert_eq!(list(session.held.keys()), "7, 9");
    }
}
