//! The producer as a state machine without I/O: which puts are queued for which server, who waits for what, and what
//! happens to a put whose server fails.
//!
//! Callers [`offer`](Outbox::offer) puts, and get a slot that will hold the answer. Each server has a lane, which is a
//! role ([`exchange`](Outbox::exchange)): a pump moves its bytes. Time comes in as `now`; wakers are returned, to be
//! woken outside of any lock.

mod capacity;
mod check;
mod deliver;
mod exchange;
mod flushes;
mod lane;
mod lead;
mod line;
mod log;
mod queued_put;
mod slots;
mod tasks;
#[cfg(test)]
mod tests;

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

pub(crate) use queue_core::stable_hash;
use queue_core::{Chooser, earliest};

pub(crate) use self::lead::{Leadership, UnwaitedPuts};
pub(crate) use self::slots::SlotId;
use self::{
    capacity::Capacity,
    flushes::Flushes,
    lane::{Lane, LanePhase},
    queued_put::{PutCaller, QueuedPut},
    slots::{PutSlot, PutSlots},
};
use crate::{
    ConnectionState, Delivery, Error, ErrorKind, Fate, Inserted, ProducerEventKind,
    ProducerOptions, ProducerReport, Result, ServerReport, TubeName,
    protocol::{Command, Put},
};

/// The state shared by the handles and drivers of one producer.
#[derive(Debug)]
pub(crate) struct Outbox {
    lanes: Vec<Lane>,
    addresses: Vec<String>,
    chooser: Chooser,
    slots: PutSlots,
    /// The callers that wait for room, in order.
    line: VecDeque<SlotId>,
    /// No put in the line is due before this.
    line_due: Option<Instant>,
    room: Capacity,
    barrier: Flushes,
    /// Callers that wait for a flush, for the close, or for a connection.
    watchers: Vec<Waker>,
    /// Callers that wait for any answer of a server.
    checkers: Vec<Waker>,
    report: ProducerReport,
    /// Whether further puts are refused.
    is_closing: bool,
    /// Whether drivers reconnect to a failed server even if nothing is queued for it.
    probes: bool,
    /// Whether the waiting callers are the only ones to move bytes.
    is_driven_by_callers: bool,
    /// The last lane that a caller drove without its own put there.
    turn: usize,
    /// Whether a thread writes what no caller does.
    has_helper: bool,
    wakers: Vec<Waker>,
    /// Events by server that were not reported yet, if there is an observer. They are reported after each step.
    events: Option<Vec<(usize, ProducerEventKind)>>,
}

/// How a failed server is found to work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probes {
    /// Its driver reconnects after the delay, even if nothing is queued for it.
    InBackground,
    /// A put tries it after the delay.
    ByPuts,
}

/// How to treat one put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) delivery: Delivery,
    pub(crate) timeout: Duration,
    pub(crate) retries: bool,
    pub(crate) key: Option<u64>,
}

impl Policy {
    pub(crate) fn new(options: &ProducerOptions) -> Self {
        Policy {
            delivery: options.delivery,
            timeout: options.timeout,
            retries: options.retries,
            key: None,
        }
    }
}

impl Outbox {
    pub(crate) fn new(options: &ProducerOptions, probes: Probes) -> Self {
        let servers = options.servers.options();
        let addresses: Vec<String> =
            servers.iter().map(|server| server.address().to_string()).collect();
        let hashes = addresses.iter().map(|address| stable_hash(address.as_bytes())).collect();
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Outbox {
            lanes: servers.iter().map(Lane::new).collect(),
            addresses,
            chooser: Chooser::new(options.servers.selected(), hashes, seed),
            slots: PutSlots::default(),
            line: VecDeque::new(),
            line_due: None,
            room: Capacity::new(options.max_jobs, options.max_bytes),
            barrier: Flushes::new(),
            watchers: Vec::new(),
            checkers: Vec::new(),
            report: ProducerReport::default(),
            is_closing: false,
            probes: probes == Probes::InBackground && servers.len() > 1,
            is_driven_by_callers: probes == Probes::ByPuts,
            turn: servers.len().saturating_sub(1),
            has_helper: false,
            wakers: Vec::new(),
            events: options.observer.is_some().then(Vec::new),
        }
    }

    /// Notes an event at a server. Puts affected by the same kind of event in one step are counted together.
    fn note(&mut self, server: usize, what: ProducerEventKind) {
        let Some(events) = &mut self.events else { return };
        let mut own = events.iter_mut().filter(|(of, _)| *of == server);
        if !own.any(|(_, noted)| noted.takes_in(&what)) {
            events.push((server, what));
        }
    }

