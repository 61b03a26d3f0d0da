//! The outcome of puts: answers, refusals, deadlines, and failing servers.

use std::time::{Duration, Instant};

use queue_core::earliest;

use super::{
    Outbox, PutSlot,
    lane::{Lane, LanePhase},
    log::{LogItem, UnsentPut},
    queued_put::{PutCaller, QueuedPut},
    too_big,
};
use crate::{
    Deadline, Delivery, Error, ErrorKind, Fate, Inserted, ProducerEventKind, Result, TubeName,
    protocol::Response,
};

impl Outbox {
    /// A connection was made: waiting puts go out on it. Bodies over the server's limit are refused now.
    pub(super) fn opened(&mut self, server: usize, max_job_size: Option<u64>, now: Instant) {
        (0..self.lanes.len()).for_each(|any| self.expire(any, now));
        let Some(lane) = self.lanes.get_mut(server) else { return };
        let own = lane.log.take_all();
        lane.open(max_job_size);
        self.report.connections += 1;
        self.note(server, ProducerEventKind::Connected);
        for taken in own {
            self.queue_checked(server, taken);
        }
        // Puts that wait for unreachable servers can go here instead.
        let mut waiting = Vec::new();
        let (lanes, probes) = (self.lanes.iter_mut().enumerate(), self.probes);
        let is_away =
            |lane: &Lane| lane.phase == LanePhase::Backoff || (probes && lane.is_slow(now));
        for (from, lane) in lanes.filter(|(_, lane)| is_away(lane)) {
            waiting.extend(lane.log.take_all().into_iter().map(|taken| (from, taken)));
        }
        for (from, taken) in waiting {
            self.place(from, taken, now);
        }
        self.wake_waiting();
    }

    /// Moves puts that wait for a server that takes long to connect to one that is ready.
    pub(super) fn relieve(&mut self, server: usize, now: Instant) {
        let is_ready = |lane: &Lane| lane.phase == LanePhase::Ready && lane.is_usable(now, true);
        if !self.probes || !self.lanes.iter().any(is_ready) {
            return;
        }
        let Some(lane) = self.lanes.get_mut(server).filter(|lane| lane.is_slow(now)) else {
            return;
        };
        for taken in lane.log.take_all() {
            self.place(server, taken, now);
        }
    }

    /// Queues a put that waited for this server where it is served best.
    fn place(&mut self, from: usize, taken: UnsentPut, now: Instant) {
        let server = self.choose(taken.queued_put.key, now);
        if server != from {
            self.moved(from);
        }
        self.queue_checked(server, taken);
    }

    fn moved(&mut self, from: usize) {
        self.report.moved += 1;
        self.note(from, ProducerEventKind::Moved { puts: 1 });
    }

    fn queue_checked(&mut self, server: usize, taken: UnsentPut) {
        let size = taken.queued_put.body;
        match self.lanes.get(server).and_then(|lane| lane.is_too_big(size)) {
            Some(max) => self.settle(taken.queued_put, Err(too_big(size, max))),
            None => self.queue(server, taken),
        }
    }

