//! The lane's side of the exchange with its server.

use std::time::{Duration, Instant};

use queue_core::{Awaits, Expects, Io, Life, Loss, Need, Protocol, Pulse, Role, after, earliest};

use super::{super::intake::TakenJob, CONFIRMING, Lane, LaneEvent, LaneStage};
use crate::Error;

impl Role for Lane {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let pulse = if self.is_over() {
            self.close(io);
            Pulse::Over
        } else {
            queue_core::exchange(self, io, now)
        };
        self.session.hand_out(&mut io.later, &mut io.wake);
        pulse
    }
}

impl Protocol for Lane {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, io: &mut Io<Error>, now: Instant) {
        self.session.reopen(now);
        self.intake.reopen();
        (self.counted, self.has_sent_barrier) = ((0, 0), false);
        self.news.push(LaneEvent::Connected);
        self.connecting.append_to(&mut io.wake);
    }

    fn receive(&mut self, io: &mut Io<Error>, now: Instant) -> Result<(), Error> {
        let (came, went) = std::mem::replace(&mut self.counted, (io.received(), io.sent()));
        self.traffic.bytes_in += io.received().saturating_sub(came);
        self.traffic.bytes_out += io.sent().saturating_sub(went);
        while let Some(taken) = self.intake.take(io)? {
            self.traffic.replies += 1;
            match taken {
                TakenJob::Packet(packet) => self.jobs.extend(self.session.accept(&packet, now)?),
                TakenJob::Oversized(start, oversize) => {
                    let failed = self.session.refuse(&start, oversize, now)?;
                    self.news.extend(
                        failed.map(|job| LaneEvent::Oversized(job.handle, job.function, oversize)),
                    );
                }
            }
        }
        self.news.extend(self.session.posted().map(LaneEvent::Letter));
        Ok(())
    }

    fn lost(&mut self, loss: Loss<Error>, io: &mut Io<Error>, _: Instant) {
        if self.session.limit.is_some() {
            // The limit has counted these jobs, so they are handed over.
            self.jobs.iter().for_each(|job| self.session.begin(&job.handle));
        } else {
            self.jobs.clear();
        }
        self.close(io);
        if self.stage == LaneStage::Working {
            self.news.push(LaneEvent::Lost(loss.error.share(), loss.delay.unwrap_or_default()));
        }
        self.last_error = Some(loss.error);
    }

    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        self.heed_grace(io, now);
        if !self.is_open() {
            return self.without_connection(io, now);
        }
        if self.until_empty.is_some() && self.session.has_no_work() && self.session.is_idle() {
            self.wind_down();
        }
        let due = self.session.poll(now);
        if self.has_stepped(io) {
            self.life.answered();
        }
        self.jobs.extend(std::iter::from_fn(|| self.session.released()));
        if self.wind_up(now) {
            return if self.stage == LaneStage::Working {
                self.rest(io, now)
            } else {
                self.end(io)
            };
        }
        if self.looking.as_mut().is_some_and(|check| check.may_be_here(io, now)) {
            return Need::Look;
        }
        self.looking = None;
        Need::Use(earliest([due, self.stops_at()]))
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        self.session.swap_outgoing(&mut self.spare);
        io.queue(&mut self.spare);
        self.unwritten = io.unwritten();
        if self.has_room() {
            self.waiting.append_to(&mut io.wake);
        }
        let is_leaving = self.is_leaving();
        let is_waiting = self.session.confirmations.is_waiting(io.sent()) || is_leaving;
        Awaits {
            answer: is_waiting.then_some(Duration::ZERO),
            until: None,
            expects: if is_leaving { Expects::End } else { Expects::Data },
        }
    }

    /// A server that does not know a kind of grab never answers it.
    fn forgives(&mut self, now: Instant) -> bool {
        self.session.give_up_waiting(now)
    }

    fn is_good(&mut self, now: Instant) -> bool {
        self.session.is_proven(now)
    }
}

impl Lane {
    fn close(&mut self, io: &mut Io<Error>) {
        self.session.close();
        (self.unwritten, self.looking) = (0, None);
        for tasks in [&mut self.connecting, &mut self.waiting, &mut self.barriers] {
            tasks.append_to(&mut io.wake);
        }
        io.wake.extend(self.losses.take());
    }