    /// Takes the events to report outside of the lock.
    pub(crate) fn take_events(&mut self) -> Vec<(usize, ProducerEventKind)> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a put to the queue; `None` when it is full.
    pub(crate) fn offer<B: AsRef<[u8]>>(
        &mut self,
        put: &Put<B>,
        tube: &TubeName,
        policy: &Policy,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<Option<SlotId>> {
        self.refuse_if_closing("put")?;
        if !self.line.is_empty() || !self.room.fits(weight(put)) {
            return Ok(None);
        }
        let slot = self.slots.open(PutSlot::Free);
        let added = self.add(slot, put, tube, policy, deadline, now);
        if added.is_err() {
            self.slots.close(slot);
        }
        added.map(|()| Some(slot))
    }

    fn add<B: AsRef<[u8]>>(
        &mut self,
        slot: SlotId,
        put: &Put<B>,
        tube: &TubeName,
        policy: &Policy,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<()> {
        let body = put.body().as_ref().len();
        let server = self.choose(policy.key, now);
        let Some(lane) = self.lanes.get_mut(server) else { return Err(closed("put")) };
        if lane.phase == LanePhase::Closed {
            return Err(closed("put"));
        }
        if let Some(max) = lane.is_too_big(body) {
            return Err(too_big(body, max));
        }
        let weight = weight(put);
        let queued_put = QueuedPut {
            owner: Some(PutCaller { slot, generation: self.barrier.enter() }),
            tube: tube.clone(),
            body,
            weight,
            deadline,
            timeout: policy.timeout,
            delivery: policy.delivery,
            retries: policy.retries,
            key: policy.key,
            may_exist: false,
        };
        self.room.enter(weight);
        self.report.accepted += 1;
        lane.next_due = earliest([lane.next_due, deadline]);
        lane.ask(now);
        lane.log.push(queued_put, |out| put.encode(out));
        lane.wake_driver(&mut self.wakers);
        self.slots.set(slot, PutSlot::Queued { lane: server, deadline, waker: None });
        Ok(())
    }

    /// The answer to a put; taking it frees the slot.
    pub(crate) fn poll_answer(&mut self, slot: SlotId, waker: &Waker) -> Poll<Result<Inserted>> {
        if let Some(PutSlot::Queued { waker: present, .. }) = self.slots.get(slot) {
            match present {
                Some(present) => present.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        Poll::Ready(self.take_outcome(slot))
    }

    fn take_outcome(&mut self, slot: SlotId) -> Result<Inserted> {
        match self.slots.close(slot) {
            PutSlot::Done(outcome) => outcome,
            _ => Err(closed("put")),
        }
    }

    /// The caller of a slot is gone. An accepted put continues.
    pub(crate) fn abandon(&mut self, slot: SlotId) {
        match self.slots.get(slot) {
            Some(state @ PutSlot::Queued { .. }) => {
                if let PutSlot::Queued { lane, .. } = *state {
                    *state = PutSlot::Abandoned { lane };
                }
            }
            Some(PutSlot::InLine { .. }) => {
                self.line.retain(|waiting| *waiting != slot);
                self.slots.close(slot);
                // The next caller in line may fit.
                self.grant();
            }
            Some(PutSlot::Granted { weight }) => {
                self.room.leave(*weight);
                self.slots.close(slot);
                self.grant();
            }
            _ => drop(self.slots.close(slot)),
        }
    }

    /// The server for a put. If none is usable, the put waits for the one that will be tried first.
    fn choose(&mut self, key: Option<u64>, now: Instant) -> usize {
        if self.lanes.len() == 1 {
            return 0;
        }
        self.choose_usable(key, now).or_else(|| self.soonest(|_| true)).unwrap_or(0)
    }

    fn choose_usable(&mut self, key: Option<u64>, now: Instant) -> Option<usize> {
        let (lanes, probes) = (&self.lanes, self.probes);
        self.chooser
            .choose(key, |server| lanes.get(server).is_some_and(|lane| lane.is_usable(now, probes)))
    }

    /// The first server to be tried of those that are wanted.
    fn soonest(&self, is_wanted: impl Fn(&Lane) -> bool) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| is_wanted(lane));
        lanes.min_by_key(|(_, lane)| lane.health.not_before()).map(|(server, _)| server)
    }

    /// A mark that [is passed](Self::poll_passed) when everything accepted before has its answer.
    pub(crate) fn mark(&mut self) -> u64 {
        self.barrier.raise()
    }

    pub(crate) fn poll_passed(&mut self, mark: u64, waker: &Waker) -> Poll<()> {
        if self.barrier.is_passed(mark) {
            return Poll::Ready(());
        }
        self.watch(waker);
        Poll::Pending
    }

    /// Asks every driver for a connection.
    pub(crate) fn want_connections(&mut self) {
        for lane in &mut self.lanes {
            lane.is_wanted = lane.phase != LanePhase::Ready;
            lane.wake_driver(&mut self.wakers);
        }
    }

    /// Waits until there is a connection, or an attempt has failed with every server.
    pub(crate) fn poll_connected(&mut self, waker: &Waker) -> Poll<Result<()>> {
        // It may already be lost again.
        if self.report.connections > 0 {
            return Poll::Ready(Ok(()));
        }
        if self.lanes.iter().all(|lane| lane.attempts > 0 || lane.phase == LanePhase::Closed) {
            return Poll::Ready(Err(self.why_not_connected("connect")));
        }
        self.watch(waker);
        Poll::Pending
    }

    fn why_not_connected(&self, command: &'static str) -> Error {
        let errors = self
            .lanes
            .iter()
            .enumerate()
            .filter_map(|(server, lane)| Some((server, lane.last_error.as_ref()?.share())))
            .map(|(server, error)| self.of_server(server, error))
            .collect();
        crate::servers::none_can_be_reached(errors, command).unwrap_or_else(|| closed(command))
    }

    /// Refuses further puts, including those that wait for room; accepted ones continue.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        for slot in std::mem::take(&mut self.line) {
            self.wakers.extend(self.slots.finish(slot, Err(closed("put"))));
        }
        self.wake_all();
    }

