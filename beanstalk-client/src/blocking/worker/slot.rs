//! One slot: a connection to one server, kept for as long as the worker works.
//!
//! Whoever holds the slot drives it: its own thread, or the one that stands in while that thread runs a handler.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{after, blocking::Transport};

use super::{
    context::JobContext,
    desk::{Ask, Desk},
};
use crate::{
    Address, Result, SlotState, WorkerEventKind, WorkerOptions,
    deadline::Limit,
    error::lost,
    protocol::{Action, JobKey, Quota, WorkerSession},
    worker_board::{Board, Lane, STOP, STOP_NOW},
};

pub(super) struct Slot<'a> {
    lane: Lane,
    options: &'a WorkerOptions,
    board: &'a Board,
    server: Arc<Address>,
    desk: Arc<Desk>,
    machine: WorkerSession,
    /// When running jobs are given up; set by a stop.
    grace: Option<Instant>,
    /// In a box, as each pass takes it out and puts it back.
    link: Option<Box<Link>>,
    /// The job that the slot's own thread is to run.
    next: Option<JobContext>,
    is_finished: bool,
}

/// A connection of a slot.
struct Link {
    transport: Transport,
    unflushed: bool,
    /// The sending side is to be ended.
    half_close: bool,
    /// When it was last looked at while nothing was to be read.
    looked: Instant,
}

/// How long nothing but the socket, or the desk, is waited for.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// The same while a handler runs and an answer is on its way.
const BUSY_SLICE: Duration = Duration::from_millis(20);

/// How long a write may be stuck before something is read: server and worker must not both wait for the other to read.
const STUCK: Duration = Duration::from_millis(10);

