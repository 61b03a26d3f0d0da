//! The transition from one connection to the next.

use std::{collections::VecDeque, io, mem, time::Instant};

use queue_core::{End, Health, Io, Pulse, earliest};

use super::{Action, Ending, What, WorkerSlot};
use crate::{
    Deadline, Error, ErrorKind, Fate, SlotState, TubeName, WorkerEventKind,
    protocol::{Ignore, Session, Stats, Watch},
};

/// State of the current connection, or of the last one.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) is_open: bool,
    /// When it was made.
    pub(super) since: Option<Instant>,
    /// Whether the server has answered on it.
    pub(super) is_welcome: bool,
    /// Whether the server has carried out an essential request on it.
    pub(super) has_succeeded: bool,
}

impl Connection {
    /// Whether it was a good one. A server that accepts, answers and then closes must not be hammered.
    fn was_good(&self, now: Instant) -> bool {
        let has_lasted = self.since.is_some_and(|since| Health::has_lasted(since, now));
        self.is_welcome && (has_lasted || self.has_succeeded)
    }
}

impl WorkerSlot {
    /// Starts over on a new connection.
    pub(super) fn opened(&mut self, now: Instant) {
        let mut metrics = self.take_metrics();
        metrics.connections += 1;
        metrics.reconnects += u64::from(self.connection.since.is_some());
        self.session = Session::new(self.settings.max_body);
        *self.session.metrics_mut() = metrics;
        self.connection = Connection { is_open: true, since: Some(now), ..Connection::default() };
        self.pace.reset();
        self.expected = VecDeque::new();
        self.window = 1;
        self.is_dry = false;
        self.storm = super::Storm::default();
        self.nudges.end();
        self.has_warned = false;
        self.suspicion.opened();
        self.ending = Ending::No;
        self.prepare(now);
    }

    /// Asks for the server's id and sets the watch list, which contains `default` from the start.
    fn prepare(&mut self, now: Instant) {
        let default = TubeName::default();
        let tubes = self.settings.tubes.clone();
        let watches_default = tubes.contains(&default);
        self.send(&Stats, What::Server, now);
        for tube in tubes.into_iter().filter(|tube| *tube != default) {
            self.send(&Watch(tube), What::WatchList, now);
        }
        if !watches_default {
            self.send(&Ignore(default), What::WatchList, now);
        }
    }

    /// Reads the received bytes, and then handles the end of the connection. Returns whether there was an answer.
    pub(super) fn hear(&mut self, io: &mut Io<Error>, now: Instant) -> bool {
        let mut answered = false;
        if self.connection.is_open
            && let Err(error) = self.read_replies(io, &mut answered, now)
        {
            self.fail_by(error, now);
        }
        match io.take_end() {
            Some(End::Lost(why)) if self.connection.is_open => {
                let kind = ErrorKind::ConnectionLost;
                let error = if why.kind() == io::ErrorKind::UnexpectedEof {
                    Error::new(kind, Fate::Unknown, "the server closed the connection")
                } else {
                    Error::new(kind, Fate::Unknown, "the connection was lost").with_source(why)
                };
                self.fail(error, now);
            }
            Some(End::NotConnected(error)) => {
                self.health.failed(now);
                self.tell(WorkerEventKind::Disconnected(error));
            }
            Some(_) | None => {}
        }
        answered
    }

    /// Handles the end of the last connection.
    pub(super) fn close(&mut self) {
        self.shut();
        self.ending = Ending::Done;
    }

    /// Handles an abnormal end of the connection.
    pub(super) fn lose_connection(&mut self, error: Error, now: Instant) {
        self.shut();
        if self.connection.was_good(now) {
            self.health.proven();
        }
        self.health.failed(now);
        self.tell(WorkerEventKind::Disconnected(error));
        self.actions.push_back(Action::HandBack);
    }

    fn shut(&mut self) {
        for _ in 0..mem::take(&mut self.reserves) {
            self.claimed.give_back();
        }
        self.expected.clear();
        self.connection.is_open = false;
    }

    /// The next step without a connection.
    pub(super) fn away(&mut self, now: Instant) -> Pulse {
        if self.claimed.is_reached() {
            // A connection would have no purpose.
            self.ending = Ending::Done;
        }
        if self.is_leaving() {
            return self.leave(now);
        }
        self.state = SlotState::BackingOff;
        if self.held.lost() > 0 {
            // The end of the handler is reported to the slot.
            return Pulse::Close(self.due);
        }
        if self.refusals.holds(now) {
            return Pulse::Close(earliest([self.refusals.until(), self.due]));
        }
        if self.health.is_overdue(now) {
            self.health.failed(now);
            let why = "no connection within the connect timeout";
            let kind = ErrorKind::Timeout(Deadline::Connect);
            self.tell(WorkerEventKind::Disconnected(Error::new(kind, Fate::NotSent, why)));
        }
        if self.gives_up() {
            self.tell(WorkerEventKind::GivenUp);
            self.ending = Ending::Done;
            return self.leave(now);
        }
        match self.health.dial(self.settings.server, now) {
            Pulse::Dial { server, by, .. } => {
                self.state = SlotState::Connecting;
                Pulse::Dial { server, by, ask: self.due }
            }
            other => Pulse::Close(earliest([other.until(), self.due])),
        }
    }

    /// Whether to leave the server out: it cannot be reached, and the worker runs until its tubes are empty.
    fn gives_up(&self) -> bool {
        self.settings.until_empty.is_some_and(|retry| self.health.has_failed_for(&retry))
    }

    /// Waits for the handlers of lost jobs, after a stop within its grace. There will be no other connection.
    fn leave(&mut self, now: Instant) -> Pulse {
        if self.stop.is_none_or(|end| end > now) && self.held.lost() > 0 {
            self.state = SlotState::BackingOff;
            return Pulse::Close(self.stop);
        }
        self.state = SlotState::Ended;
        Pulse::Over
    }
}
