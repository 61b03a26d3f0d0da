//! The life of a slot's connection, and of the one that follows it: preparation, loss, reconnecting, and the end.

use std::{
    collections::VecDeque,
    io, mem,
    time::{Duration, Instant},
};

use queue_core::{
    Awaits, Cause, ConnectionError, Expects, Health, Io, Life, Loss, Need, Protocol, Pulse,
    earliest,
};

use super::{Action, Ending, ExpectedReply, HeldPhase, WorkerSlot};
use crate::{
    Error, ErrorKind, Fate, JobFate, LostReason, SlotState, TubeName, WorkerEventKind,
    protocol::{Ignore, Session, Stats, Watch, session},
    trace,
};

/// State of the current connection, or of the last one.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// When it was made.
    pub(super) since: Option<Instant>,
    /// Whether the server has answered on it.
    pub(super) is_welcome: bool,
    /// Whether the server has carried out an essential request on it.
    pub(super) has_succeeded: bool,
}

/// How long to wait for an answer on a half-closed connection.
const GOODBYE: Duration = Duration::from_secs(2);

/// How often to check a connection on which nothing is expected while a handler runs.
const LOOK: Duration = Duration::from_secs(1);

impl Protocol for WorkerSlot {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    /// Starts over on a new connection.
    fn connected(&mut self, _: &mut Io<Error>, now: Instant) {
        let mut metrics = self.take_metrics();
        metrics.connections += 1;
        metrics.reconnects += u64::from(self.connection.since.is_some());
        self.session = Session::new(self.settings.max_body);
        *self.session.metrics_mut() = metrics;
        self.connection = Connection { since: Some(now), ..Connection::default() };
        self.expected = VecDeque::new();
        self.window = 1;
        self.is_dry = false;
        self.deadline_soon = super::DeadlineSoonPause::default();
        self.keepalive.end();
        self.has_warned = false;
        self.suspicion.opened();
        self.ending = Ending::No;
        self.prepare(now);
    }

    fn receive(&mut self, io: &mut Io<Error>, now: Instant) -> Result<(), Error> {
        self.read_replies(io, now)
    }

    fn ended(&mut self, why: io::Error, _: &mut Io<Error>, _: Instant) -> Result<(), Error> {
        Err(match why.kind() {
            io::ErrorKind::UnexpectedEof => session::ended(),
            _ => Error::lost(why),
        })
    }

    fn lost(&mut self, loss: Loss<Error>, _: &mut Io<Error>, now: Instant) {
        if loss.cause == Cause::NotConnected {
            return self.notify(WorkerEventKind::Disconnected(loss.error));
        }
        if loss.cause == Cause::Unusable && loss.error.kind() != ErrorKind::ConnectionLost {
            // It would come again at once on the next connection.
            self.refusals.refused(now);
        }
        let error = match loss.cause {
            Cause::Late => loss.error.with_fate(Fate::Unknown),
            _ => loss.error,
        };
        self.lose_jobs(&error);
        self.forget_commands();
        if let Ending::HalfClosed(_) = self.ending {
            // After a half-close, the server chooses how the connection ends.
            self.ending = Ending::Done;
            return;
        }
        self.notify(WorkerEventKind::Disconnected(error));
        self.actions.push_back(Action::HandBack);
    }

