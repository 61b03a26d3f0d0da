//! A worker's slot as a state machine, without socket or clock.

mod action;
mod ask;
mod connection;
mod deadline_soon;
mod end;
mod held;
mod inspection;
mod keep;
mod keepalive;
mod lease;
mod refusals;
mod replies;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use queue_core::{
    Claimed, Deadlines, Io, Later, Life, Operation, Pulse, Replace, RetryPolicy, Role,
};

pub use self::action::{Action, HandlerJob, JobKey, ReservationChange};
use self::{
    connection::Connection,
    deadline_soon::DeadlineSoonPause,
    held::{HeldJob, HeldPhase, JobVerdict, Jobs, LastCommand},
    inspection::PoisonInspection,
    keepalive::Keepalive,
    refusals::Refusals,
};
use crate::{
    Error, Heartbeat, JobFate, Metrics, Priority, SlotState, TubeName, WorkerEventKind,
    WorkerOptions,
    protocol::{Command, Response, ServerWait, Session, Ticket},
    trace::RequestReporter,
};

/// What a worker does on one connection at a time: reserve, run, touch, finish, over and over; and from one connection
/// to the next.
///
/// ```text
///                          ┌───────── finish + reserve in one write ─────────┐
///                          ▼                                                 │
///  watch, ignore ──► reserve waits ──► RESERVED ──► stats-job? ─► handler runs
///                          │              (touch first, if it           │ touch at a third
///                          │ stop          came late)                   │ of the time to run
///                          ▼                                            ▼
///                     half-close                              lost: the handler is told,
///                                                             and its outcome is not sent
/// ```
///
/// It is a [`Role`], moved by a pump. [`next_action`](Self::next_action) returns its decisions for the handlers; the
/// other methods report what handlers do, which takes effect in the next exchange.
///
/// * A reserve waits in the server only while this connection holds no job: the server reads nothing after a waiting
///   reserve, which would delay touches and deletes.
/// * The number of held jobs is bounded, and with it that of commands in flight: a few for each job.
/// * A job whose reservation may have expired is never acted on.
/// * After a refusal it pauses, longer for each one in a row. The same delays apply between connections, until one has
///   lasted or was successful.
/// * After a connection has ended, it takes no other job until the handlers of the lost jobs have ended.
#[derive(Debug)]
pub struct WorkerSlot {
    settings: Settings,
    asking: RequestReporter,
    claimed: Claimed,
    /// Other slots have claimed the rest of a limit: when to ask again.
    shares: Option<Instant>,
    session: Session,
    life: Life<Error>,
    connection: Connection,
    /// Unanswered commands, in order.
    expected: VecDeque<Expected>,
    held: Jobs,
    /// The jobs that the face has, in the order in which their handlers run. The first one runs.
    given: VecDeque<JobKey>,
    keys: u64,
    /// Number of unanswered reserves.
    reserves: usize,
    /// Maximum number of reserves in flight; doubles while they bring jobs.
    window: usize,
    /// Whether no job was ready at the last reserve.
    is_dry: bool,
    deadline_soon: DeadlineSoonPause,
    refusals: Refusals,
    keepalive: Keepalive,
    /// The earliest moment at which a job may need attention.
    due: Option<Instant>,
    actions: VecDeque<Action>,
    /// News for the observers of commands.
    later: Later,
    suspicion: PoisonInspection,
    has_warned: bool,
    ending: Ending,
    /// When running jobs are abandoned, after a stop.
    stop: Option<Instant>,
    state: SlotState,
}

#[derive(Debug)]
struct Settings {
    server: usize,
    tubes: Vec<TubeName>,
    max_body: usize,
    places: usize,
    heartbeat: Heartbeat,
    retries: crate::Retries,
    dead_letter: Option<TubeName>,
    wait: Duration,
    /// Whether connections to other servers, or for other tubes, have the same limit.
    shares_limit: bool,
    /// Whether to end when no job is ready, and how long to try to reach the server before.
    until_empty: Option<RetryPolicy>,
    grace: Duration,
}

#[derive(Debug)]
struct Expected {
    ticket: Ticket,
    what: ExpectedReply,
    sent: Instant,
    /// How long the server may hold the answer back.
    wait: Duration,
    /// Its observation, if observed.
    observation: Option<Box<Operation>>,
}

#[derive(Debug, Clone, Copy)]
enum ExpectedReply {
    WatchList,
    Server,
    Reserve,
    Look(JobKey),
    Touch(JobKey),
    /// The dead-letter tube, into which a copy of the job is to be put.
    DeadLetterTube(JobKey, Priority),
    /// The copy of the job in the dead-letter tube.
    DeadLetter(JobKey, Priority),
    Finish(JobKey, JobFate),
    /// The answer does not matter.
    Nudge,
}

#[derive(Debug, PartialEq)]
enum Ending {
    No,
    /// Takes no further job.
    Stopping,
    /// The sending side was closed then.
    HalfClosed(Instant),
    /// Done: there will be no other connection.
    Done,
}

