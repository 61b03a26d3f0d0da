//! One server and its callers.

mod begin;

use std::{
    collections::{HashMap, HashSet},
    mem,
    task::{Poll, Waker},
    time::Instant,
};

use foldhash::fast::FixedState;
use queue_core::{
    ConnectionState, Deadlines, Epoch, IdleCheck, LateCheck, Later, Life, Limit, Random, Replace,
};

use super::{
    ask::{Ask, AskAnswer},
    pulls::{Pulls, UnclaimedMessage},
    task::{InOrder, RequestName, Task, TaskStage},
};
use crate::{
    ConnectOptions, Delivery, Error, ErrorKind, Fate, Metrics, QueueName, Result,
    protocol::{
        Action, Encoding, Success,
        session::{RequestIds, Session},
    },
    trace,
};

/// A server, and the connection to it, which is made when a caller needs it.
///
/// Any number of callers make requests, each in its own task, and find the outcome there. A task that definitely did
/// not reach the server goes over the next connection, as often as the retry policy allows. A pull does so in any case,
/// because the server has given back what a lost connection had pulled.
#[derive(Debug)]
pub(crate) struct Link {
    /// How it connects.
    pub(crate) options: ConnectOptions,
    pub(super) encoding: Encoding,
    pub(super) host: String,
    pub(super) random: Random,
    pub(super) ids: RequestIds,
    pub(super) tasks: HashMap<u64, Task, FixedState>,
    last_task: u64,
    /// The tasks to be sent.
    pub(super) queued: InOrder,
    /// The names of requests to be sent, as known to the server.
    pub(super) names: HashSet<RequestName, FixedState>,
    /// Number of unfinished tasks.
    pub(crate) unfinished: usize,
    pub(super) limits: InOrder<(Instant, u64)>,
    pub(super) pulls: Pulls,
    /// Set while there is a connection.
    pub(super) session: Option<Session<Waiter>>,
    /// The current or last connection.
    pub(crate) epoch: Option<Epoch>,
    pub(super) can_dial: bool,
    /// Whether no caller is left.
    pub(super) is_leaving: bool,
    /// How long the end of the connection may take after the server was notified.
    pub(super) leave_by: Option<Instant>,
    /// Why the last attempt to connect failed.
    pub(super) last_error: Option<Error>,
    /// Why the connection was lost or could not be made, until that is reported.
    pub(crate) failure: Option<Error>,
    /// Whether its caller waits without limit, and never hurries a retry.
    pub(super) is_patient: bool,
    pub(crate) life: Life<Error>,
    /// When this connection was made.
    pub(super) since: Option<Instant>,
    /// Whether a request was answered on this connection.
    pub(super) has_answers: bool,
    pub(crate) idle_check: IdleCheck,
    /// For answers whose tasks have reached their limits.
    pub(super) beyond_limit: LateCheck,
    /// How many bytes had arrived when data last arrived, and when that was.
    pub(super) heard: Option<(u64, Instant)>,
    pub(crate) metrics: Metrics,
    /// How many bytes of this connection are counted: sent, received.
    pub(super) counted: (u64, u64),
    /// Whether the pump has to act on a change.
    pub(crate) is_urgent: bool,
    /// Callers to wake in the next exchange, or once no lock is held.
    pub(crate) woken: Vec<Waker>,
    /// News for subscribers, to be told once no lock is held.
    pub(crate) later: Later,
}

/// The recipient of an answer.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    /// This task.
    Task(u64),
    /// The caller that pulls from this queue.
    Pull(QueueName),
    /// The same, for the count before the pull.
    Check(QueueName),
    /// This caller, who has joined an abandoned pull, for a count of messages that have not woken it.
    Look(QueueName, u64),
}

/// For callers.
impl Link {
    /// Connects when a caller makes a request.
    pub(crate) fn new(options: ConnectOptions) -> Self {
        let deadlines = Deadlines::new(Some(options.reply_timeout), Some(options.write_timeout));
        let connect = Some(options.connect_timeout);
        let life = Life::new(options.retry, connect, deadlines, Replace::UnlessTwice);
        Link {
            encoding: options.address.transport().encoding(),
            host: crate::address::host(&options.address),
            random: options.random(),
            ids: RequestIds::default(),
            tasks: HashMap::default(),
            last_task: 0,
            queued: InOrder::default(),
            names: HashSet::default(),
            unfinished: 0,
            limits: InOrder::default(),
            pulls: Pulls::default(),
            session: None,
            epoch: None,
            can_dial: true,
            is_leaving: false,
            leave_by: None,
            last_error: None,
            failure: None,
            is_patient: false,
            life: life.left_unread().greets(),
            since: None,
            has_answers: false,
            idle_check: IdleCheck::default(),
            beyond_limit: LateCheck::default(),
            heard: None,
            metrics: Metrics::default(),
            counted: (0, 0),
            is_urgent: false,
            woken: Vec::new(),
            later: Later::default(),
            options,
        }
    }

