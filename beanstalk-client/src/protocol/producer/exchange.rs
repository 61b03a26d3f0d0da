//! A lane as a role, for the pump that moves its bytes.

use std::time::{Duration, Instant};

use queue_core::{End, Io, Pulse, earliest};

use super::{
    Outbox,
    lane::{Lane, LanePhase},
};
use crate::{
    Deadline, Error, Fate, Result,
    error::lost,
    protocol::{Command, Response, Stats},
};

impl Outbox {
    /// The lane of a server as a role: see [`Role::exchange`](queue_core::Role::exchange).
    pub(crate) fn exchange(&mut self, server: usize, io: &mut Io<Error>, now: Instant) -> Pulse {
        let answered = self.take_in(server, io, now);
        let pulse = match self.check_deadlines(server, io, answered, now) {
            true => Pulse::Look,
            false => self.go_on(server, io, now),
        };
        io.wake.append(&mut self.wakers);
        pulse
    }

    /// A put that falls due together with its connection is part of that failure, so this comes second.
    fn go_on(&mut self, server: usize, io: &mut Io<Error>, now: Instant) -> Pulse {
        self.expire(server, now);
        self.relieve(server, now);
        if self.is_over() {
            self.end(server);
            return Pulse::Over;
        }
        self.want(server, io, now)
    }

    /// Handles a new connection, the received bytes, and the end. Returns whether puts were answered.
    fn take_in(&mut self, server: usize, io: &mut Io<Error>, now: Instant) -> bool {
        let Some(lane) = self.lanes.get_mut(server) else { return false };
        if lane.health.is_new(io) {
            lane.greet(io);
        }
        lane.note_moved(io, now);
        let mut answered = false;
        while let Some(outcome) = self.next_answer(server, io, now) {
            match outcome {
                Ok(()) => answered = true,
                Err(error) => self.failed(server, &error, now),
            }
        }
        match io.take_end() {
            Some(End::NotConnected(error)) if self.is_in(server, &[LanePhase::Connecting]) => {
                self.failed(server, &error, now);
            }
            Some(End::Lost(error))
                if self.is_in(server, &[LanePhase::Greeting, LanePhase::Ready]) =>
            {
                self.failed(server, &lost(error), now);
            }
            Some(End::Abandoned) => self.orphaned(server),
            // The lane gave the connection up itself.
            Some(End::NotConnected(_) | End::Lost(_)) | None => {}
        }
        answered
    }

    /// Takes one answer, if there is one. An error ends the sequence.
    fn next_answer(
        &mut self,
        server: usize,
        io: &mut Io<Error>,
        now: Instant,
    ) -> Option<Result<()>> {
        let lane = self.lanes.get_mut(server).filter(|lane| lane.is_connected())?;
        let phase = lane.phase;
        let outcome = match lane.parser.next(io).transpose()? {
            Ok(response) if phase == LanePhase::Ready => self.answered(server, response, now),
            Ok(response) => max_job_size(response).map(|limit| self.opened(server, limit, now)),
            Err(error) => Err(error),
        };
        Some(outcome)
    }

    /// Closes an overdue connection. Returns whether to check it first, because there may be unread data.
    fn check_deadlines(
        &mut self,
        server: usize,
        io: &Io<Error>,
        answered: bool,
        now: Instant,
    ) -> bool {
        let by_callers = self.is_driven_by_callers;
        let Some(lane) = self.lanes.get_mut(server) else { return false };
        let which = match lane.phase {
            // The pump's report about an attempt comes first.
            LanePhase::Connecting => lane.health.is_overdue(now).then_some(Deadline::Connect),
            LanePhase::Greeting => {
                lane.connect_by.is_some_and(|at| at <= now).then_some(Deadline::Connect)
            }
            LanePhase::Ready => {
                let waits = lane.log.awaits_reply().then_some(Duration::ZERO);
                lane.deadlines.check(io, waits, answered, now).err()
            }
            LanePhase::Idle | LanePhase::Backoff | LanePhase::Closed => None,
        };
        let is_late = matches!(which, Some(Deadline::Reply | Deadline::Connect))
            || (which.is_none() && lane.has_overdue_answers(now));
        let awaits = by_callers && lane.is_connected() && is_late;
        if awaits && lane.late_check.may_be_here(io, now) {
            return true;
        }
        lane.late_check.clear();
        if let Some(which) = which {
            let error = match which {
                Deadline::Connect => lane.health.overdue(),
                which => lane.deadlines.error(which),
            };
            self.failed(server, &Error::from(error).with_fate(Fate::Unknown), now);
        }
        false
    }

