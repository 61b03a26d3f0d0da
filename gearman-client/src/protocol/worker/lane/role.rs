//! What the pump asks of a lane.

use std::{
    io,
    time::{Duration, Instant},
};

use queue_core::{ConnectionState, End, Io, Late, Pulse, Role, after, earliest};

use super::{super::intake::Taken, CONFIRMING, Lane, Life, News};
use crate::{Error, error::lost};

impl Lane {
    fn open(&mut self, io: &mut Io<Error>, now: Instant) {
        self.session.reopen(now);
        self.intake.reopen();
        self.pace.reset();
        self.is_open = true;
        (self.counted, self.has_sent_barrier) = ((0, 0), false);
        self.overdue.clear();
        self.news.push(News::Connected);
        self.connecting.append_to(&mut io.wake);
    }

    fn count(&mut self, io: &Io<Error>) {
        let (came, went) = std::mem::replace(&mut self.counted, (io.received(), io.sent()));
        self.traffic.bytes_in += io.received().saturating_sub(came);
        self.traffic.bytes_out += io.sent().saturating_sub(went);
    }

    fn take_packets(&mut self, io: &mut Io<Error>, now: Instant) -> Result<(), Error> {
        while self.is_open
            && let Some(taken) = self.intake.take(io)?
        {
            self.traffic.replies += 1;
            match taken {
                Taken::Packet(packet) => self.jobs.extend(self.session.accept(&packet, now)?),
                Taken::Oversized(start, oversize) => {
                    let failed = self.session.refuse(&start, oversize, now)?;
                    self.news.extend(
                        failed.map(|job| News::Oversized(job.handle, job.function, oversize)),
                    );
                }
            }
        }
        Ok(())
    }

    /// Handles a connection that is gone or unusable, or could not be made.
    fn lose(&mut self, error: Error, io: &mut Io<Error>, now: Instant) {
        if std::mem::replace(&mut self.is_open, false) && self.session.is_proven(now) {
            self.may_return = true;
            self.health.proven();
        }
        if std::mem::replace(&mut self.may_return, false) {
            self.health.lost();
        } else {
            self.health.failed(now);
        }
        self.failures += 1;
        if self.session.has_limit() {
            // The limit has counted these jobs, so they are handed over.
            self.jobs.iter().for_each(|job| self.session.begin(&job.handle));
        } else {
            self.jobs.clear();
        }
        self.close(io);
        if self.life == Life::Working {
            let wait = self.health.quarantine(now).unwrap_or(now).saturating_duration_since(now);
            self.news.push(News::Lost(error.share(), wait));
        }
        self.last_error = Some(error);
    }

    fn close(&mut self, io: &mut Io<Error>) {
        self.session.close();
        self.pace.reset();
        (self.unwritten, self.looking) = (0, None);
        self.overdue.clear();
        for tasks in [&mut self.connecting, &mut self.waiting, &mut self.barriers] {
            tasks.append_to(&mut io.wake);
        }
        io.wake.extend(self.losses.take());
    }

    /// Ends the connection, and the lane once no handler runs. Those of lost jobs need no connection.
    fn end(&mut self, io: &mut Io<Error>) -> Pulse {
        self.is_open = false;
        self.close(io);
        match self.life {
            Life::Stopping(until) if !self.session.is_idle() => return Pulse::Close(until),
            // Handlers whose grace has passed may be running.
            Life::Confirming(_) | Life::Cut => self.life = Life::Cut,
            Life::Working | Life::Stopping(_) | Life::Over => self.life = Life::Over,
        }
        Pulse::Over
    }

    /// The error for a late answer or write, unless the connection continues.
    fn late(&mut self, late: Late, io: &mut Io<Error>, now: Instant) -> Option<Pulse> {
        match late {
            Late::Write => {}
            Late::Reply if self.overdue.may_be_here(io, now) => return Some(Pulse::Look),
            Late::Reply if self.session.give_up_waiting(now) => {
                self.overdue.clear();
                let answered = self.has_stepped(io);
                return self.check(io, answered, now).err().map(|_| Pulse::Look);
            }
            Late::Reply => {}
        }
        self.lose(self.pace.error(late).into(), io, now);
        Some(self.without_connection(io, now))
    }

    fn check(
        &mut self,
        io: &Io<Error>,
        answered: bool,
        now: Instant,
    ) -> Result<Option<Instant>, Late> {
        let is_waiting = self.session.is_waiting(io.sent()) || self.is_leaving();
        self.pace.check(io, is_waiting.then_some(Duration::ZERO), answered, now)
    }