    /// Uses only the stream of the pump.
    pub(crate) fn for_stream(options: ConnectOptions) -> Self {
        let link = Link::new(options);
        Link { can_dial: false, life: link.life.given(), ..link }
    }

    /// For a caller that acts on its own: its requests are no reason to retry a failed server earlier.
    pub(crate) fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }

    pub(super) fn delivery(&self, queue: &QueueName, kept: UnclaimedMessage) -> Delivery {
        Delivery::new(queue.clone(), kept.id, kept.delivered, self.epoch)
    }

    /// Sets a task's limit, if it is earlier; returns whether it is.
    pub(crate) fn limit_more(&mut self, number: u64, limit: Limit) -> bool {
        let Some(task) = self.tasks.get_mut(&number).filter(|task| !task.is_done()) else {
            return false;
        };
        let former = task.limit.at;
        task.limit = task.limit.sooner(limit);
        let is_earlier = task.limit.at != former;
        if is_earlier {
            former.into_iter().for_each(|at| self.limits.remove((at, number)));
            task.limit.at.into_iter().for_each(|at| self.limits.insert((at, number)));
        }
        is_earlier
    }

    /// The outcome of a task; until then, registers the caller to be woken.
    pub(crate) fn poll(&mut self, number: u64, caller: &Waker) -> Poll<Result<AskAnswer>> {
        if let Some(task) = self.tasks.get_mut(&number).filter(|task| !task.is_done()) {
            task.waker.get_or_insert_with(|| caller.clone()).clone_from(caller);
            return Poll::Pending;
        }
        Poll::Ready(match self.tasks.remove(&number).map(|task| task.stage) {
            Some(TaskStage::Done(outcome)) => outcome,
            _ => Err(only_one_stream()),
        })
    }

    /// The caller of a task is gone. An unsent request is not sent; its message goes to the next caller.
    pub(crate) fn leave(&mut self, number: u64) {
        let Some(task) = self.tasks.remove(&number) else { return };
        if let Some(at) = task.limit.at {
            self.limits.remove((at, number));
        }
        self.is_urgent = true;
        self.unqueue(number, &task.stage);
        self.unfinished -= usize::from(!task.is_done());
        match (task.stage, task.ask) {
            (TaskStage::Pulling, Ask::Pull(queue) | Ask::TryPull(queue)) => {
                self.pulls.leave(&queue, number);
            }
            (TaskStage::Sent((Action::Pull, id)), Ask::Raw(request)) => {
                let (queue, session) = (request.queue(), self.session.as_mut());
                let waiter = Waiter::Pull(queue.clone());
                let sent = session.and_then(|it| it.hand_on(Action::Pull, &id, waiter));
                if let Some(number) = sent {
                    self.pulls.sent(queue, number);
                }
            }
            (TaskStage::Done(Ok(AskAnswer::Delivery(delivery))), _)
                if delivery.epoch() == self.epoch =>
            {
                let (queue, id, delivered) = delivery.into_parts();
                self.put(&queue, UnclaimedMessage { id, delivered });
            }
            (
                TaskStage::Done(Ok(AskAnswer::Success(Success::Delivered(delivered)))),
                Ask::Raw(request),
            ) if task.epoch == self.epoch => {
                let id = *request.id();
                self.put(request.queue(), UnclaimedMessage { id, delivered });
            }
            _ => {}
        }
    }

    /// An unclaimed message of this connection goes to the caller that has waited longest, or is kept.
    pub(super) fn put(&mut self, queue: &QueueName, kept: UnclaimedMessage) {
        if self.session.is_some()
            && let Some((caller, kept)) = self.pulls.put(queue, kept)
        {
            self.give(caller, queue, kept);
        }
    }

    pub(super) fn give(&mut self, caller: u64, queue: &QueueName, kept: UnclaimedMessage) {
        let delivery = self.delivery(queue, kept);
        self.finish(caller, Ok(AskAnswer::Delivery(delivery)));
    }

    /// Finishes a task.
    pub(super) fn finish(&mut self, number: u64, outcome: Result<AskAnswer>) {
        let Some(task) = self.tasks.get_mut(&number).filter(|task| !task.is_done()) else { return };
        let outcome = outcome.map_err(|error| error.with_server(&self.options.address));
        let outcome = match (&mut task.stage, outcome) {
            (TaskStage::PushBatch(batch), Err(error)) => {
                batch.fail(&error, |error| {
                    note_failure(&mut self.metrics, &mut self.later, Some(error));
                });
                Ok(AskAnswer::Pushed(batch.take_outcomes()))
            }
            (_, outcome) => outcome.map_err(|error| task.named(error)),
        };
        note_failure(&mut self.metrics, &mut self.later, outcome.as_ref().err());
        if let Some(at) = task.limit.at {
            self.limits.remove((at, number));
        }
        if let (TaskStage::Pulling, Ask::Pull(queue) | Ask::TryPull(queue)) =
            (&task.stage, &task.ask)
        {
            self.pulls.leave(queue, number);
        }
        self.unfinished -= 1;
        self.woken.extend(task.waker.take());
        let stage = mem::replace(&mut task.stage, TaskStage::Done(outcome));
        self.unqueue(number, &stage);
    }

    /// Sets the outcome of the push at this place of a batch.
    pub(super) fn settle_place(
        &mut self,
        number: u64,
        place: usize,
        outcome: Result<crate::MessageId>,
    ) {
        let Some(Task { stage: TaskStage::PushBatch(batch), .. }) = self.tasks.get_mut(&number)
        else {
            return;
        };
        let outcome = outcome.map_err(|error| error.with_server(&self.options.address));
        note_failure(&mut self.metrics, &mut self.later, batch.settle(place, outcome));
        if batch.undone == 0 {
            let outcomes = batch.take_outcomes();
            self.finish(number, Ok(AskAnswer::Pushed(outcomes)));
        }
    }

    /// Removes a task in this stage from the queue.
    fn unqueue(&mut self, number: u64, stage: &TaskStage) {
        match stage {
            TaskStage::Queued(name) => {
                self.queued.remove(number);
                if let Some(name) = name {
                    self.names.remove(name);
                }
            }
            TaskStage::PushBatch(batch) if !batch.is_sent => self.queued.remove(number),
            _ => {}
        }
    }

    /// When a task has to be finished.
    pub(crate) fn limit(&self, number: u64) -> Option<Instant> {
        self.tasks.get(&number).and_then(|task| task.limit.at)
    }

    /// Ends this connection. The next one is made when a caller needs it: it may be the one that is being made.
    pub(crate) fn disconnect(&mut self) {
        if self.is_open() {
            let why = "the client is reconnecting";
            let error = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why);
            self.life.close_with(error);
            self.is_urgent = true;
        }
    }

    /// No caller is left.
    pub(crate) fn close(&mut self) {
        (self.is_leaving, self.is_urgent) = (true, true);
    }

    /// Whether received data is still to be read, although no caller waits for it.
    pub(crate) fn is_looking(&self) -> bool {
        self.is_open() && self.idle_check.is_looking()
    }

    /// Whether there is an upgraded connection that is not ending.
    pub(crate) fn is_open(&self) -> bool {
        self.life.is_open() && self.session.as_ref().is_some_and(Session::is_open)
    }

    /// Whether no pull from this queue waits to be sent, so that a count that begins now follows all of them.
    pub(crate) fn has_pulled(&self, queue: &QueueName) -> bool {
        self.pulls.are_sent(queue)
    }

    pub(crate) fn connection_state(&self, now: Instant) -> ConnectionState {
        match &self.session {
            Some(_) if self.is_open() => ConnectionState::Ready,
            Some(_) => ConnectionState::Connecting,
            None if self.is_leaving || (!self.can_dial && self.epoch.is_some()) => {
                ConnectionState::Closed
            }
            None if self.life.quarantine(now).is_some() => ConnectionState::Backoff,
            None if self.unfinished > 0 => ConnectionState::Connecting,
            None => ConnectionState::Idle,
        }
    }
}

/// Counts a failure reported to a caller.
fn note_failure(metrics: &mut Metrics, later: &mut Later, error: Option<&Error>) {
    if let Some(error) = error {
        metrics.failed(error.kind().counted());
        let error = error.clone();
        later.push(move || trace::failed(&error));
    }
}

/// The error for a message whose connection is gone.
pub(super) fn job_lost() -> Error {
    let why = "the connection that pulled this message is gone; unless the server stopped, the message is back in its queue";
    Error::new(ErrorKind::JobLost, Fate::NotSent, why)
}

pub(super) fn only_one_stream() -> Error {
    let why = "the connection is closed, and a client made from a stream cannot reconnect";
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, why)
}
