//! Decisions about a worker's connections to one server.

mod asking;
mod holding;

use std::{
    collections::BTreeMap,
    mem,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use queue_core::{
    Claimed, ConnectionState, Deferrals, Epoch, Io, JobLimit, Later, Limit, Observation, Operation,
    Pulse, RetryPolicy, Role, after,
};

use self::asking::SHARED;
use super::{
    held::{HeldEntry, HeldKey},
    line::{CountReason, ServedQueue},
};
use crate::{
    ConnectOptions, Delivery, Error, ErrorKind, JobFate, LostReason, MessageId, Metrics, QueueName,
    Refusal, Result, WorkerEventKind,
    protocol::client::{Ask, AskAnswer, Link},
    trace,
};

/// The worker role for one server: what to pull and when, which message to give to a handler, how to settle it, and how
/// to end.
///
/// It is the only caller of a [`Link`], which has the connection. It adds:
///
/// * A pull waits for each free handler and each free prefetch place, and at least one on each queue while there is
///   any. A pull cannot be cancelled, and it is unknown which queue gets the next message: each of several queues may
///   therefore bring one message more than there is room for.
/// * A message is settled on the connection that delivered it, or not at all.
/// * A returned message wakes no waiting pull, and a deleted queue never answers one. So queues with waiting pulls are
///   checked periodically, and another pull makes the server deliver messages that are ready there. If no pull may be
///   added under a limit, the connection is replaced once it holds nothing.
/// * With `until_empty`, it counts each queue before it pulls, and ends when all are empty while it holds nothing. It
///   counts on its own connection, where the answer follows every message that was given to an earlier pull. So it
///   never overlooks a message on its way. It also ends when the server cannot be reached.
/// * A stopping lane requests nothing more, waits for running handlers and for the answers to settlements, and closes the
///   connection, which is the only way to cancel its pulls: a message that arrives meanwhile returns to its place. The
///   handlers of lost messages need no connection; it waits for them behind that.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(super) link: Link,
    pub(super) terms: LaneSettings,
    pub(super) claimed: Claimed,
    lines: Vec<ServedQueue>,
    pub(super) hold: HeldEntry,
    pub(super) deferrals: Deferrals<(QueueName, MessageId)>,
    phase: LanePhase,
    /// How long to try to reach the server when the lane runs until its queues are empty.
    patience: RetryPolicy,
    /// The connection, until its loss is noticed.
    connection: Option<Epoch>,
    /// Some pull is useless: reconnect once this connection holds nothing.
    wants_renewal: bool,
    /// Whether something was held, so that what is known about empty queues is outdated once nothing is.
    was_holding: bool,
    /// Whether the link has something new to send.
    is_changed: bool,
    pub(super) jobs: Vec<HandlerMessage>,
    news: Vec<LaneEvent>,
    /// Observed pulls and settlements in progress, by their tasks.
    observations: Vec<(u64, Operation)>,
    /// News for their observers.
    later: Later,
}

/// How long the answer to a settlement may take after the grace of a stop.
const ANSWERING: Duration = Duration::from_secs(1);

/// Longest pause between two counts of an empty queue, where pulls that wait would keep a limit from others.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The settings of a lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub(crate) slots: usize,
    /// Maximum numbers of concurrent handlers for single queues.
    pub(crate) slots_for: BTreeMap<QueueName, usize>,
    pub(crate) prefetch: usize,
    pub(crate) max_duplications: u16,
    pub(crate) dead_letter: Option<QueueName>,
    pub(crate) grace: Duration,
    pub(crate) recheck: Duration,
    pub(crate) limit: Option<JobLimit>,
    pub(crate) until_empty: bool,
    /// Whether there are other lanes.
    pub(crate) is_one_of_many: bool,
}

impl LaneSettings {
    /// Maximum number of messages held for handlers.
    pub(super) fn capacity(&self) -> usize {
        self.slots.saturating_add(self.prefetch)
    }

    /// Maximum number of messages of this queue held for handlers.
    fn capacity_for(&self, queue: &QueueName) -> usize {
        let slots = self.slots_for.get(queue).copied().unwrap_or(usize::MAX);
        self.capacity().min(slots)
    }
}

/// A message for a handler.
#[derive(Debug)]
pub(crate) struct HandlerMessage {
    pub(crate) key: HeldKey,
    pub(crate) delivery: Delivery,
    /// How often it was delivered, without its deferrals.
    pub(crate) attempts: u16,
}