    /// Ends the connection, and the lane once no handler runs. Those of lost jobs need no connection.
    fn end(&mut self, io: &mut Io<Error>) -> Need {
        self.close(io);
        match self.stage {
            LaneStage::Stopping(until) if !self.session.is_idle() => return Need::Close(until),
            // Handlers whose grace has passed may be running.
            LaneStage::Confirming(_) | LaneStage::Cut => self.stage = LaneStage::Cut,
            LaneStage::Working | LaneStage::Stopping(_) | LaneStage::Over => {
                self.stage = LaneStage::Over;
            }
        }
        Need::Over
    }

    /// Whether the server has made progress in answering.
    fn has_stepped(&mut self, io: &mut Io<Error>) -> bool {
        let steps = self.session.confirmations.steps;
        let has_stepped = std::mem::replace(&mut self.steps, steps) != steps;
        if has_stepped {
            self.barriers.append_to(&mut io.wake);
        }
        has_stepped
    }

    /// Leaves all jobs to the server once the grace of a stop has passed, including those that still arrive. Whoever
    /// waits for the loss of one learns of it at once, not with the end of the connection.
    fn heed_grace(&mut self, io: &mut Io<Error>, now: Instant) {
        if let LaneStage::Stopping(Some(until)) = self.stage
            && until <= now
        {
            self.stage = LaneStage::Confirming(after(until, CONFIRMING));
            io.wake.extend(self.losses.take());
        }
        if let LaneStage::Confirming(_) = self.stage {
            self.session.leave_all();
        }
    }

    /// When the stop goes on even if nothing arrives before.
    fn stops_at(&self) -> Option<Instant> {
        match self.stage {
            LaneStage::Stopping(until) => until,
            LaneStage::Confirming(until) => Some(until),
            LaneStage::Working | LaneStage::Cut | LaneStage::Over => None,
        }
    }

    /// Whether nothing is left to request or do on this connection.
    fn is_drained(&self) -> bool {
        match self.stage {
            LaneStage::Working => self.session.is_spent(),
            LaneStage::Stopping(_) => self.session.is_drained(),
            LaneStage::Confirming(_) => true,
            LaneStage::Cut | LaneStage::Over => false,
        }
    }

    /// Whether it only waits for the connection to end, after the server has read everything.
    fn is_leaving(&self) -> bool {
        let confirms = self.with_barrier || self.stage == LaneStage::Working;
        !confirms && self.is_drained() && self.session.has_unconfirmed()
    }

    /// Whether the connection may end; first confirms that its results were accepted.
    fn wind_up(&mut self, now: Instant) -> bool {
        if !self.is_drained() || !self.session.has_unconfirmed() {
            return self.is_drained();
        }
        if matches!(self.stage, LaneStage::Confirming(until) if until <= now) {
            return true;
        }
        if !self.is_leaving() && !self.has_sent_barrier {
            self.has_sent_barrier = true;
            self.session.send_barrier(now);
        }
        false
    }

    /// Ends a connection that has given a job back. The next one has to wait.
    fn rest(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        self.close(io);
        let given_back = self.session.fruitless;
        if self.until_empty.is_some_and(|retry| given_back > retry.attempts()) {
            self.stage = LaneStage::Over;
            return Need::Over;
        }
        if given_back <= 1 {
            self.pauses.reset();
        }
        self.pause = Some(after(now, self.pauses.next_delay()));
        Need::Close(self.pause)
    }

    fn without_connection(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        self.pause = self.pause.filter(|until| *until > now && self.stage == LaneStage::Working);
        if self.stage != LaneStage::Working {
            return self.end(io);
        }
        if self.pause.is_some() || !self.is_wanted {
            return Need::Close(self.pause);
        }
        let gives_up = |retry| self.life.has_failed_for(&retry) && self.session.is_idle();
        if self.until_empty.is_some_and(gives_up) {
            self.news.push(LaneEvent::GivenUp);
            return self.end(io);
        }
        Need::Use(None)
    }
}
