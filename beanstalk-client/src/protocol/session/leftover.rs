//! Leftovers of dropped calls: reserves that still wait, and jobs without a caller.

use std::time::{Duration, Instant};

use super::{Meaning, Session, Ticket};
use crate::{
    Error, ErrorKind, Fate, Job,
    protocol::{Effect, ServerWait, Touch},
};

impl Session {
    /// A reserve without a reply that the server may hold back: its caller is gone.
    ///
    /// Until it is answered the server reads nothing else from this connection, so the next command either takes over
    /// its job, or ends it by closing the sending side.
    #[must_use]
    pub fn abandoned_reserve(&self) -> Option<(Ticket, ServerWait)> {
        self.unanswered_reserves().find(|(_, wait)| *wait != ServerWait::AtMost(Duration::ZERO))
    }

    /// The oldest reserve without a reply, including one that the server answers at once.
    #[must_use]
    pub fn unanswered_reserve(&self) -> Option<(Ticket, ServerWait)> {
        self.unanswered_reserves().next()
    }

    /// The oldest `reserve-job` without a reply. If it brings a job, the connection is closed.
    #[must_use]
    pub fn unanswered_reserve_job(&self) -> Option<(Ticket, ServerWait)> {
        self.unanswered(Effect::ReserveJob).next()
    }

    fn unanswered_reserves(&self) -> impl Iterator<Item = (Ticket, ServerWait)> {
        self.unanswered(Effect::Reserve)
    }

    fn unanswered(&self, effect: Effect) -> impl Iterator<Item = (Ticket, ServerWait)> {
        let numbered = self.pending.iter().zip(self.answered..);
        numbered.filter_map(move |(pending, number)| match &pending.meaning {
            Meaning::Command(of) if *of == effect => Some((Ticket(number), pending.wait)),
            _ => None,
        })
    }

    /// The oldest job reserved for a call that is gone.
    ///
    /// The next reserve takes it over after a `touch` has shown that this connection still holds it: its time to run
    /// started when the server assigned it, which may be long ago.
    #[must_use]
    pub fn orphan(&self) -> Option<&Job> {
        self.orphans.front()
    }

    /// Whether the next reserve has something to take over: a reserve that still waits, or a job.
    #[must_use]
    pub fn has_leftover_reserve(&self) -> bool {
        !self.orphans.is_empty() || self.abandoned_reserve().is_some()
    }

    /// Keeps a job reserved for a call that is gone, for the next reserve.
    pub fn keep_orphan(&mut self, job: Job) {
        self.orphans.push_back(job);
    }

    /// Sends a `touch` for the oldest orphan, unless an earlier call has left one in flight. Returns its ticket, and
    /// when it was sent.
    ///
    /// # Errors
    /// `JobLost` if there is no orphan any more; otherwise as [`send`](Self::send).
    pub fn touch_orphan(&mut self, now: Instant) -> Result<(Ticket, Instant), Error> {
        if let Some(asked) = self.asked.filter(|(ticket, _)| self.is_unanswered(*ticket)) {
            return Ok(asked);
        }
        let Some(touch) = self.orphan().map(Touch::new) else {
            let why = "the connection that held the job is gone";
            return Err(Error::new(ErrorKind::JobLost, Fate::NotSent, why));
        };
        let asked = (self.send(&touch)?, now);
        self.asked = Some(asked);
        Ok(asked)
    }

    fn is_unanswered(&self, ticket: Ticket) -> bool {
        (self.answered..self.answered + self.pending.len() as u64).contains(&ticket.0)
    }

    /// Takes the oldest orphan: it was handed to a caller, or the server has taken it back.
    pub fn take_orphan(&mut self) -> Option<Job> {
        self.asked = None;
        self.orphans.pop_front()
    }

    /// Jobs reserved under another watch list are not offered: closing the connection returns them to the server with
    /// their priorities unchanged.
    pub(super) fn give_orphans_back(&mut self) {
        if !self.orphans.is_empty() {
            self.orphans.clear();
            self.close_after_replies();
        }
    }
}

/// Whether a touch failed because the job is no longer held: its time to run expired, or its connection is gone.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::JobLost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Delete, Ignore, Reserve, Response, Watch};

    /// A connection that holds a job without a caller.
    fn with_orphan() -> Session {
        let mut session = Session::new(1024);
        session.send(&Reserve).unwrap();
        let next = session.send(&Delete::new(1)).unwrap();
        answer(&mut session, b"RESERVED 7 2\r\nhi\r\nDELETED\r\n");
        assert!(session.reply(next).unwrap().is_some());
        session
    }

    /// Answers what was sent with these bytes.
    fn answer(session: &mut Session, bytes: &[u8]) -> Vec<u8> {
        let sent = session.outgoing().to_vec();
        session.sent(sent.len());
        session.space()[..bytes.len()].copy_from_slice(bytes);
        session.received(bytes.len());
        sent
    }

    /// It was reserved under another watch list than that of the next reserve.
    #[test]
    fn changing_the_watch_list_releases_an_orphan() {
        let tube = |name: &str| crate::TubeName::try_from(name).unwrap();
        let asks =
            |session: &mut Session, command: &dyn Fn(&mut Session) -> Ticket, reply: &str| {
                let ticket = command(session);
                answer(session, reply.as_bytes());
                assert!(session.reply(ticket).unwrap().is_some());
                (session.is_open(), session.orphan().is_some())
            };
        let watch = |session: &mut Session| session.send(&Watch(tube("mail"))).unwrap();
        let ignore = |session: &mut Session| session.send(&Ignore(tube("mail"))).unwrap();
        let mut session = with_orphan();
        assert_eq!(asks(&mut session, &ignore, "WATCHING 1\r\n"), (true, true), "no change");
        assert_eq!(asks(&mut session, &watch, "WATCHING 2\r\n"), (false, false));
        let mut session = Session::new(1024);
        assert_eq!(asks(&mut session, &watch, "WATCHING 2\r\n"), (true, false));
        session.keep_orphan(Job::for_test(7, "hi"));
        assert_eq!(asks(&mut session, &watch, "WATCHING 2\r\n"), (true, true), "no change");
        assert_eq!(asks(&mut session, &ignore, "WATCHING 1\r\n"), (false, false));
    }

    #[test]
    fn one_touch_is_under_way_for_an_orphan() {
        let (mut session, now) = (with_orphan(), Instant::now());
        let later = now + Duration::from_secs(1);
        let asked = session.touch_orphan(now).unwrap();
        assert_eq!(session.touch_orphan(later).unwrap(), asked, "nothing was answered");
        assert_eq!(answer(&mut session, b"TOUCHED\r\n"), b"touch 7\r\n");
        assert_eq!(session.reply(asked.0).unwrap(), Some(Response::Touched));
        let again = session.touch_orphan(later).unwrap();
        assert!(again.0 > asked.0 && again.1 == later);
        session.take_orphan();
        let error = session.touch_orphan(later).unwrap_err();
        assert!(is_gone(&error) && error.fate() == Fate::NotSent, "{error}");
    }
}