/// How often a connection is looked at while a handler runs and nothing is to be read.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> Slot<'a> {
    pub(super) fn new(
        lane: Lane,
        options: &'a WorkerOptions,
        board: &'a Board,
        quota: Quota,
        desk: Arc<Desk>,
    ) -> Self {
        let (server, number) = (lane.server, lane.slot as u64);
        Slot {
            lane,
            options,
            board,
            server: Arc::new(options.address(server).clone()),
            desk,
            machine: WorkerSession::unconnected(options, server, number, quota, Instant::now()),
            grace: None,
            link: None,
            next: None,
            is_finished: false,
        }
    }

    /// Works until there is a job for the calling thread to run; `None` when the worker is stopped, or all is done.
    pub(super) fn advance(&mut self) -> Option<JobContext> {
        loop {
            if let Some(job) = self.next.take() {
                return Some(job);
            }
            if self.link.is_none() && (self.is_stopping() || self.is_finished) {
                self.see_handlers_off();
                self.set_state(SlotState::Ended);
                return None;
            }
            self.step();
        }
    }

    /// Does what is to be done while the slot's own thread runs a handler, until it has ended.
    pub(super) fn stand_in(&mut self, job: JobKey) {
        while self.next.is_none() && self.desk.runs(job) && self.is_needed() {
            self.step();
        }
    }

    /// Whether a handler that runs can still be helped.
    fn is_needed(&self) -> bool {
        self.link.is_some() || (self.machine.has_doubts() && !self.is_stopping())
    }

    fn step(&mut self) {
        if self.link.is_some() {
            self.pass();
        } else {
            self.set_state(SlotState::Connecting);
            match self.open() {
                Ok(link) => self.link = Some(Box::new(link)),
                Err(error) => self.tell(WorkerEventKind::Disconnected(error)),
            }
        }
        if self.link.is_none() {
            self.rest();
        }
    }

    /// After the end of a connection. A slot runs one job at a time, so it takes no other before the handlers of those that
    /// were lost have ended.
    fn rest(&mut self) {
        self.see_handlers_off();
        if !self.is_finished {
            self.set_state(SlotState::BackingOff);
            self.pause();
        }
    }

    fn is_stopping(&self) -> bool {
        self.board.stop_level() >= STOP
    }

    fn set_state(&self, state: SlotState) {
        self.board.set_state(self.lane.slot, state);
    }

    fn tell(&self, what: WorkerEventKind) {
        self.board.tell(&self.server, self.lane.slot, what);
    }

    /// Backs off, unless the worker is stopped. Looks after a handler whose job may be held again.
    fn pause(&mut self) {
        let start = Instant::now();
        let delay = self.machine.rest(start);
        while !self.is_stopping() {
            let left = delay.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            self.desk.wait(left.min(SLICE));
            let now = Instant::now();
            self.take_news(now);
            self.drain(now);
        }
    }

    fn open(&mut self) -> Result<Link> {
        let options = self.options.connect(self.lane.server);
        let transport = options.connect_blocking(options.connecting_limit())?;
        self.board.connected(self.lane.slot);
        let now = Instant::now();
        self.machine.connected(now);
        Ok(Link { transport, unflushed: false, half_close: false, looked: now })
    }

    /// Does what is to be done while there is no connection.
    fn drain(&mut self, now: Instant) {
        loop {
            match self.machine.poll(now) {
                Action::Wait(_) => return,
                action => self.act(action),
            }
        }
    }

    /// Serves the connection until something has come, or is to be done; until its end, at the latest.
    fn pass(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        match self.serve(&mut link) {
            None => self.link = Some(link),
            Some(Ok(())) => self.is_finished = true,
            Some(Err(error)) => self.tell(WorkerEventKind::Disconnected(error)),
        }
    }

    /// As [`pass`](Self::pass); what the connection came to when it has ended.
    fn serve(&mut self, link: &mut Link) -> Option<Result<()>> {
        let now = Instant::now();
        self.heed_stop(now);
        let mut has_moved = self.take_news(now);
        let until = loop {
            match self.machine.poll(now) {
                Action::Wait(until) => break until,
                Action::Close(outcome) => {
                    self.board.follow(self.lane.slot, &mut self.machine);
                    return Some(outcome);
                }
                Action::HalfClose => link.half_close = true,
                action => self.act(action),
            }
            has_moved = true;
        };
        if let Err(error) = link.write(&mut self.machine) {
            // Nothing that has just come is run: it is lost.
            self.machine.fail(error);
            return self.serve(link);
        }
        if !has_moved || self.next.is_some() {
            self.set_state(match self.machine.held() {
                0 => SlotState::Waiting,
                held => SlotState::Busy(held),
            });
        }
        self.board.follow(self.lane.slot, &mut self.machine);
        if self.next.is_none() {
            self.wait(link, now, until);
        }
        None
    }

    /// Waits for an answer, or for the handler.
    fn wait(&mut self, link: &mut Link, now: Instant, until: Option<Instant>) {
        let ends = [until, self.grace].into_iter().flatten();
        let left = ends.map(|end| end.saturating_duration_since(now)).min();
        let left = left.map_or(SLICE, |left| left.min(SLICE));
        if !self.machine.awaits_replies() {
            if now.saturating_duration_since(link.looked) >= LOOK {
                link.looked = now;
                if link.transport.is_stale() {
                    return link.read(&mut self.machine, STUCK);
                }
            }
            return self.desk.wait(left);
        }
        let time = if link.unflushed || !self.machine.outgoing().is_empty() {
            STUCK
        } else if self.desk.is_idle() {
            left
        } else {
            left.min(BUSY_SLICE)
        };
        link.read(&mut self.machine, time);
    }

    fn heed_stop(&mut self, now: Instant) {
        let level = self.board.stop_level();
        if level < STOP {
            return;
        }
        let grace = *self.grace.get_or_insert_with(|| after(now, self.options.grace));
        self.machine.stop();
        self.give_waiting_back(now);
        if level >= STOP_NOW || now >= grace {
            self.machine.abandon();
        }
    }

    fn give_waiting_back(&mut self, now: Instant) {
        for job in self.desk.take_waiting().into_iter().chain(self.next.take()) {
            self.machine.give_back(job.key(), now);
        }
    }

    /// Takes what handlers have to say; whether there was something.
    fn take_news(&mut self, now: Instant) -> bool {
        let news = self.desk.take_news();
        let is_news = !news.ended.is_empty() || !news.asks.is_empty();
        for (job, (outcome, failure)) in news.ended {
            self.tell_failure(&job, failure);
            self.machine.finish(job.key(), outcome, now);
        }
        for ask in news.asks {
            match ask {
                Ask::Touch(key) => self.machine.touch(key, now),
                Ask::Look(key) => self.machine.look(key, now),
            }
        }
        is_news
    }

    fn tell_failure(&self, job: &JobContext, failure: Option<String>) {
        if let Some(error) = failure {
            self.tell(WorkerEventKind::Failed { job: job.id, error });
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run(taken) => {
                let (server, desk) = (self.server.clone(), self.desk.clone());
                let job = JobContext::new(taken, server, desk, self.board.stopping.clone());
                if self.options.prefetch > 1 {
                    self.desk.put(job);
                } else {
                    self.next = Some(job);
                }
            }
            Action::Touched(key, end) => self.desk.update(key, |view| view.touched(end)),
            Action::TouchRefused(key, kind) => {
                self.desk.update(key, |view| view.touch_refused(kind));
            }
            Action::Known(key, stats, end) => self.desk.update(key, |view| view.known(stats, end)),
            Action::Lost(key, reason) => self.desk.update(key, |view| view.lost = Some(reason)),
            Action::Reclaimed(key, job, end) => {
                self.desk.update(key, |view| view.touched(end));
                self.tell(WorkerEventKind::Reclaimed(job));
            }
            Action::Connected(id) => {
                self.tell(WorkerEventKind::Connected);
                if self.board.is_replaced(self.lane.server, &id) {
                    self.tell(WorkerEventKind::ServerReplaced);
                }
            }
            Action::Refused { command, reply, in_a_row, pause } => {
                self.tell(WorkerEventKind::Refused { command, reply, in_a_row, pause });
            }
            Action::ShortTimeToRun(job, ttr) => {
                self.tell(WorkerEventKind::ShortTimeToRun { job, ttr });
            }
            Action::Poisoned(job, why) => self.tell(WorkerEventKind::Poisoned { job, why }),
            Action::Settled(job, fate) => self.tell(WorkerEventKind::Settled { job, fate }),
            // The caller has seen to these.
            Action::HalfClose | Action::Close(_) | Action::Wait(_) => {}
        }
    }

    /// Waits for the handlers of lost jobs. They are the caller's own code, and end when they end. One whose job may be held
    /// again goes on beside the next attempt to connect, unless there will be none.
    fn see_handlers_off(&mut self) {
        loop {
            let now = Instant::now();
            self.give_waiting_back(now);
            if self.is_stopping() || self.is_finished {
                self.machine.give_up_doubts();
            }
            self.take_news(now);
            self.drain(now);
            let is_last = self.is_stopping() || self.is_finished;
            if self.desk.is_idle() || is_last || self.machine.has_doubts() {
                return;
            }
            self.desk.wait(SLICE);
        }
    }
}

impl Link {
    /// Reads what is there, or what comes within this time.
    fn read(&mut self, machine: &mut WorkerSession, time: Duration) {
        let limit = Limit::never().shorter(time);
        match self.transport.read(machine.space(), limit) {
            Ok(Some(0)) => machine.end_of_stream(),
            Ok(Some(n)) => machine.received(n),
            Ok(None) => {}
            Err(error) => machine.fail(lost(error)),
        }
    }

    /// Writes what is outgoing, as far as the stream takes it.
    fn write(&mut self, machine: &mut WorkerSession) -> Result<()> {
        let limit = Limit::never().shorter(STUCK);
        while !machine.outgoing().is_empty() {
            match self.transport.write(machine.outgoing(), limit).map_err(lost)? {
                Some(n) => machine.sent(n),
                None => return Ok(()),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            self.unflushed = !self.transport.flush(limit).map_err(lost)?;
        }
        if self.unflushed {
            return Ok(());
        }
        if std::mem::take(&mut self.half_close) {
            self.transport.shutdown_write().map_err(lost)?;
        }
        Ok(())
    }
}