    /// Waits until everything has its answer and every driver has ended.
    pub(crate) fn poll_closed(&mut self, waker: &Waker) -> Poll<ProducerReport> {
        let has_ended = |lane: &Lane| lane.phase == LanePhase::Closed || !lane.is_driven;
        if self.is_over() && self.lanes.iter().all(has_ended) {
            return Poll::Ready(self.report());
        }
        self.watch(waker);
        Poll::Pending
    }

    /// Whether drivers have nothing left to wait for.
    fn is_over(&self) -> bool {
        self.is_closing && self.barrier.is_clear()
    }

    fn refuse_if_closing(&self, command: &'static str) -> Result<()> {
        if self.is_closing { Err(closed(command)) } else { Ok(()) }
    }

    fn watch(&mut self, waker: &Waker) {
        if !self.watchers.iter().any(|watcher| watcher.will_wake(waker)) {
            self.watchers.push(waker.clone());
        }
    }

    /// Wakes drivers and watchers after a change that concerns all of them.
    fn wake_all(&mut self) {
        for lane in &mut self.lanes {
            lane.wake_driver(&mut self.wakers);
        }
        self.wake_waiting();
    }

    /// Wakes those who wait for connections, answers or the end.
    fn wake_waiting(&mut self) {
        self.wakers.append(&mut self.watchers);
        self.wakers.append(&mut self.checkers);
    }

    /// As [`take_wakers`](Self::take_wakers), without an allocation: usually there is only one.
    pub(crate) fn take_few_wakers(&mut self) -> (Option<Waker>, Vec<Waker>) {
        (self.wakers.pop(), std::mem::take(&mut self.wakers))
    }

    /// The wakers to wake outside of the lock.
    pub(crate) fn take_wakers(&mut self, into: &mut Vec<Waker>) {
        into.append(&mut self.wakers);
    }

    pub(crate) fn report(&self) -> ProducerReport {
        let servers = self.addresses.iter().zip(&self.lanes);
        ProducerReport {
            queued_jobs: self.room.jobs,
            queued_bytes: self.room.bytes,
            servers: servers
                .map(|(address, lane)| ServerReport {
                    address: address.clone(),
                    state: state_of(lane),
                    last_error: lane.last_error.as_ref().map(Error::to_string),
                })
                .collect(),
            ..self.report.clone()
        }
    }

    /// The best state of any server.
    pub(crate) fn state(&self) -> ConnectionState {
        self.lanes.iter().map(state_of).max().unwrap_or(ConnectionState::Closed)
    }
}

fn state_of(lane: &Lane) -> ConnectionState {
    match lane.phase {
        LanePhase::Idle => ConnectionState::Idle,
        LanePhase::Connecting | LanePhase::Greeting => ConnectionState::Connecting,
        LanePhase::Ready => ConnectionState::Ready,
        LanePhase::Backoff => ConnectionState::Backoff,
        LanePhase::Closed => ConnectionState::Closed,
    }
}

/// A put's share of the queue's room: its body and the longest possible command line.
fn weight<B: AsRef<[u8]>>(put: &Put<B>) -> usize {
    put.body().as_ref().len().saturating_add(64)
}

fn closed(command: &'static str) -> Error {
    Error::new(ErrorKind::Closed, Fate::NotSent, "the producer is closed").with_command(command)
}

/// The error of a put that finds the queue full.
pub(crate) fn full() -> Error {
    let message = "the producer's queue is full (wait with put, or raise max_jobs or max_bytes)";
    Error::new(ErrorKind::QueueFull, Fate::NotSent, message).with_command("put")
}

fn too_big(body: usize, max: u64) -> Error {
    let message = format!(
        "body of {body} bytes is larger than the server's max-job-size of {max} (start the server with a larger -z)"
    );
    Error::new(ErrorKind::JobTooBig, Fate::NotSent, message).with_command("put")
}