/// An event for the worker.
#[derive(Debug)]
pub(crate) enum LaneEvent {
    Tell(WorkerEventKind),
    /// The message is lost, and its handler is still running.
    Lost(HeldKey, LostReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LanePhase {
    Working,
    /// Handlers may run until then, or as long as they need.
    Stopping(Option<Instant>),
    /// The server was notified. The handlers of lost messages may run until then, or as long as they need.
    Leaving(Option<Instant>),
    Over,
}

impl Lane {
    /// A lane for these queues.
    pub(crate) fn new(
        options: ConnectOptions,
        terms: LaneSettings,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Self {
        // Waiting tasks wait as long as the worker runs.
        let patience = options.retry;
        let retry = patience.up_to(u32::MAX);
        let lines = queues.into_iter().map(|queue| ServedQueue::new(queue, retry)).collect();
        Lane {
            link: Link::new(options.retry(retry)).patient(),
            claimed: Claimed::new(terms.limit.clone()),
            terms,
            lines,
            hold: HeldEntry::default(),
            deferrals: Deferrals::default(),
            phase: LanePhase::Working,
            patience,
            connection: None,
            wants_renewal: false,
            was_holding: false,
            is_changed: false,
            jobs: Vec::new(),
            news: Vec::new(),
            observations: Vec::new(),
            later: Later::default(),
        }
    }

    /// Wakes the waker when no further message may be taken.
    pub(crate) fn wake_when_enough(&mut self, waker: &Waker) {
        self.claimed.wake_when_reached(waker);
    }

    /// Pulls nothing more, and ends when running handlers have ended.
    pub(crate) fn wind_down(&mut self) {
        if self.phase == LanePhase::Working {
            self.phase = LanePhase::Stopping(None);
            self.take_back_untaken();
        }
    }

    /// The same, or when the grace has passed.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.wind_down();
        if let LanePhase::Stopping(until) | LanePhase::Leaving(until) = &mut self.phase {
            until.get_or_insert_with(|| after(now, self.terms.grace));
        }
    }

    /// The same without grace.
    pub(crate) fn stop_now(&mut self, now: Instant) {
        self.wind_down();
        if let LanePhase::Stopping(until) | LanePhase::Leaving(until) = &mut self.phase {
            *until = Some(now);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == LanePhase::Over
    }

    /// Messages for handlers, and events, since the last call.
    pub(crate) fn take(&mut self) -> Option<(Vec<HandlerMessage>, Vec<LaneEvent>)> {
        self.has_news().then(|| (mem::take(&mut self.jobs), mem::take(&mut self.news)))
    }

    pub(crate) fn has_news(&self) -> bool {
        !(self.jobs.is_empty() && self.news.is_empty())
    }

    /// Whether there is an upgraded connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_open()
    }

    /// Number of held messages.
    pub(crate) fn held(&self) -> usize {
        self.hold.messages.len()
    }

    /// Number of handlers that run, even for lost messages.
    pub(crate) fn running(&self) -> usize {
        self.hold.running.len()
    }

    /// Number of pulls in flight.
    pub(super) fn pulls(&self) -> usize {
        self.lines.iter().map(|line| line.pulls.len()).sum()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.link.metrics
    }

    pub(crate) fn connection_state(&self, now: Instant) -> ConnectionState {
        match self.phase {
            LanePhase::Over => ConnectionState::Closed,
            _ => self.link.connection_state(now),
        }
    }

    pub(super) fn notify(&mut self, what: WorkerEventKind) {
        self.news.push(LaneEvent::Tell(what));
    }

    pub(super) fn line<T>(
        &mut self,
        queue: &QueueName,
        step: impl FnOnce(&mut ServedQueue) -> T,
    ) -> Option<T> {
        self.lines.iter_mut().find(|line| line.queue == *queue).map(step)
    }

    /// Makes a request to the server without a limit, about this message if it concerns one.
    pub(super) fn begin(
        &mut self,
        ask: Ask,
        message: Option<MessageId>,
        now: Instant,
    ) -> Result<u64> {
        self.is_changed = true;
        let operation = trace::worker_asks(&self.link.options, &ask, message);
        let begun = self.link.begin(ask, Limit::never(), now);
        if operation.is_reported() {
            match &begun {
                Ok(task) => self.observations.push((*task, operation)),
                Err(_) => self.later.notify(Observation::new(operation, trace::failure(&begun))),
            }
        }
        begun
    }

    /// Its outcome.
    pub(super) fn poll(&mut self, task: u64) -> Poll<Result<AskAnswer>> {
        let polled = self.link.poll(task, Waker::noop());
        if let Poll::Ready(outcome) = &polled
            && let Some(operation) = self.take_observation(task)
        {
            let observation = trace::worker_answered(operation, outcome);
            self.later.notify(observation);
        }
        polled
    }

    /// Abandons a request.
    pub(super) fn leave(&mut self, task: u64) {
        self.is_changed = true;
        self.link.leave(task);
        if let Some(operation) = self.take_observation(task) {
            // Subscribers hear of the end of its span.
            self.later.push(|| drop(operation));
        }
    }

    fn take_observation(&mut self, task: u64) -> Option<Operation> {
        let place = self.observations.iter().position(|(observed, _)| *observed == task)?;
        Some(self.observations.swap_remove(place).1)
    }

    /// Handles everything that has arrived.
    fn step(&mut self, now: Instant) {
        self.take_ends(now);
        self.take_pulled(now);
        self.take_counted(now);
        self.follow_connection(now);
        self.start_waiting();
        self.end(now);
        if self.phase == LanePhase::Working {
            self.renew();
            self.ask(now);
        }
    }

    fn take_pulled(&mut self, now: Instant) {
        for index in 0..self.lines.len() {
            let oldest = |lane: &Self| lane.lines.get(index)?.pulls.front().copied();
            while let Some(task) = oldest(self)
                && let Poll::Ready(outcome) = self.poll(task)
            {
                if let Some(line) = self.lines.get_mut(index) {
                    line.pulls.pop_front();
                }
                self.pulled(index, outcome, now);
            }
        }
    }

    fn pulled(&mut self, index: usize, outcome: Result<AskAnswer>, now: Instant) {
        match outcome.and_then(AskAnswer::message) {
            // A message that arrives too late goes back with the connection.
            Ok(delivery) if self.phase == LanePhase::Working && self.is_here(&delivery) => {
                self.hold(delivery, now);
            }
            Ok(_) => {
                self.claimed.give_back();
            }
            Err(error) => {
                self.claimed.give_back();
                self.refused(index, error, now);
            }
        }
    }

    fn is_here(&self, delivery: &Delivery) -> bool {
        self.link.is_open() && delivery.epoch() == self.link.epoch
    }

    /// A queue cannot be pulled from for now.
    fn refused(&mut self, index: usize, error: Error, now: Instant) {
        let Some(line) = self.lines.get_mut(index) else { return };
        // A missing queue has no messages.
        line.is_dry = *error.kind() == ErrorKind::Refused(Refusal::QueueNotFound);
        // All pulls of the queue are refused together.
        if line.resting(now).is_some() {
            return;
        }
        let (queue, pause) = (line.queue.clone(), line.back_off(now));
        if matches!(error.kind(), ErrorKind::Refused(_) | ErrorKind::InvalidInput) {
            self.notify(WorkerEventKind::Refused { queue, error, pause });
        }
    }

    fn take_counted(&mut self, now: Instant) {
        for index in 0..self.lines.len() {
            if let Some(line) = self.lines.get_mut(index)
                && let Some((task, look, known)) = line.look
                && let Poll::Ready(outcome) = self.link.poll(task, Waker::noop())
            {
                line.look = None;
                let last = line.pulls.back().copied();
                line.is_settled |= last.is_none() || last == known.last_pull;
                let count = outcome.and_then(AskAnswer::counted);
                self.counted(index, look, known.is_settled, count, now);
            }
        }
    }

    fn counted(
        &mut self,
        index: usize,
        look: CountReason,
        is_sure: bool,
        count: Result<u32>,
        now: Instant,
    ) {
        let Some(line) = self.lines.get_mut(index) else { return };
        let room = asking::room(&self.terms, &self.hold, &line.queue);
        let most = self.terms.capacity_for(&line.queue);
        if look != CountReason::Last {
            line.look_in(self.terms.recheck, now);
        }
        line.is_dry = matches!(count, Ok(0));
        match (look, count) {
            (CountReason::First, Ok(0)) => line.rest_dry(LOOK_EVERY, now),
            (CountReason::First, Ok(count)) => {
                if self.terms.until_empty {
                    line.known = count - 1;
                }
                self.pull(index, now);
            }
            (CountReason::First, Err(error)) => self.refused(index, error, now),
            (_, Ok(0)) => {}
            // Once a handler of the queue has ended.
            (_, Ok(_)) if room == 0 => line.was_returned(),
            // The pulls that waited are answered: if there is room, others follow.
            (_, Ok(_)) if line.pulls.is_empty() => {}
            (look, Ok(_)) if !is_sure => line.doubt = Some(look),
            // Another pull takes a ready message that woke no pull.
            (CountReason::Last, Ok(_)) if line.pulls.len() <= most => self.pull(index, now),
            (CountReason::Last, Ok(_)) => line.rest_for(SHARED, now),
            (_, Ok(count)) => {
                let waiting = line.pulls.len();
                line.has_returned |= count > 1 && waiting <= most;
                if waiting <= most {
                    self.pull(index, now);
                }
                let has_pulled =
                    self.lines.get(index).is_some_and(|line| line.pulls.len() > waiting);
                // A pull that the message did not wake may hold the last claim.
                self.wants_renewal |= self.claimed.is_limited() && !has_pulled;
            }
            (_, Err(error)) => {
                // The link sends pulls on a missing queue again, which are refused.
                line.is_dry = *error.kind() == ErrorKind::Refused(Refusal::QueueNotFound);
                if !line.is_dry {
                    line.back_off(now);
                }
            }
        }
    }

    /// Notices the loss of the connection, or a new one.
    fn follow_connection(&mut self, now: Instant) {
        if let Some(error) = self.link.failure.take()
            && self.phase == LanePhase::Working
        {
            self.link.metrics.failed(error.kind().counted());
            self.notify(WorkerEventKind::Disconnected(error));
        }
        let present = self.link.epoch.filter(|_| self.link.is_open());
        if present == self.connection {
            return;
        }
        if self.connection.is_some() {
            self.lose(now);
        }
        self.connection = present;
        if present.is_some() {
            // Waiting pulls continue over the new connection.
            self.lines.iter_mut().for_each(|line| line.look_in(self.terms.recheck, now));
            self.notify(WorkerEventKind::Connected);
        }
    }

    fn lose(&mut self, now: Instant) {
        self.take_back_untaken();
        self.lose_held(now);
        self.wants_renewal = false;
        let mut left = Vec::new();
        for line in &mut self.lines {
            left.extend(line.forget());
            if self.claimed.is_limited() {
                // While this lane has no connection, other lanes may use its share of the limit.
                for task in line.pulls.drain(..) {
                    self.claimed.give_back();
                    left.push(task);
                }
            }
        }
        left.into_iter().for_each(|task| self.leave(task));
    }

    /// Ends the connection when some of its pulls are useless and it holds nothing.
    fn renew(&mut self) {
        if self.wants_renewal && self.hold.messages.is_empty() && self.link.is_open() {
            self.is_changed = true;
            self.link.disconnect();
        }
    }

    /// Ends the lane when it is time.
    fn end(&mut self, now: Instant) {
        if self.claimed.is_reached() || self.is_empty() {
            self.wind_down();
        }
        if self.phase == LanePhase::Working && self.gives_up() {
            self.notify(WorkerEventKind::GivenUp);
            self.stop(now);
        }
        let LanePhase::Stopping(until) = self.phase else { return };
        if let Some(until) = until {
            if until <= now {
                self.lose_running(LostReason::Stopped);
            }
            self.limit_settlements(after(until, ANSWERING));
        }
        if self.has_running() || !self.hold.asked.is_empty() {
            return;
        }
        self.drop_waiting(JobFate::Abandoned);
        for line in &mut self.lines {
            line.pulls.drain(..).for_each(|_| {
                self.claimed.give_back();
            });
        }
        self.phase = LanePhase::Leaving(until);
        self.is_changed = true;
        self.link.close();
    }

    /// Whether it runs until its queues are empty, and they are.
    fn is_empty(&mut self) -> bool {
        if !self.terms.until_empty {
            return false;
        }
        if !self.hold.messages.is_empty() {
            self.was_holding = true;
            return false;
        }
        if mem::take(&mut self.was_holding) {
            // A message may have been returned.
            self.lines.iter_mut().for_each(ServedQueue::wet);
        }
        // Without a queue, nothing needs a connection.
        self.lines.is_empty() || self.link.is_open() && self.lines.iter().all(|line| line.is_dry)
    }

    /// Whether to leave the server out: it cannot be reached, and the worker runs until its queues are empty.
    fn gives_up(&self) -> bool {
        self.terms.until_empty
            && self.hold.messages.is_empty()
            && self.link.life.has_failed_for(&self.patience)
    }

    /// When something is due without received data.
    fn next_moment(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            LanePhase::Working if self.has_room() => {
                let may_ask = |line: &&ServedQueue| {
                    line.look.is_none() && asking::room(&self.terms, &self.hold, &line.queue) > 0
                };
                let moments = self.lines.iter().filter(may_ask).map(|line| {
                    let look_at = line.look_at.filter(|_| asking::may_count(&self.link, line));
                    line.resting(now).or(look_at)
                });
                moments.flatten().min()
            }
            LanePhase::Stopping(until) if self.has_running() => until,
            _ => None,
        }
    }
}

impl Role for Lane {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let mut pulse = self.link.exchange(io, now);
        loop {
            self.step(now);
            if !mem::take(&mut self.is_changed) {
                break;
            }
            pulse = self.link.exchange(io, now);
        }
        self.claimed.append_woken_to(&mut io.wake);
        self.later.append_to(&mut io.later);
        if pulse == Pulse::Over {
            if let LanePhase::Leaving(until) = self.phase
                && until.is_none_or(|until| until > now)
                && self.running() > 0
            {
                return Pulse::Close(until);
            }
            self.phase = LanePhase::Over;
        }
        let pulse = match pulse {
            // The end of the connection matters to handlers.
            Pulse::Rest(until) if self.has_running() => Pulse::Go(until),
            pulse => pulse,
        };
        pulse.by(self.next_moment(now))
    }
}
