//! One slot: a connection to one server, kept for as long as the worker works.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use queue_core::{Stream, after};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep, sleep_until},
};

use super::{
    context::{Ask, JobContext, Mail},
    handlers::{Handler, Handlers},
};
use crate::{
    Address, ConnectOptions, Heartbeat, LostReason, Result, SlotState, WorkerEventKind,
    WorkerOptions,
    error::{closed, lost},
    protocol::{Action, Quota, WorkerSession},
    worker_board::{Board, Lane, STOP, STOP_NOW},
};

pub(super) struct Slot {
    lane: Lane,
    options: Arc<WorkerOptions>,
    board: Arc<Board>,
    server: Arc<Address>,
    mail: Arc<Mail>,
    handlers: Handlers,
    machine: WorkerSession,
    timer: Option<Pin<Box<Sleep>>>,
    /// When running jobs are given up; set by a stop.
    grace: Option<Instant>,
    is_finished: bool,
}

/// A connection of a slot.
struct Link {
    stream: Box<dyn Stream>,
    /// Whether the stream may still hold bytes that it took.
    unflushed: bool,
    /// The sending side is to be ended.
    half_close: bool,
}

impl Slot {
    pub(super) fn new(
        lane: Lane,
        options: Arc<WorkerOptions>,
        board: Arc<Board>,
        quota: Quota,
        handler: Handler,
    ) -> Self {
        let (server, number) = (lane.server, lane.slot as u64);
        let now = Instant::now().into_std();
        Slot {
            lane,
            server: Arc::new(options.address(server).clone()),
            mail: Arc::new(Mail::default()),
            handlers: Handlers::new(handler, options.prefetch > 1),
            machine: WorkerSession::unconnected(&options, server, number, quota, now),
            timer: None,
            grace: None,
            is_finished: false,
            options,
            board,
        }
    }