    fn want(&mut self, server: usize, io: &mut Io<Error>, now: Instant) -> Pulse {
        let (probes, by_callers) = (self.probes, self.is_driven_by_callers);
        let Some(lane) = self.lanes.get_mut(server) else { return Pulse::Over };
        let slow_at = |lane: &Lane| lane.slow_at().filter(|at| probes && *at > now);
        let due = earliest([lane.next_due, self.line_due]);
        match lane.phase {
            LanePhase::Closed => Pulse::Over,
            LanePhase::Greeting => Pulse::Go(earliest([lane.connect_by, due, slow_at(lane)])),
            LanePhase::Ready => self.send(server, io, due, now),
            // The connection failed for a reason that the lane found.
            _ if io.is_open() => Pulse::Close(None),
            LanePhase::Backoff if lane.health.quarantine(now).is_some() => {
                Pulse::Close(earliest([lane.health.quarantine(now), due]))
            }
            LanePhase::Idle if !lane.has_work() => Pulse::Close(due),
            LanePhase::Backoff if !lane.has_work() && !probes => {
                lane.phase = LanePhase::Idle;
                Pulse::Close(due)
            }
            LanePhase::Idle | LanePhase::Backoff | LanePhase::Connecting => {
                if lane.phase != LanePhase::Connecting {
                    lane.connecting_since = Some(now);
                }
                lane.phase = LanePhase::Connecting;
                lane.connect_by = lane.health.attempt(server, now).until();
                // A caller that connects gives up with its own put; the other callers have their own alarms.
                let ask = earliest([due, slow_at(lane)]).filter(|_| !by_callers);
                Pulse::Dial { server, by: lane.connect_by, ask }
            }
        }
    }

    /// The next step on a connection that serves.
    fn send(
        &mut self,
        server: usize,
        io: &mut Io<Error>,
        due: Option<Instant>,
        now: Instant,
    ) -> Pulse {
        let by_callers = self.is_driven_by_callers;
        let Some(lane) = self.lanes.get_mut(server) else { return Pulse::Over };
        if by_callers && lane.log.has_unwritten() && lane.is_unchecked(io, now) {
            return Pulse::Peek;
        }
        io.replace(lane.log.unwritten());
        let waits = lane.log.awaits_reply().then_some(Duration::ZERO);
        let late = lane.deadlines.check(io, waits, false, now).ok().flatten();
        let until = earliest([late, due]);
        if lane.has_work() { Pulse::Go(until) } else { Pulse::Rest(until) }
    }

    fn is_in(&self, server: usize, phases: &[LanePhase]) -> bool {
        self.lanes.get(server).is_some_and(|lane| phases.contains(&lane.phase))
    }

    /// Whether a serving connection was lost; reported once.
    pub(crate) fn take_lost(&mut self, server: usize) -> bool {
        self.lanes.get_mut(server).is_some_and(|lane| std::mem::take(&mut lane.is_lost))
    }
}

/// The `max-job-size` in the answer to `stats`; `None` if the server does not report it.
fn max_job_size(answer: Response) -> Result<Option<u64>> {
    let is_text = matches!(answer, Response::Ok(_));
    match Stats.decode(answer) {
        Ok(stats) => Ok(Some(stats.max_job_size).filter(|max| *max > 0)),
        Err(error) if is_text || error.fate() == Fate::Refused => Ok(None),
        Err(error) => Err(error.with_command(Stats::NAME)),
    }
}