    /// Whether the server has made progress in answering.
    fn has_stepped(&mut self, io: &mut Io<Error>) -> bool {
        let steps = self.session.steps();
        let has_stepped = std::mem::replace(&mut self.steps, steps) != steps;
        if has_stepped {
            self.barriers.append_to(&mut io.wake);
        }
        has_stepped
    }

    /// Leaves all jobs to the server once the grace of a stop has passed, including those that still arrive.
    fn heed_grace(&mut self, now: Instant) {
        if let Life::Stopping(Some(until)) = self.life
            && until <= now
        {
            self.life = Life::Confirming(after(until, CONFIRMING));
        }
        if let Life::Confirming(_) = self.life {
            self.session.leave_all();
        }
    }

    /// When the stop goes on even if nothing arrives before.
    fn stops_at(&self) -> Option<Instant> {
        match self.life {
            Life::Stopping(until) => until,
            Life::Confirming(until) => Some(until),
            Life::Working | Life::Cut | Life::Over => None,
        }
    }

    /// Whether a stopping worker has nothing left to request or do.
    fn is_drained(&self) -> bool {
        match self.life {
            Life::Stopping(_) => self.session.is_drained(),
            Life::Confirming(_) => true,
            Life::Working | Life::Cut | Life::Over => false,
        }
    }

    /// Whether it only waits for the connection to end, after the server has read everything.
    fn is_leaving(&self) -> bool {
        !self.with_barrier && self.is_drained() && self.session.has_unconfirmed()
    }

    /// Whether a stopping worker is done; first confirms that its results were accepted.
    fn wind_up(&mut self, now: Instant) -> bool {
        if !self.is_drained() || !self.session.has_unconfirmed() {
            return self.is_drained();
        }
        if matches!(self.life, Life::Confirming(until) if until <= now) {
            return true;
        }
        if self.with_barrier && !self.has_sent_barrier {
            self.has_sent_barrier = true;
            self.session.send_barrier(now);
        }
        false
    }

    fn without_connection(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.life != Life::Working {
            return self.end(io);
        }
        let gives_up = |retry| self.health.has_failed_for(&retry) && self.session.is_idle();
        if self.until_empty.is_some_and(gives_up) {
            self.news.push(News::GivenUp);
            return self.end(io);
        }
        let pulse = self.health.dial(0, now);
        self.state = match pulse {
            Pulse::Dial { .. } => ConnectionState::Connecting,
            _ => ConnectionState::Backoff,
        };
        pulse
    }
}

impl Role for Lane {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let pulse = self.proceed(io, now);
        self.session.hand_out(&mut io.later, &mut io.wake);
        pulse
    }
}

impl Lane {
    fn proceed(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.is_over() {
            return self.end(io);
        }
        if self.health.is_new(io) {
            self.open(io, now);
        }
        self.count(io);
        let taken = self.take_packets(io, now);
        let end = match (taken, io.take_end()) {
            (Err(error), _) | (_, Some(End::NotConnected(error))) => Some(error),
            (_, Some(End::Lost(error))) => Some(lost(error)).filter(|_| self.is_open),
            (_, Some(End::Abandoned)) => {
                self.health.abandoned();
                Some(lost(io::ErrorKind::BrokenPipe.into()))
            }
            (Ok(()), None) => None,
        };
        if let Some(error) = end {
            self.lose(error, io, now);
        }
        self.heed_grace(now);
        if !self.is_open {
            return self.without_connection(io, now);
        }
        if self.until_empty.is_some() && self.session.has_no_work() && self.session.is_idle() {
            self.wind_down();
        }
        let mut due = self.session.poll(now);
        let answered = self.has_stepped(io);
        match self.check(io, answered, now) {
            Ok(_) => self.overdue.clear(),
            Err(late) => match self.late(late, io, now) {
                Some(pulse) => return pulse,
                None => due = self.session.poll(now),
            },
        }
        self.jobs.extend(std::iter::from_fn(|| self.session.released()));
        if self.wind_up(now) {
            return self.end(io);
        }
        self.session.swap_outgoing(&mut self.spare);
        io.queue(&mut self.spare);
        self.unwritten = io.unwritten();
        if self.has_room() {
            self.waiting.append_to(&mut io.wake);
        }
        let late_at = self.check(io, false, now).unwrap_or(Some(now));
        let until = earliest([due, late_at, self.stops_at()]);
        match self.looking {
            Some(since) if !io.has_looked_since(since) => return Pulse::Look,
            _ => self.looking = None,
        }
        if self.is_leaving() { Pulse::HalfClose(until) } else { Pulse::Go(until) }
    }
}