    /// Works until the worker is stopped, or all is done.
    pub(super) async fn run(mut self) {
        while !self.is_stopping() && !self.is_finished {
            self.set_state(SlotState::Connecting);
            if let Some(outcome) = self.open().await {
                match outcome {
                    Ok(link) => self.serve(link).await,
                    Err(error) => self.tell(WorkerEventKind::Disconnected(error)),
                }
            }
            self.see_handlers_off().await;
            if !self.is_stopping() && !self.is_finished {
                self.set_state(SlotState::BackingOff);
                let delay = self.machine.rest(Instant::now().into_std());
                self.unless_stopped(sleep(delay)).await;
            }
        }
        self.see_handlers_off().await;
        self.set_state(SlotState::Ended);
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

    fn connect_options(&self) -> ConnectOptions {
        self.options.connect(self.lane.server).clone()
    }

    /// Connects; `None` when the worker was stopped meanwhile.
    async fn open(&mut self) -> Option<Result<Link>> {
        let options = self.connect_options();
        let limit = options.connecting_limit();
        let stream = match self.unless_stopped(options.connect(limit)).await? {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        self.board.connected(self.lane.slot);
        self.machine.connected(Instant::now().into_std());
        Some(Ok(Link { stream, unflushed: false, half_close: false }))
    }

    /// Looks after a handler whose job may be held again, while there is no connection.
    async fn unless_stopped<F: Future>(&mut self, step: F) -> Option<F::Output> {
        let mut step = pin!(step);
        poll_fn(|cx| {
            self.board.wake_on_stop(self.lane.slot, cx.waker());
            if self.is_stopping() {
                return Poll::Ready(None);
            }
            self.poll_doubts(cx);
            step.as_mut().poll(cx).map(Some)
        })
        .await
    }

    fn poll_doubts(&mut self, cx: &mut Context<'_>) {
        while self.machine.has_doubts() {
            let now = Instant::now();
            self.poll_handlers(cx, now);
            let until = self.drain(now);
            if self.poll_timer(cx, until).is_pending() {
                return;
            }
        }
    }

    /// Does what is to be done while there is no connection; when there is more.
    fn drain(&mut self, now: Instant) -> Option<Instant> {
        loop {
            match self.machine.poll(now.into_std()) {
                Action::Wait(until) => return until.map(Instant::from_std),
                action => self.act(action),
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, mut link: Link) {
        let outcome = poll_fn(|cx| {
            let polled = self.poll_link(&mut link, cx);
            self.board.follow(self.lane.slot, &mut self.machine);
            polled
        })
        .await;
        match outcome {
            Ok(()) => self.is_finished = true,
            Err(error) => self.tell(WorkerEventKind::Disconnected(error)),
        }
    }

    fn poll_link(&mut self, link: &mut Link, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.board.wake_on_stop(self.lane.slot, cx.waker());
        // Whatever comes, others of the runtime get their turn.
        for _ in 0..MAX_ROUNDS {
            let now = Instant::now();
            self.heed_stop(now);
            self.answer_mail(cx, now);
            let mut has_moved = self.poll_handlers(cx, now);
            has_moved |= link.poll_read(&mut self.machine, cx);
            let until = loop {
                match self.machine.poll(now.into_std()) {
                    Action::Wait(until) => break until.map(Instant::from_std),
                    Action::Close(outcome) => return Poll::Ready(outcome),
                    Action::HalfClose => link.half_close = true,
                    action => self.act(action),
                }
                has_moved = true;
            };
            if has_moved {
                continue;
            }
            self.set_state(match self.machine.held() {
                0 => SlotState::Waiting,
                held => SlotState::Busy(held),
            });
            if let Err(error) = link.poll_write(&mut self.machine, cx) {
                self.machine.fail(error);
                continue;
            }
            let until = [until, self.grace].into_iter().flatten().min();
            if self.poll_timer(cx, until).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Option<Instant>) -> Poll<()> {
        let Some(until) = until else { return Poll::Pending };
        match &mut self.timer {
            Some(timer) if timer.deadline() != until => timer.as_mut().reset(until),
            Some(_) => {}
            none => *none = Some(Box::pin(sleep_until(until))),
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(cx))
    }

    fn heed_stop(&mut self, now: Instant) {
        let level = self.board.stop_level();
        if level < STOP {
            return;
        }
        let grace = self.end_of_grace(now);
        self.machine.stop();
        self.give_waiting_back(now);
        if level >= STOP_NOW || now >= grace {
            self.machine.abandon();
        }
    }

    /// When running jobs are given up, counted from the first time that this is asked.
    fn end_of_grace(&mut self, now: Instant) -> Instant {
        let end = || Instant::from_std(after(now.into_std(), self.options.grace));
        *self.grace.get_or_insert_with(end)
    }

    fn give_waiting_back(&mut self, now: Instant) {
        for job in self.handlers.take_waiting() {
            self.machine.give_back(job.key(), now.into_std());
        }
    }

    fn answer_mail(&mut self, cx: &Context<'_>, now: Instant) {
        for ask in self.mail.take(cx.waker()) {
            match ask {
                Ask::Touch(key) => self.machine.touch(key, now.into_std()),
                Ask::Look(key) => self.machine.look(key, now.into_std()),
            }
        }
    }

    /// Begins with jobs, and tells of those that have ended; whether there was one.
    fn poll_handlers(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut has_ended = false;
        loop {
            let (board, server, slot) = (&self.board, &self.server, self.lane.slot);
            let began =
                |job: &JobContext| board.tell(server, slot, WorkerEventKind::Started(job.id));
            let Poll::Ready((job, (outcome, failure))) = self.handlers.poll(cx, began) else {
                return has_ended;
            };
            self.tell_failure(&job, failure);
            self.machine.finish(job.key(), outcome, now.into_std());
            has_ended = true;
        }
    }

    fn tell_failure(&self, job: &JobContext, failure: Option<String>) {
        if let Some(error) = failure {
            self.tell(WorkerEventKind::Failed { job: job.id, error });
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run(taken) => {
                let (server, mail) = (self.server.clone(), self.mail.clone());
                let job = JobContext::new(taken, server, mail, self.board.stopping.clone());
                self.handlers.push(job);
            }
            Action::Touched(key, end) => self.handlers.update(key, |view| view.touched(end)),
            Action::TouchRefused(key, kind) => {
                self.handlers.update(key, |view| view.touch_refused(kind));
            }
            Action::Known(key, stats, end) => {
                self.handlers.update(key, |view| view.known(stats, end));
            }
            Action::Lost(key, reason) => {
                self.handlers.update(key, |view| view.lost = Some(reason));
                let is_bounded = matches!(self.options.heartbeat, Heartbeat::AtMost(_));
                if is_bounded && reason == LostReason::TimeToRun {
                    self.handlers.abort(key);
                }
            }
            Action::Reclaimed(key, job, end) => {
                self.handlers.update(key, |view| view.touched(end));
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

    /// Waits for the handlers of lost jobs, as a slot runs one at a time; a stop gives them its grace. One whose job may
    /// be held again goes on beside the next attempt to connect, unless there will be none.
    async fn see_handlers_off(&mut self) {
        let now = Instant::now();
        self.give_waiting_back(now);
        if self.is_stopping() || self.is_finished {
            self.machine.give_up_doubts();
        }
        self.drain(now);
        if !self.machine.has_doubts() {
            poll_fn(|cx| self.poll_leaving(cx)).await;
        }
    }

    fn poll_leaving(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.board.wake_on_stop(self.lane.slot, cx.waker());
        loop {
            let now = Instant::now();
            self.poll_handlers(cx, now);
            self.drain(now);
            if self.handlers.is_empty() {
                return Poll::Ready(());
            }
            match self.board.stop_level() {
                0 => return Poll::Pending,
                STOP if !self.is_finished => {
                    let grace = self.end_of_grace(now);
                    if now < grace && self.poll_timer(cx, Some(grace)).is_pending() {
                        return Poll::Pending;
                    }
                }
                _ => {}
            }
            self.handlers.clear();
        }
    }
}

/// How often one poll goes round.
const MAX_ROUNDS: usize = 64;

/// How often one round reads.
const MAX_READS: usize = 16;

impl Link {
    /// Reads what is there; whether there was something, or an end.
    fn poll_read(&mut self, machine: &mut WorkerSession, cx: &mut Context<'_>) -> bool {
        let mut has_read = false;
        for _ in 0..MAX_READS {
            let mut space = ReadBuf::new(machine.space());
            match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
                Poll::Pending => return has_read,
                Poll::Ready(Ok(())) => match space.filled().len() {
                    0 => {
                        machine.end_of_stream();
                        return true;
                    }
                    n => machine.received(n),
                },
                Poll::Ready(Err(error)) => {
                    machine.fail(lost(error));
                    return true;
                }
            }
            has_read = true;
        }
        true
    }

    /// Writes what is outgoing, as far as the stream takes it.
    fn poll_write(&mut self, machine: &mut WorkerSession, cx: &mut Context<'_>) -> Result<()> {
        while !machine.outgoing().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, machine.outgoing()) {
                Poll::Ready(Ok(0)) => return Err(lost(closed())),
                Poll::Ready(Ok(n)) => machine.sent(n),
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => return Ok(()),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map_err(lost)?,
                Poll::Pending => return Ok(()),
            }
            self.unflushed = false;
        }
        if self.half_close {
            match Pin::new(&mut self.stream).poll_shutdown(cx) {
                Poll::Ready(ended) => ended.map_err(lost)?,
                Poll::Pending => return Ok(()),
            }
            self.half_close = false;
        }
        Ok(())
    }
}