    /// A reply arrived on a lane.
    pub(super) fn answered(
        &mut self,
        server: usize,
        response: Response,
        now: Instant,
    ) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(server) else { return Ok(()) };
        let Some(entry) = lane.log.take_oldest() else {
            return Err(Error::protocol("the server sent a reply that matches no command"));
        };
        lane.outcomes.answers += 1;
        self.wakers.append(&mut self.checkers);
        let frame = lane.log.frame(&entry);
        let queued_put = match entry.item {
            LogItem::Use(tube) => {
                check_used(response, &tube)?;
                lane.log.settle(tube);
                lane.log.release();
                return Ok(());
            }
            LogItem::Put(queued_put) => queued_put,
        };
        lane.log.release();
        let error = match response {
            Response::Inserted(id) => {
                lane.accepted();
                self.settle(queued_put, Ok(Inserted::Ready(id)));
                return Ok(());
            }
            Response::Buried(Some(id)) => {
                lane.accepted();
                self.settle(queued_put, Ok(Inserted::Buried(id)));
                return Ok(());
            }
            other => other.refuse().with_command("put"),
        };
        match error.kind() {
            ErrorKind::Draining | ErrorKind::OutOfMemory => {
                let taken = UnsentPut { queued_put, frame, fate: Fate::Refused };
                self.refused(server, taken, error, now);
                Ok(())
            }
            // The server reads the body, or the rest of it, as commands.
            ErrorKind::BadFormat | ErrorKind::UnknownCommand | ErrorKind::ExpectedCrlf => {
                self.settle(queued_put, Err(error));
                Err(Error::new(
                    ErrorKind::ConnectionLost,
                    Fate::Unknown,
                    "the server misread an earlier put, so the connection was closed",
                ))
            }
            ErrorKind::Protocol => {
                self.settle(queued_put, Err(error.share()));
                Err(error)
            }
            _ => {
                lane.health.proven();
                self.settle(queued_put, Err(error));
                Ok(())
            }
        }
    }

    /// The server accepts no jobs now; another one may, also one that has only lost its connection.
    fn refused(&mut self, server: usize, taken: UnsentPut, error: Error, now: Instant) {
        if let Some(lane) = self.lanes.get_mut(server) {
            lane.health.failed(now);
            lane.last_error = Some(error.share());
        }
        self.note(server, ProducerEventKind::Refused { error: error.share(), puts: 1 });
        let may_move = self.lanes.len() > 1 && taken.queued_put.owner.is_some();
        let other = may_move.then(|| self.choose_usable(taken.queued_put.key, now)).flatten();
        match other.or_else(|| self.soonest(Lane::is_returning).filter(|_| may_move)) {
            Some(other) => {
                self.moved(server);
                self.queue(other, taken);
            }
            None => self.settle(taken.queued_put, Err(error)),
        }
    }

    /// A lane has lost its connection, or could not get one.
    pub(super) fn failed(&mut self, server: usize, error: &Error, now: Instant) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        // No part of a put is sent before the greeting is answered.
        let error = match lane.phase {
            LanePhase::Ready => error.share(),
            _ => error.share().with_fate(Fate::NotSent),
        };
        lane.fail(&error, now);
        self.expire(server, now);
        let Some(lane) = self.lanes.get_mut(server) else { return };
        let is_news = lane.reported.replace(error.kind()) != Some(error.kind());
        let pause = lane.health.not_before().map(|at| at.saturating_duration_since(now));
        let taken = lane.log.take_all();
        lane.next_due = None;
        if is_news {
            self.note(server, ProducerEventKind::Disconnected(error.share()));
        }
        if let Some(pause) = pause {
            self.note(server, ProducerEventKind::BackingOff(pause));
        }
        for mut put in taken {
            let is_live = put.queued_put.owner.is_some();
            let again = match put.fate {
                Fate::NotSent | Fate::Refused => put.queued_put.retries,
                Fate::Unknown => put.queued_put.delivery == Delivery::AtLeastOnce,
            };
            if !(is_live && again) {
                let fate = put.fate;
                let reported = error.share().with_fate(fate).with_command("put");
                let reported = self.of_server(server, reported);
                self.settle(put.queued_put, Err(reported));
                continue;
            }
            if put.fate == Fate::Unknown {
                put.queued_put.may_exist = true;
                self.report.resent += 1;
                self.note(server, ProducerEventKind::Resent { puts: 1 });
            }
            let other = self.choose(put.queued_put.key, now);
            if other != server {
                self.moved(server);
            }
            self.queue(other, put);
        }
        self.wake_waiting();
    }

    /// Names the server in an error.
    pub(super) fn of_server(&self, server: usize, error: Error) -> Error {
        match self.addresses.get(server) {
            Some(address) => error.with_server(address),
            None => error,
        }
    }

    /// The driver of a lane is gone early: its runtime has ended, or it panicked.
    pub(super) fn orphaned(&mut self, server: usize) {
        let why = "the producer's driver is gone: its runtime has ended";
        let error = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why);
        let Some(lane) = self.lanes.get_mut(server) else { return };
        for taken in lane.log.take_all() {
            let reported = error.share().with_fate(taken.fate).with_command("put");
            let reported = self.of_server(server, reported);
            self.settle(taken.queued_put, Err(reported));
        }
        self.note(server, ProducerEventKind::Disconnected(error));
        self.end(server);
        if self.lanes.iter().all(|lane| lane.phase == LanePhase::Closed) {
            self.close();
        }
    }

    /// Adds a put taken from a log to the queue of a server.
    fn queue(&mut self, server: usize, taken: UnsentPut) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        lane.next_due = earliest([lane.next_due, taken.queued_put.deadline]);
        let follows = match taken.queued_put.owner.and_then(|owner| self.slots.get(owner.slot)) {
            // A caller that drives the lane of its own put has to follow the put.
            Some(PutSlot::Queued { lane, waker, .. }) => {
                let has_moved = std::mem::replace(lane, server) != server;
                waker.take_if(|_| has_moved)
            }
            Some(PutSlot::Abandoned { lane }) => {
                *lane = server;
                None
            }
            _ => None,
        };
        self.wakers.extend(follows);
        lane.log.push_again(taken);
        lane.wake_driver(&mut self.wakers);
    }

    /// Removes a finished put from the queue.
    pub(super) fn settle(&mut self, queued_put: QueuedPut, outcome: Result<Inserted>) {
        let outcome = outcome.map_err(|error| {
            if queued_put.may_exist { error.with_fate(Fate::Unknown) } else { error }
        });
        self.room.leave(queued_put.weight);
        if let Some(owner) = queued_put.owner {
            self.answer(owner, outcome);
        }
        self.grant();
    }

    /// Gives the outcome of a put to its owner.
    fn answer(&mut self, owner: PutCaller, outcome: Result<Inserted>) {
        let count = match &outcome {
            Ok(Inserted::Ready(_)) => &mut self.report.inserted,
            Ok(Inserted::Buried(_)) => &mut self.report.buried,
            Err(error) => match error.fate() {
                Fate::NotSent => &mut self.report.not_sent,
                Fate::Unknown => &mut self.report.unknown,
                Fate::Refused => &mut self.report.refused,
            },
        };
        *count += 1;
        if let (Err(error), Some(PutSlot::Abandoned { lane })) =
            (&outcome, self.slots.get(owner.slot))
        {
            let (server, error) = (*lane, error.share());
            self.note(server, ProducerEventKind::Failed { error, puts: 1 });
        }
        self.wakers.extend(self.slots.finish(owner.slot, outcome));
        if self.barrier.leave(owner.generation) {
            self.wakers.append(&mut self.watchers);
            if self.is_over() {
                self.wake_all();
            }
        }
    }

    /// Fails overdue puts: those in the lane, and those that wait for room in the queue.
    pub(super) fn expire(&mut self, server: usize, now: Instant) {
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_past(self.line_due) {
            self.expire_line(now);
        }
        let Some(lane) = self.lanes.get_mut(server).filter(|lane| is_past(lane.next_due)) else {
            return;
        };
        // The last byte of these is, or may be, written: the frame stays in the log, but is not resent.
        let begun: Vec<(PutCaller, Duration)> = lane
            .log
            .begun()
            .filter(|queued_put| queued_put.is_due(now))
            .filter_map(|queued_put| Some((queued_put.owner.take()?, queued_put.timeout)))
            .collect();
        let not_begun = lane.log.take_due(now);
        lane.next_due = lane.log.queued_puts().filter_map(QueuedPut::due_at).min();
        let cause = lane.last_error.clone();
        if !begun.is_empty() {
            self.left_waiting(server, now);
        }
        for (owner, time) in begun {
            let late = self.of_server(server, overdue(time, Fate::Unknown, cause.clone()));
            self.answer(owner, Err(late));
        }
        for taken in not_begun {
            let late = overdue(taken.queued_put.timeout, Fate::NotSent, cause.clone());
            self.settle(taken.queued_put, Err(late));
        }
    }

    /// This server has not answered callers in time. Later puts go to another one, if there is one.
    fn left_waiting(&mut self, server: usize, now: Instant) {
        let mut others = self.lanes.iter().enumerate().filter(|(other, _)| *other != server);
        let has_others = others.any(|(_, lane)| lane.is_usable(now, self.probes));
        if let Some(lane) = self.lanes.get_mut(server)
            && has_others
            && lane.phase == LanePhase::Ready
            && lane.health.quarantine(now).is_none()
        {
            lane.health.failed(now);
        }
    }

    fn expire_line(&mut self, now: Instant) {
        self.line_due = None;
        let mut line = std::mem::take(&mut self.line);
        line.retain(|slot| {
            let (deadline, time) = match self.slots.get(*slot) {
                Some(PutSlot::InLine { deadline, timeout, .. }) => (*deadline, *timeout),
                _ => return false,
            };
            if deadline.is_some_and(|at| at <= now) {
                let error =
                    overdue(time, Fate::NotSent, None).with_detail("the producer's queue was full");
                self.wakers.extend(self.slots.finish(*slot, Err(error)));
                return false;
            }
            self.line_due = earliest([self.line_due, deadline]);
            true
        });
        self.line = line;
        self.grant();
    }

    /// The driver of a lane is done.
    pub(super) fn end(&mut self, server: usize) {
        if let Some(lane) = self.lanes.get_mut(server) {
            lane.phase = LanePhase::Closed;
            lane.is_driven = false;
            // The rest was already answered.
            lane.log.take_all();
        }
        self.wake_waiting();
    }
}

fn check_used(response: Response, tube: &TubeName) -> Result<()> {
    match response {
        Response::Using(used) if used == tube.as_str() => Ok(()),
        // The puts after it went to the previous tube.
        other => Err(Error::protocol("the server did not select the tube of the put")
            .with_cause(other.refuse())
            .with_command("use")),
    }
}

/// The error of a put that was not done in this time.
fn overdue(time: Duration, fate: Fate, cause: Option<Error>) -> Error {
    let late = queue_core::Error::timed_out_after(Deadline::Total, time);
    Error::from(late).with_fate(fate).with_command("put").after(cause)
}
