//! One server of a blocking client over HTTP: one request at a time, on a connection that is kept if the server allows.

use bytes::Bytes;
use queue_core::{ConnectionState, Io, Limit, blocking::Wire, now, sync::thread};

use crate::{
    ConnectOptions, Error, Metrics, QueueName, Result,
    protocol::client::{
        Ask, AskAnswer,
        course::CallCourse,
        exchange::{Exchange, HttpRequest, Reply},
        pool::{ConnectionPool, FaceWire, PooledConnection, unmoved},
        step::{ClientStep, RequestSettings},
    },
    trace,
};

impl FaceWire for Wire<Error> {
    fn io(&self) -> &Io<Error> {
        Wire::io(self)
    }
}

/// A server, and the connections to it: an idle one, and those of abandoned pulls.
#[derive(Debug)]
pub(super) struct Http {
    options: ConnectOptions,
    terms: RequestSettings,
    pool: ConnectionPool<Wire<Error>>,
}

impl Http {
    pub(super) fn new(options: ConnectOptions) -> Self {
        Http {
            terms: RequestSettings::of(&options),
            pool: ConnectionPool::new(options.seed),
            options,
        }
    }

    /// Makes a request, and waits for its outcome.
    pub(super) fn run(&mut self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        let course = CallCourse::new(ask, limit, &self.terms, || self.pool.id(), now());
        let outcome = course.and_then(|course| self.follow(course));
        self.reported(outcome)
    }

    /// The status page of one queue, or of all.
    pub(super) fn page(&mut self, queue: Option<&QueueName>, limit: Limit) -> Result<Bytes> {
        let request = HttpRequest::page(queue, &self.terms.host)?;
        let outcome = self.ask(request, limit).and_then(Reply::page);
        self.reported(outcome)
    }

    /// Counts and records a failure.
    fn reported<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| {
            self.pool.failed(error);
            trace::failed(error);
        })
    }

    /// Closes the idle connection.
    pub(super) fn disconnect(&mut self) {
        drop(self.pool.close_kept());
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        self.pool.state()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.pool.metrics()
    }

    fn follow(&mut self, mut course: CallCourse) -> Result<AskAnswer> {
        let mut last = None;
        loop {
            last = match course.next(last.take(), now()) {
                ClientStep::Adopt(queue, limit) => self.adopt(&queue, limit),
                ClientStep::Ask(request, limit) => Some(self.ask(request, limit)),
                ClientStep::Wait(at) => {
                    thread::sleep(at.saturating_duration_since(now()));
                    None
                }
                ClientStep::Over(outcome) => return outcome,
            };
        }
    }

    /// The outcome of an abandoned pull.
    fn adopt(&mut self, queue: &QueueName, limit: Limit) -> Option<Result<Reply>> {
        let mut lane = self.pool.adopt(queue)?;
        lane.role.adopt(limit, now());
        Some(self.outcome(lane))
    }

    fn ask(&mut self, request: HttpRequest, limit: Limit) -> Result<Reply> {
        if let Some(pull) = request.pull() {
            self.pool.check_room()?;
            trace::pulling(&self.options.address, pull);
        }
        let mut lane = self.lane();
        lane.role.begin(request, limit, now());
        self.outcome(lane)
    }

    fn outcome(&mut self, mut lane: PooledConnection<Wire<Error>>) -> Result<Reply> {
        let outcome = lane.wire.call(&mut lane.role, Exchange::outcome);
        drop(self.pool.put(lane, now()));
        let outcome = outcome.unwrap_or_else(|| Err(unmoved()));
        if let Ok(Reply::Success(request, _)) = &outcome {
            drop(self.pool.done(request));
        }
        outcome
    }

    fn lane(&mut self) -> PooledConnection<Wire<Error>> {
        self.pool.take(now()).0.unwrap_or_else(|| {
            let role = Exchange::new(self.options.clone(), self.pool.number());
            PooledConnection { role, wire: Wire::to(&self.options) }
        })
    }
}
