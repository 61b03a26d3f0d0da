//! One slot: a connection to one server, kept for as long as the worker works.
//!
//! Whoever holds the slot drives it: its own thread, or the one that stands in while that thread runs a handler.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    Haste,
    blocking::{Drive, Wire},
    now,
};

use super::{
    context::JobContext,
    desk::{Ask, Desk},
};
use crate::{
    Address, Error, WorkerEventKind, WorkerOptions,
    protocol::{Action, JobKey, WorkerSlot},
    work::{
        board::{Board, Lane},
        view::View,
    },
};

pub(super) struct Slot<'a> {
    lane: Lane,
    board: &'a Board,
    server: Arc<Address>,
    desk: Arc<Desk>,
    role: WorkerSlot,
    wire: Wire<Error>,
    /// Whether jobs go over the desk to the other thread.
    has_runner: bool,
    /// The job that the slot's own thread is to run.
    next: Option<JobContext>,
    is_over: bool,
}

/// How long nothing but the socket, or the desk, is waited for.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// The same while a handler runs and an answer is on its way.
const BUSY_SLICE: Duration = Duration::from_millis(20);

impl<'a> Slot<'a> {
    pub(super) fn new(
        lane: Lane,
        options: &WorkerOptions,
        board: &'a Board,
        desk: Arc<Desk>,
    ) -> Self {
        Slot {
            lane,
            board,
            server: Arc::new(options.address(lane.server).clone()),
            desk,
            role: WorkerSlot::new(options, lane.server, lane.slot as u64),
            wire: Wire::to(options.connect(lane.server)),
            has_runner: options.prefetch > 1,
            next: None,
            is_over: false,
        }
    }

    /// Works until there is a job for the calling thread to run; `None` when the worker is stopped, or all is done.
    pub(super) fn advance(&mut self) -> Option<JobContext> {
        while self.next.is_none() && !self.is_over {
            self.step();
        }
        self.next.take()
    }

    /// Does what is to be done while the slot's own thread runs a handler, until it has ended.
    pub(super) fn stand_in(&mut self, job: JobKey) {
        while self.next.is_none() && self.desk.runs(job) && self.role.helps_handlers() {
            self.step();
        }
    }

    /// Serves the connection until something has come, or is to be done, or a moment has passed.
    fn step(&mut self) {
        let now = now();
        self.heed_stop(now);
        self.take_news(now);
        let was_connected = self.role.is_connected();
        // An attempt to connect is not to be cut short.
        let slice = if self.desk.is_idle() { SLICE } else { BUSY_SLICE };
        let at_most = if was_connected { now.checked_add(slice) } else { None };
        let driven = self.wire.drive(&mut self.role, at_most, |role| {
            (role.has_actions() || role.is_connected() != was_connected).then_some(())
        });
        self.act(now);
        self.board.follow(self.lane.slot, &mut self.role);
        match driven {
            Drive::Rest(until) => {
                let left = until.map_or(SLICE, |until| until.saturating_duration_since(now));
                self.desk.wait(left.min(SLICE));
            }
            Drive::Over => self.is_over = true,
            Drive::Done(()) | Drive::Late => {}
        }
    }

    fn heed_stop(&mut self, now: Instant) {
        match self.board.stop.asked() {
            Some(Haste::AtOnce) => self.role.stop_now(now),
            Some(Haste::Gently) => self.role.stop(now),
            None => {}
        }
    }

    /// Takes what handlers have to say.
    fn take_news(&mut self, now: Instant) {
        let news = self.desk.take_news();
        for (job, ended) in news.ended {
            if let Some(error) = ended.reason {
                self.tell(WorkerEventKind::Failed { job: job.id, error });
            }
            ended.span.run(|| self.role.finish(job.key(), ended.outcome, now));
        }
        for ask in news.asks {
            match ask {
                Ask::Touch(key) => self.role.touch(key, now),
                Ask::Look(key) => self.role.look(key, now),
            }
        }
    }

    fn tell(&self, what: WorkerEventKind) {
        self.board.tell(&self.server, self.lane.slot, what);
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.role.next_action() {
            match action {
                Action::Run(taken) => {
                    let (server, desk) = (self.server.clone(), self.desk.clone());
                    let job =
                        JobContext::new(taken, server, desk, self.board.stop.signal().clone());
                    if self.has_runner {
                        self.desk.put(job);
                    } else {
                        self.next = Some(job);
                    }
                }
                Action::Update(key, change) => self.update(key, |view| view.apply(change)),
                // A thread cannot be ended from outside.
                Action::Abort(_) => {}
                Action::HandBack => {
                    for job in self.desk.take_waiting().into_iter().chain(self.next.take()) {
                        self.role.give_back(job.key(), now);
                    }
                }
                Action::Connected(id) => self.board.connected(&self.server, self.lane, &id),
                Action::Tell(what) => self.tell(what),
            }
        }
    }

    fn update(&self, key: JobKey, change: impl FnOnce(&mut View)) {
        match &self.next {
            Some(next) if next.key() == key => next.update(change),
            _ => self.desk.update(key, change),
        }
    }
}
