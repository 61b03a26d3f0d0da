//! The deadlines of a connection.

use std::time::{Duration, Instant};

use crate::{Deadline, Error, Io, earliest, error::limit::WRITE_STEP};

/// Time limits of a connection: for the answer to its oldest request, and for each step of a write.
///
/// They are checked at every exchange, so a deadline passes even while bytes keep arriving. A write of any length may
/// continue as long as each 64 KiB of it is accepted in time; a peer that reads byte by byte is late.
#[derive(Clone, Debug)]
pub struct Deadlines {
    reply: Option<Duration>,
    write: Option<Duration>,
    oldest: Option<Instant>,
    /// Something was unwritten at the last check: what waits now may be older than that.
    was_unwritten: bool,
    stuck: Option<PendingStep>,
}

/// A step of a write that the peer has not accepted yet.
#[derive(Clone, Copy, Debug)]
struct PendingStep {
    /// Number of bytes sent before it.
    from: u64,
    since: Instant,
    /// Number of bytes sent once everything is that was queued at the last check.
    all: u64,
}

impl Deadlines {
    /// Time limits for an answer and for a step of a write; `None` waits indefinitely.
    #[must_use]
    pub fn new(reply: Option<Duration>, write: Option<Duration>) -> Self {
        Deadlines { reply, write, oldest: None, was_unwritten: false, stuck: None }
    }

    /// Since when the answer to the oldest request is awaited, as of the last check.
    #[must_use]
    pub fn awaits_since(&self) -> Option<Instant> {
        self.oldest
    }

    /// Records what is in flight, and returns the next deadline.
    ///
    /// `holds` is how long the server may hold back the answer to the oldest request, if one was sent whole. `answered`
    /// says that an answer arrived since the last call: the next request is the oldest from now on.
    ///
    /// The time for an answer counts from when its request was written, or from when it is awaited, whichever is later.
    /// A pump writes after asking, so the next deadline is never later than that of an answer to what is written now.
    ///
    /// # Errors
    ///
    /// The deadline that has passed, of [`Deadline::Reply`] and [`Deadline::Write`]. The result is the same if asked
    /// again.
    pub fn check<F>(
        &mut self,
        io: &Io<F>,
        holds: Option<Duration>,
        answered: bool,
        now: Instant,
    ) -> Result<Option<Instant>, Deadline> {
        self.oldest = match holds {
            Some(_) if answered => Some(now),
            Some(_) => self.oldest.or(io.written_at().filter(|_| self.was_unwritten)).or(Some(now)),
            None => None,
        };
        self.was_unwritten = !io.is_drained();
        let all = io.sent() + io.unwritten() as u64;
        self.stuck = match self.stuck {
            _ if io.is_drained() => None,
            // What waits now was queued after everything else had been accepted, unless some of that still waits.
            Some(stuck) if io.sent() < stuck.all.min(stuck.from + WRITE_STEP as u64) => {
                Some(PendingStep { all, ..stuck })
            }
            _ => Some(PendingStep { from: io.sent(), since: now, all }),
        };
        let reply = self.reply.and_then(|reply| {
            self.oldest?.checked_add(reply.checked_add(holds.unwrap_or_default())?)
        });
        let write = self.write.and_then(|write| self.stuck?.since.checked_add(write));
        if write.is_some_and(|at| at <= now) {
            return Err(Deadline::Write);
        }
        if reply.is_some_and(|at| at <= now) {
            return Err(Deadline::Reply);
        }
        let soonest =
            self.reply.filter(|_| !io.is_drained()).and_then(|time| now.checked_add(time));
        Ok(earliest([reply, write, soonest]))
    }

    /// The error of a deadline that has passed.
    #[must_use]
    pub fn error(&self, which: Deadline) -> Error {
        let time = match which {
            Deadline::Reply => self.reply,
            Deadline::Write => self.write,
            Deadline::Connect | Deadline::Total | Deadline::Job => None,
        };
        Error::timed_out_after(which, time)
    }

    /// Forgets what was in flight on a connection that has ended.
    pub fn reset(&mut self) {
        (self.oldest, self.was_unwritten, self.stuck) = (None, false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn writing() -> (Deadlines, Io<()>, Instant) {
        let mut io = Io::default();
        io.opened();
        io.queue(&mut b"put 0 0 60 5\r\nhello\r\n"[..].into());
        (Deadlines::new(Some(10 * SECOND), Some(5 * SECOND)), io, Instant::now())
    }

    #[test]
    fn an_answer_is_due_from_when_its_request_is_the_oldest() {
        let (mut deadlines, mut io, start) = writing();
        io.took(21, start);
        assert_eq!(deadlines.check(&io, NOW, false, start), Ok(Some(start + 10 * SECOND)));
        let later = start + 9 * SECOND;
        assert_eq!(deadlines.check(&io, NOW, false, later), Ok(Some(start + 10 * SECOND)));
        assert_eq!(deadlines.check(&io, NOW, true, later), Ok(Some(later + 10 * SECOND)));
        assert_eq!(deadlines.check(&io, NOW, false, later + 10 * SECOND), Err(Deadline::Reply));
        assert_eq!(deadlines.check(&io, None, false, later + 10 * SECOND), Ok(None));
    }

    /// A large body on a slow line: the server cannot answer before it has all of it.
    #[test]
    fn a_long_write_takes_none_of_the_time_of_its_answer() {
        let (mut deadlines, mut io, start) = writing();
        io.queue(&mut vec![0; WRITE_STEP][..].into());
        assert!(deadlines.check(&io, None, false, start).is_ok());
        let written = start + 9 * SECOND;
        io.took(21 + WRITE_STEP, written);
        let due = written + 10 * SECOND;
        assert_eq!(deadlines.check(&io, NOW, false, start + 10 * SECOND), Ok(Some(due)));
        assert_eq!(deadlines.check(&io, NOW, false, due), Err(Deadline::Reply));
    }

    #[test]
    fn each_step_of_a_write_has_its_time_and_drops_are_late() {
        let (mut deadlines, mut io, start) = writing();
        io.queue(&mut vec![0; 10 * WRITE_STEP][..].into());
        assert_eq!(deadlines.check(&io, None, false, start), Ok(Some(start + 5 * SECOND)));
        let mut now = start;
        for _ in 0..5 {
            now += 4 * SECOND;
            io.took(WRITE_STEP, now);
            assert_eq!(deadlines.check(&io, None, false, now), Ok(Some(now + 5 * SECOND)));
        }
        for _ in 0..4 {
            now += SECOND;
            io.took(1, now);
            assert!(deadlines.check(&io, None, false, now).is_ok());
        }
        now += SECOND;
        io.took(1, now);
        assert_eq!(deadlines.check(&io, NOW, false, now), Err(Deadline::Write));
        assert_eq!(deadlines.check(&io, NOW, false, now), Err(Deadline::Write));
    }

    /// A process that was stopped after a write learns of the answer late, and writes the next request in that moment.
    #[test]
    fn a_write_after_one_that_was_accepted_has_its_own_time() {
        let (mut deadlines, mut io, start) = writing();
        assert!(deadlines.check(&io, None, false, start).is_ok());
        io.took(21, start);
        io.queue(&mut b"delete 1\r\n"[..].into());
        let later = start + 3600 * SECOND;
        assert_eq!(deadlines.check(&io, None, false, later), Ok(Some(later + 5 * SECOND)));
        io.took(4, later);
        io.queue(&mut b"delete 2\r\n"[..].into());
        assert_eq!(deadlines.check(&io, None, false, later + 5 * SECOND), Err(Deadline::Write));
    }
}
