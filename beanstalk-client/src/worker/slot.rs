//! One slot: a connection to one server, kept for as long as the worker works.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use queue_core::Stream;
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
    protocol::{Action, Backoff, Quota, WorkerSession},
    worker_board::{Board, Lane, STOP, STOP_NOW},
};

pub(super) struct Slot {
    lane: Lane,
    options: Arc<WorkerOptions>,
    board: Arc<Board>,
    quota: Quota,
    server: Arc<Address>,
    mail: Arc<Mail>,
    handlers: Handlers,
    backoff: Backoff,
    /// When running jobs are given up; set by a stop.
    grace: Option<Instant>,
    is_finished: bool,
}

/// A connection of a slot.
struct Link {
    stream: Box<dyn Stream>,
    machine: WorkerSession,
    /// Whether the stream may still hold bytes that it took.
    unflushed: bool,
    /// The sending side is to be ended.
    half_close: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Slot {
    pub(super) fn new(
        lane: Lane,
        options: Arc<WorkerOptions>,
        board: Arc<Board>,
        quota: Quota,
        handler: Handler,
        seed: u64,
    ) -> Self {
        let (base, cap) = options.backoff;
        Slot {
            lane,
            server: Arc::new(options.address(lane.server).clone()),
            mail: Arc::new(Mail::default()),
            handlers: Handlers::new(handler, options.prefetch > 1),
            backoff: Backoff::new(base, cap, seed),
            grace: None,
            is_finished: false,
            options,
            board,
            quota,
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
            // Their jobs are lost. A slot runs one at a time, so it takes no other before they have ended.
            self.see_handlers_off().await;
            if !self.is_stopping() && !self.is_finished {
                self.set_state(SlotState::BackingOff);
                let delay = self.backoff.next_delay();
                self.unless_stopped(sleep(delay)).await;
            }
        }
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
    async fn open(&self) -> Option<Result<Link>> {
        let options = self.connect_options();
        let limit = options.connect_limit(options.total_limit());
        let stream = match self.unless_stopped(options.connect(limit)).await? {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        self.board.connected(self.lane.slot);
        let now = Instant::now().into_std();
        let machine = WorkerSession::new(&self.options, self.lane.server, self.quota.clone(), now);
        Some(Ok(Link { stream, machine, unflushed: false, half_close: false, timer: None }))
    }

    async fn unless_stopped<F: Future>(&self, step: F) -> Option<F::Output> {
        let mut step = pin!(step);
        poll_fn(|cx| {
            self.board.wake_on_stop(self.lane.slot, cx.waker());
            if self.is_stopping() {
                return Poll::Ready(None);
            }
            step.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, mut link: Link) {
        let outcome = poll_fn(|cx| {
            let polled = self.poll_link(&mut link, cx);
            self.board.follow(self.lane.slot, &mut link.machine);
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
            self.heed_stop(link, now);
            self.answer_mail(link, cx, now);
            let mut has_moved = self.poll_handlers(link, cx, now);
            has_moved |= link.poll_read(cx);
            let until = loop {
                match link.machine.poll(now.into_std()) {
                    Action::Wait(until) => break until,
                    Action::Close(outcome) => return Poll::Ready(outcome),
                    action => {
                        has_moved = true;
                        self.act(link, action);
                    }
                }
            };
            if has_moved {
                continue;
            }
            self.set_state(match link.machine.held() {
                0 => SlotState::Waiting,
                held => SlotState::Busy(held),
            });
            if let Err(error) = link.poll_write(cx) {
                link.machine.fail(error);
                continue;
            }
            if link.poll_timer(cx, earlier(until, self.grace)).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn heed_stop(&mut self, link: &mut Link, now: Instant) {
        let level = self.board.stop_level();
        if level < STOP {
            return;
        }
        let grace = *self.grace.get_or_insert_with(|| {
            now.checked_add(self.options.grace).unwrap_or(now + Duration::from_secs(1 << 30))
        });
        link.machine.stop();
        for job in self.handlers.take_waiting() {
            link.machine.give_back(job.key(), now.into_std());
        }
        if level >= STOP_NOW || now >= grace {
            link.machine.abandon();
        }
    }

    fn answer_mail(&self, link: &mut Link, cx: &Context<'_>, now: Instant) {
        for ask in self.mail.take(cx.waker()) {
            match ask {
                Ask::Touch(key) => link.machine.touch(key, now.into_std()),
                Ask::Look(key) => link.machine.look(key, now.into_std()),
            }
        }
    }

    /// Begins with jobs, and tells of those that have ended; whether there was one.
    fn poll_handlers(&mut self, link: &mut Link, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut has_ended = false;
        loop {
            let (board, server, slot) = (&self.board, &self.server, self.lane.slot);
            let began =
                |job: &JobContext| board.tell(server, slot, WorkerEventKind::Started(job.id));
            let Poll::Ready((job, (outcome, failure))) = self.handlers.poll(cx, began) else {
                return has_ended;
            };
            self.tell_failure(&job, failure);
            link.machine.finish(job.key(), outcome, now.into_std());
            has_ended = true;
        }
    }

    fn tell_failure(&self, job: &JobContext, failure: Option<String>) {
        if let Some(error) = failure {
            self.tell(WorkerEventKind::Failed { job: job.id, error });
        }
    }

    fn act(&mut self, link: &mut Link, action: Action) {
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
            Action::Connected(id) => {
                self.backoff.reset();
                self.tell(WorkerEventKind::Connected);
                if self.board.is_replaced(self.lane.server, &id) {
                    self.tell(WorkerEventKind::ServerReplaced);
                }
            }
            Action::ShortTimeToRun(job, ttr) => {
                self.tell(WorkerEventKind::ShortTimeToRun { job, ttr });
            }
            Action::Poisoned(job, why) => self.tell(WorkerEventKind::Poisoned { job, why }),
            Action::Settled(job, fate) => self.tell(WorkerEventKind::Settled { job, fate }),
            Action::HalfClose => link.half_close = true,
            // The caller has seen to these.
            Action::Close(_) | Action::Wait(_) => {}
        }
    }

    /// Waits for the handlers of lost jobs; a stop gives them its grace.
    async fn see_handlers_off(&mut self) {
        drop(self.handlers.take_waiting());
        let mut timer = pin!(sleep_until(Instant::now()));
        poll_fn(|cx| {
            self.board.wake_on_stop(self.lane.slot, cx.waker());
            loop {
                if self.handlers.is_empty() {
                    return Poll::Ready(());
                }
                let no_news = |_: &JobContext| {};
                match self.handlers.poll(cx, no_news) {
                    Poll::Ready((job, (_, failure))) => self.tell_failure(&job, failure),
                    Poll::Pending => break,
                }
            }
            match self.board.stop_level() {
                0 => return Poll::Pending,
                STOP if !self.is_finished => {
                    let grace = *self.grace.get_or_insert(Instant::now() + self.options.grace);
                    timer.as_mut().reset(grace);
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                _ => {}
            }
            self.handlers.clear();
            Poll::Ready(())
        })
        .await;
    }
}

/// How often one poll goes round.
const MAX_ROUNDS: usize = 64;

/// How often one round reads.
const MAX_READS: usize = 16;

fn earlier(until: Option<std::time::Instant>, grace: Option<Instant>) -> Option<Instant> {
    let until = until.map(Instant::from_std);
    [until, grace].into_iter().flatten().min()
}

impl Link {
    /// Reads what is there; whether there was something, or an end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_read = false;
        for _ in 0..MAX_READS {
            let mut space = ReadBuf::new(self.machine.space());
            match Pin::new(&mut self.stream).poll_read(cx, &mut space) {
                Poll::Pending => return has_read,
                Poll::Ready(Ok(())) => match space.filled().len() {
                    0 => {
                        self.machine.end_of_stream();
                        return true;
                    }
                    n => self.machine.received(n),
                },
                Poll::Ready(Err(error)) => {
                    self.machine.fail(lost(error));
                    return true;
                }
            }
            has_read = true;
        }
        true
    }

    /// Writes what is outgoing, as far as the stream takes it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<()> {
        while !self.machine.outgoing().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.machine.outgoing()) {
                Poll::Ready(Ok(0)) => return Err(lost(closed())),
                Poll::Ready(Ok(n)) => self.machine.sent(n),
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

    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Option<Instant>) -> Poll<()> {
        let Some(until) = until else { return Poll::Pending };
        match &mut self.timer {
            Some(timer) if timer.deadline() != until => timer.as_mut().reset(until),
            Some(_) => {}
            none => *none = Some(Box::pin(sleep_until(until))),
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(cx))
    }
}