    /// Does everything that is due.
    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        if self.due.is_some_and(|due| due <= now) {
            self.tend(now);
        }
        if self.life.is_open()
            && let Err(error) = self.act(now)
        {
            self.life.close_with(error);
        }
        if !self.life.is_connected() {
            return self.without_connection(now);
        }
        self.state = match self.held.len() {
            0 => SlotState::Waiting,
            held => SlotState::Busy(held),
        };
        let until = earliest([self.due, self.keepalive.next(), self.stop]);
        let until = match self.ending {
            Ending::No => {
                earliest([until, self.deadline_soon.until(), self.refusals.until(), self.shares])
            }
            Ending::HalfClosed(since) => earliest([until, since.checked_add(GOODBYE)]),
            Ending::Stopping | Ending::Done => until,
        };
        if !self.expected.is_empty() || matches!(self.ending, Ending::HalfClosed(_)) {
            return Need::Use(until);
        }
        let looked = io.looked_at().max(self.connection.since);
        match looked.and_then(|looked| looked.checked_add(LOOK)) {
            Some(look) if look <= now => Need::Peek,
            look => Need::Use(earliest([until, look])),
        }
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        let pulse = self.life.dial(self.settings.server, now);
        if let Pulse::Dial { .. } = pulse {
            self.state = SlotState::Connecting;
        }
        pulse
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        self.session.queue_in(io);
        let oldest = self.expected.front().filter(|_| self.session.oldest_is_sent());
        Awaits {
            answer: oldest.map(|expected| expected.wait),
            until: None,
            expects: match self.ending {
                Ending::HalfClosed(_) => Expects::End,
                _ if self.expected.is_empty() => Expects::Nothing,
                _ => Expects::Data,
            },
        }
    }

    /// A server that accepts, answers and then closes must not be hammered.
    fn is_good(&mut self, now: Instant) -> bool {
        let Connection { since, is_welcome, has_succeeded } = self.connection;
        let has_lasted = since.is_some_and(|since| Health::has_lasted(since, now));
        is_welcome && (has_lasted || has_succeeded)
    }
}

impl WorkerSlot {
    /// Asks for the server's id and sets the watch list, which contains `default` from the start.
    fn prepare(&mut self, now: Instant) {
        let default = TubeName::default();
        let tubes = self.settings.tubes.clone();
        let watches_default = tubes.contains(&default);
        self.queue(&Stats, ExpectedReply::Server, now);
        for tube in tubes.into_iter().filter(|tube| *tube != default) {
            self.queue(&Watch(tube), ExpectedReply::WatchList, now);
        }
        if !watches_default {
            self.queue(&Ignore(default), ExpectedReply::WatchList, now);
        }
    }

    /// The next commands on the current connection.
    fn act(&mut self, now: Instant) -> Result<(), Error> {
        self.heed_stop(now);
        self.speak(now);
        match self.ending {
            Ending::No => self.ask(now),
            Ending::Stopping => self.wind_down(now),
            Ending::HalfClosed(since) if now.saturating_duration_since(since) >= GOODBYE => {
                self.close();
                Ok(())
            }
            Ending::HalfClosed(_) | Ending::Done => Ok(()),
        }
    }

    /// Gives up the jobs that the lost connection held.
    fn lose_jobs(&mut self, error: &Error) {
        let sent = self.sent_lasts();
        for observation in
            self.expected.iter_mut().filter_map(|expected| expected.observation.take())
        {
            let observation = trace::broken_off(*observation, error);
            self.later.notify(observation);
        }
        self.session.close();
        for key in self.held.keys() {
            let Some(held) = self.find(key) else { continue };
            if held.phase() != HeldPhase::Finishing {
                self.lose(key, LostReason::ConnectionLost);
                continue;
            }
            let id = held.job.id();
            self.held.remove(key);
            let fate = match sent.contains(&key) {
                true => JobFate::Unknown,
                false => JobFate::Lost(LostReason::ConnectionLost),
            };
            self.settle(id, fate);
        }
    }

    /// Ends the last connection.
    pub(super) fn close(&mut self) {
        self.forget_commands();
        self.life.close();
        self.ending = Ending::Done;
    }

    fn forget_commands(&mut self) {
        for _ in 0..mem::take(&mut self.reserves) {
            self.claimed.give_back();
        }
        self.expected.clear();
    }

    /// The slot's needs without a connection.
    fn without_connection(&mut self, now: Instant) -> Need {
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
            return Need::Close(self.due);
        }
        if self.refusals.holds(now) {
            return Need::Close(earliest([self.refusals.until(), self.due]));
        }
        if self.settings.until_empty.is_some_and(|retry| self.life.has_failed_for(&retry)) {
            // The worker runs until its tubes are empty, and this server is left out.
            self.notify(WorkerEventKind::GivenUp);
            self.ending = Ending::Done;
            return self.leave(now);
        }
        Need::Use(self.due)
    }

    /// Waits for the handlers of lost jobs, after a stop within its grace. There will be no other connection.
    fn leave(&mut self, now: Instant) -> Need {
        if self.stop.is_none_or(|end| end > now) && self.held.lost() > 0 {
            self.state = SlotState::BackingOff;
            return Need::Close(self.stop);
        }
        self.state = SlotState::Ended;
        Need::Over
    }
}