impl WorkerSlot {
    /// The `slot`-th slot for the `server`-th server of these options, without a connection. It watches these tubes, at
    /// least one.
    #[must_use]
    pub fn new(options: &WorkerOptions, server: usize, slot: u64, tubes: Vec<TubeName>) -> Self {
        let connect =
            options.servers.options().get(server).or_else(|| options.servers.options().first());
        let max_body = connect.map_or(0, |connect| connect.max_body_size);
        let policy = options.retry(server, slot);
        let settings = Settings {
            server,
            tubes,
            max_body,
            places: options.prefetch.max(1),
            heartbeat: options.heartbeat,
            retries: options.retries,
            dead_letter: options.dead_letter.clone(),
            wait: if options.until_empty { Duration::ZERO } else { options.reserve_wait },
            shares_limit: options.limit.is_some() && options.has_unequal_slots(),
            until_empty: options.until_empty.then_some(policy),
            grace: options.grace,
        };
        let (connect_timeout, deadlines) =
            connect.map_or((None, Deadlines::new(None, None)), |connect| {
                let timeout = connect.total_timeout.unwrap_or(Duration::MAX);
                let (reply, write) = (connect.reply_timeout, connect.write_timeout);
                let deadlines = Deadlines::new(Some(reply), Some(write));
                (Some(timeout.min(connect.connect_timeout)), deadlines)
            });
        WorkerSlot {
            settings,
            asking: RequestReporter::new(connect),
            claimed: Claimed::new(options.limit.clone()),
            shares: None,
            session: Session::new(max_body),
            life: Life::new(policy, connect_timeout, deadlines, Replace::Later),
            connection: Connection::default(),
            expected: VecDeque::new(),
            held: Jobs::default(),
            given: VecDeque::new(),
            keys: 0,
            reserves: 0,
            window: 1,
            is_dry: false,
            deadline_soon: DeadlineSoonPause::default(),
            refusals: Refusals::new(policy.delays()),
            keepalive: Keepalive::default(),
            due: None,
            actions: VecDeque::new(),
            later: Later::default(),
            suspicion: PoisonInspection::new(options, policy.random()),
            has_warned: false,
            ending: Ending::No,
            stop: None,
            state: SlotState::Connecting,
        }
    }

    /// The next action for the handlers. Call it after every exchange until it returns `None`.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether actions are pending.
    #[must_use]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// The state of the slot.
    #[must_use]
    pub fn state(&self) -> SlotState {
        self.state
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.life.is_connected()
    }

    /// Wakes the waker when no further job may be taken.
    pub fn wake_when_enough(&mut self, waker: &std::task::Waker) {
        self.claimed.wake_when_reached(waker);
    }

    /// Metrics since the last call.
    #[must_use]
    pub fn take_metrics(&mut self) -> Metrics {
        std::mem::take(self.session.metrics_mut())
    }

    fn is_leaving(&self) -> bool {
        self.stop.is_some() || self.ending == Ending::Done
    }

    /// The tube of its jobs, if it watches only one.
    fn only_tube(&self) -> Option<&TubeName> {
        match self.settings.tubes.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Queues a command. If that fails, the connection is closed, and nothing is sent.
    fn queue<C: Command>(&mut self, command: &C, what: ExpectedReply, now: Instant) {
        self.queue_observed(command, what, None, now);
    }

    /// The same for an observed one.
    fn queue_observed<C: Command>(
        &mut self,
        command: &C,
        what: ExpectedReply,
        observation: Option<Box<Operation>>,
        now: Instant,
    ) {
        let wait = match command.server_wait() {
            ServerWait::AtMost(wait) => wait,
            _ => Duration::ZERO,
        };
        match self.session.send(command) {
            Ok(ticket) => {
                self.expected.push_back(Expected { ticket, what, sent: now, wait, observation });
            }
            Err(error) => self.life.close_with(error),
        }
    }

    fn find(&self, key: JobKey) -> Option<&HeldJob> {
        self.held.find(key)
    }

    fn find_mut(&mut self, key: JobKey) -> Option<&mut HeldJob> {
        self.held.find_mut(key)
    }

    fn notify(&mut self, what: WorkerEventKind) {
        self.actions.push_back(Action::Tell(what));
    }

    fn update(&mut self, key: JobKey, change: ReservationChange) {
        self.actions.push_back(Action::Update(key, change));
    }

    /// Handles a refusal of a request that will be repeated. Reported once for each pause.
    fn refuse(&mut self, command: &'static str, reply: &Response, now: Instant) {
        self.refuse_for(command, reply.word(), now);
    }

    fn refuse_for(&mut self, command: &'static str, reply: &'static str, now: Instant) {
        if let Some((in_a_row, pause)) = self.refusals.refused(now) {
            self.notify(WorkerEventKind::Refused { command, reply, in_a_row, pause });
        }
    }

    /// Notes that the server carried out an essential request.
    fn succeed(&mut self) {
        self.refusals.succeeded();
        self.connection.has_succeeded = true;
    }
}

impl Role for WorkerSlot {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let pulse = queue_core::exchange(self, io, now);
        self.claimed.append_woken_to(&mut io.wake);
        self.later.append_to(&mut io.later);
        pulse
    }
}
