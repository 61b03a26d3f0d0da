//! One server of an async client over HTTP: a connection for each request in flight.

use std::future::poll_fn;

use bytes::Bytes;
use queue_core::{
    ConnectionState, Io, Limit, Wire, lock, now,
    sync::{Mutex, MutexGuard},
    within,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

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

/// A server, and the connections to it. Callers that find all connections in use queue fairly.
pub(crate) struct Http {
    options: ConnectOptions,
    terms: RequestSettings,
    pool: Mutex<ConnectionPool<Wire<Error>>>,
    requests: Semaphore,
    /// Separate, because a pull may wait for hours, which must not hold up other requests.
    pulls: Semaphore,
}

impl Http {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        Http {
            terms: RequestSettings::of(&options),
            pool: Mutex::new(ConnectionPool::new(options.seed)),
            requests: Semaphore::new(options.max_connections),
            pulls: Semaphore::new(options.max_connections),
            options,
        }
    }

    /// Makes a request, and waits for its outcome.
    pub(crate) async fn run(&self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        let course = CallCourse::new(ask, limit, &self.terms, || self.pool().id(), now());
        self.reported(match course {
            Ok(course) => self.follow(course).await,
            Err(error) => Err(error),
        })
    }

    /// The status page of one queue, or of all.
    pub(crate) async fn page(&self, queue: Option<&QueueName>, limit: Limit) -> Result<Bytes> {
        let request = HttpRequest::page(queue, &self.terms.host)?;
        self.reported(self.ask(request, limit).await.and_then(Reply::page))
    }

    /// Counts and records a failure.
    fn reported<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| {
            self.pool().failed(error);
            trace::failed(error);
        })
    }

    /// Closes the idle connections.
    pub(crate) fn disconnect(&self) {
        let closed = self.pool().close_kept();
        drop(closed);
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.pool().state()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.pool().metrics().clone()
    }

    fn pool(&self) -> MutexGuard<'_, ConnectionPool<Wire<Error>>> {
        lock(&self.pool)
    }

    async fn follow(&self, mut course: CallCourse) -> Result<AskAnswer> {
        let mut last = None;
        loop {
            last = match course.next(last.take(), now()) {
                ClientStep::Adopt(queue, limit) => self.adopt(&queue, limit).await,
                ClientStep::Ask(request, limit) => Some(self.ask(request, limit).await),
                ClientStep::Wait(at) => {
                    sleep_until(Instant::from_std(at)).await;
                    None
                }
                ClientStep::Over(outcome) => return outcome,
            };
        }
    }

    /// The outcome of an abandoned pull.
    async fn adopt(&self, queue: &QueueName, limit: Limit) -> Option<Result<Reply>> {
        let mut lane = self.pool().adopt(queue)?;
        lane.role.adopt(limit, now());
        Some(BorrowedConnection { http: self, lane: Some(lane) }.outcome().await)
    }

    async fn ask(&self, request: HttpRequest, limit: Limit) -> Result<Reply> {
        let turns = if request.pull().is_some() { &self.pulls } else { &self.requests };
        // The permit is released once the connection is back.
        let connecting = request.connecting(limit);
        let _turn = within(connecting, turns.acquire()).await?.map_err(|_| unmoved())?;
        if let Some(pull) = request.pull() {
            self.pool().check_room()?;
            trace::pulling(&self.options.address, pull);
        }
        let mut lane = self.lane();
        lane.role.begin(request, limit, now());
        BorrowedConnection { http: self, lane: Some(lane) }.outcome().await
    }

    fn lane(&self) -> PooledConnection<Wire<Error>> {
        let (lane, closed) = self.pool().take(now());
        drop(closed);
        lane.unwrap_or_else(|| {
            let role = Exchange::new(self.options.clone(), self.pool().number());
            PooledConnection { role, wire: Wire::to(&self.options) }
        })
    }
}

/// A connection in use, which returns to the pool however the request ends.
struct BorrowedConnection<'h> {
    http: &'h Http,
    lane: Option<PooledConnection<Wire<Error>>>,
}

impl BorrowedConnection<'_> {
    /// The outcome of the request on this connection.
    async fn outcome(mut self) -> Result<Reply> {
        let Some(PooledConnection { role, wire }) = &mut self.lane else { return Err(unmoved()) };
        let outcome = poll_fn(|cx| wire.poll(cx, role, Exchange::outcome)).await;
        let outcome = outcome.unwrap_or_else(|| Err(unmoved()));
        if let Ok(Reply::Success(request, _)) = &outcome {
            let closed = self.http.pool().done(request);
            drop(closed);
        }
        outcome
    }
}

impl Drop for BorrowedConnection<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            let closed = self.http.pool().put(lane, now());
            drop(closed);
        }
    }
}
