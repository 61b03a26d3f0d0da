//! Idle HTTP connections and abandoned pulls.

use std::{io, mem, time::Instant};

use queue_core::{ConnectionError, Io, Random};

use super::exchange::Exchange;
use crate::{
    ConnectionState, Error, Fate, Metrics, QueueName, RequestId, Result,
    protocol::{Action, Request},
    trace,
};

/// A connection with its role; `W` is the wire of a face.
#[derive(Debug)]
pub(crate) struct PooledConnection<W> {
    pub(crate) role: Exchange,
    pub(crate) wire: W,
}

/// The state of a connection as its face's wire sees it.
pub(crate) trait FaceWire {
    fn io(&self) -> &Io<Error>;
}

/// Idle connections, and pulls that wait for a caller.
///
/// Connections are closed only when the pool is next used, or dropped: no task looks after them. A face may hold a lock
/// on the pool, and the streams of a custom connector are user code, so they are returned to be dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPool<W: FaceWire> {
    /// Ordered by last use.
    kept: Vec<PooledConnection<W>>,
    given_up: Vec<PooledConnection<W>>,
    /// Number of connections numbered so far.
    numbers: u64,
    metrics: Metrics,
    is_well: bool,
    /// The seeded source of ids, if configured.
    seeded: Option<Random>,
}

/// Maximum number of idle connections.
const MOST_KEPT: usize = 16;
/// Maximum number of abandoned pulls on the server; each of them occupies a thread there.
const MOST_GIVEN_UP: usize = 16;

impl<W: FaceWire> Drop for ConnectionPool<W> {
    fn drop(&mut self) {
        for pull in self.given_up.iter().filter_map(PooledConnection::given_up) {
            trace::forsaken(pull);
        }
    }
}

impl<W: FaceWire> PooledConnection<W> {
    fn given_up(&self) -> Option<&Request> {
        self.role.given_up(self.wire.io())
    }
}

impl<W: FaceWire> ConnectionPool<W> {
    /// An empty pool; a seed makes its ids repeatable.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        ConnectionPool {
            kept: Vec::new(),
            given_up: Vec::new(),
            numbers: 0,
            metrics: Metrics::default(),
            is_well: false,
            seeded: seed.map(Random::new),
        }
    }

    /// An id for a request. A pull's id has to be unique on the server.
    pub(crate) fn id(&mut self) -> RequestId {
        match &mut self.seeded {
            Some(random) => RequestId::of_chance(random.next_u64(), random.next_u64()),
            None => RequestId::unique(),
        }
    }

    /// An idle connection, and those to close because they were idle too long.
    pub(crate) fn take(
        &mut self,
        now: Instant,
    ) -> (Option<PooledConnection<W>>, Vec<PooledConnection<W>>) {
        let closed = self.no_longer_kept(now);
        (self.kept.pop(), closed)
    }

    /// Puts a connection back after its caller has finished or gone. Returns connections to close.
    #[must_use]
    pub(crate) fn put(
        &mut self,
        mut lane: PooledConnection<W>,
        now: Instant,
    ) -> Vec<PooledConnection<W>> {
        let (seen, is_well) = lane.role.take_seen();
        self.metrics.add(&seen);
        // Each connection but the first replaces one, whichever exchange that one belonged to.
        self.metrics.reconnects = self.metrics.connections.saturating_sub(1);
        self.is_well = is_well.unwrap_or(self.is_well);
        if lane.given_up().is_some() {
            self.given_up.push(lane);
            return Vec::new();
        }
        let mut closed = self.no_longer_kept(now);
        if lane.role.is_kept(now) && self.kept.len() < MOST_KEPT {
            self.kept.push(lane);
        } else {
            closed.push(lane);
        }
        closed
    }

    fn no_longer_kept(&mut self, now: Instant) -> Vec<PooledConnection<W>> {
        self.kept.extract_if(.., |lane| !lane.role.is_kept(now)).collect()
    }

    /// The oldest abandoned pull of this queue.
    pub(crate) fn adopt(&mut self, queue: &QueueName) -> Option<PooledConnection<W>> {
        let is_of_queue =
            |lane: &PooledConnection<W>| lane.given_up().is_some_and(|pull| pull.queue() == queue);
        let at = self.given_up.iter().position(is_of_queue)?;
        Some(self.given_up.remove(at))
    }

    /// An action has succeeded. If it settled the message of an abandoned pull, its connection is to be closed.
    #[must_use]
    pub(crate) fn done(&mut self, request: &Request) -> Vec<PooledConnection<W>> {
        if !matches!(request.action(), Action::Delete | Action::Lcancel | Action::Rcancel) {
            return Vec::new();
        }
        let is_done = |lane: &mut PooledConnection<W>| {
            lane.given_up().is_none_or(|pull| pull.id() == request.id())
        };
        self.given_up.extract_if(.., is_done).collect()
    }

    /// Whether another pull may be sent, which may also be abandoned.
    ///
    /// # Errors
    ///
    /// `Unsupported` when too many abandoned pulls wait on the server.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.given_up.len() < MOST_GIVEN_UP {
            return Ok(());
        }
        let message = format!(
            "{MOST_GIVEN_UP} abandoned pulls over HTTP still wait on the server, which cannot cancel them: pull from their queues again, or use WebSocket"
        );
        Err(Error::unsupported(message))
    }

    /// The idle connections, to be closed.
    #[must_use]
    pub(crate) fn close_kept(&mut self) -> Vec<PooledConnection<W>> {
        self.is_well = false;
        mem::take(&mut self.kept)
    }

    /// A number for the next connection, which makes its delays its own.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The metrics of connections that were put back.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn failed(&mut self, error: &Error) {
        self.metrics.failed(error.kind().counted());
    }

    /// Whether the server answered the last request.
    pub(crate) fn state(&self) -> ConnectionState {
        if self.is_well { ConnectionState::Ready } else { ConnectionState::Idle }
    }
}

/// The error for a request without an outcome, whose wire is no longer moved.
pub(crate) fn unmoved() -> Error {
    Error::lost(io::ErrorKind::NotConnected.into()).with_fate(Fate::NotSent)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_core::{Limit, Pulse, Role};

    use super::*;
    use crate::{
        ConnectOptions, ErrorKind,
        protocol::{Encoding, client::exchange::HttpRequest},
    };

    impl FaceWire for Io<Error> {
        fn io(&self) -> &Io<Error> {
            self
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// A connection with this request and, if there is one, its answer.
    fn lane(request: Request, answer: Option<&str>, now: Instant) -> PooledConnection<Io<Error>> {
        let options: ConnectOptions = "http://server:1".parse().unwrap();
        let (mut role, mut io) = (Exchange::new(options, 0), Io::default());
        let asked = HttpRequest::action(Encoding::Json, request, "server:1").unwrap();
        role.begin(asked, Limit::never(), now);
        assert!(matches!(role.exchange(&mut io, now), Pulse::Dial { .. }));
        io.opened();
        assert_eq!(role.exchange(&mut io, now), Pulse::Peek);
        io.looked(now);
        role.exchange(&mut io, now);
        io.took(io.unsent().len(), now);
        if let Some(answer) = answer {
            io.space()[..answer.len()].copy_from_slice(answer.as_bytes());
            io.came(answer.len());
        }
        role.exchange(&mut io, now);
        assert_eq!(role.outcome().is_some(), answer.is_some());
        PooledConnection { role, wire: io }
    }

    fn kept(now: Instant) -> PooledConnection<Io<Error>> {
        let answer = "HTTP/1.1 200 OK\nConnection: keep-alive\nContent-Length: 1\n\nx";
        lane(Request::count("h1".parse().unwrap(), "/q".parse().unwrap()), Some(answer), now)
    }

    fn given_up(id: &str, queue: &str, now: Instant) -> PooledConnection<Io<Error>> {
        lane(Request::pull(id.parse().unwrap(), queue.parse().unwrap()), None, now)
    }

    #[test]
    fn connections_are_kept_within_bounds_of_number_and_time() {
        let (mut pool, now) = (ConnectionPool::new(None), queue_core::now());
        let mut closed = 0;
        for n in 0..40 {
            closed += pool.put(kept(now + n * SECOND / 10), now + n * SECOND / 10).len();
        }
        assert_eq!((pool.kept.len(), closed), (MOST_KEPT, 40 - MOST_KEPT));
        let (mut found, mut old) = (0, 0);
        while let (Some(_), closed) = pool.take(now + 6 * SECOND) {
            (found, old) = (found + 1, old + closed.len());
        }
        assert_eq!(found, 5, "those that have waited for less than 5 seconds");
        assert_eq!(found + old, MOST_KEPT);
        let Metrics { connections, reconnects, replies, .. } = pool.metrics();
        assert_eq!((*connections, *reconnects, *replies), (40, 39, 40));
        assert_eq!(pool.state(), ConnectionState::Ready);
        assert!(pool.put(kept(now), now).is_empty());
        assert_eq!(pool.close_kept().len(), 1);
        assert!(pool.take(now).0.is_none());
    }

    #[test]
    fn a_pull_that_was_given_up_goes_to_the_next_of_its_queue_and_the_oldest_first() {
        let (mut pool, now) = (ConnectionPool::new(None), queue_core::now());
        for (id, queue) in [("1", "/a"), ("2", "/b"), ("3", "/a")] {
            assert!(pool.put(given_up(id, queue, now), now).is_empty());
        }
        assert!(pool.take(now).0.is_none(), "none of them is free");
        let mut adopted = |queue: &str| {
            let lane = pool.adopt(&queue.parse().unwrap())?;
            Some(lane.given_up()?.id().to_string())
        };
        assert_eq!(adopted("/c"), None);
        assert_eq!(
            ["/a", "/a", "/a", "/b"].map(adopted),
            [Some("1".into()), Some("3".into()), None, Some("2".into())]
        );
    }

    #[test]
    fn a_pull_whose_message_was_settled_is_waited_for_no_more() {
        let (mut pool, now) = (ConnectionPool::new(None), queue_core::now());
        for id in ["1", "2"] {
            assert!(pool.put(given_up(id, "/a", now), now).is_empty());
        }
        let (id, queue) = (|| "1".parse().unwrap(), || "/a".parse().unwrap());
        assert_eq!(pool.done(&Request::count(id(), queue())).len(), 0);
        assert_eq!(pool.done(&Request::lcancel(id(), queue())).len(), 1);
        assert_eq!(pool.adopt(&queue()).unwrap().given_up().unwrap().id().as_str(), "2");
        assert!(pool.adopt(&queue()).is_none());
    }

    #[test]
    fn pulls_are_refused_once_too_many_were_given_up() {
        let (mut pool, now) = (ConnectionPool::new(None), queue_core::now());
        for n in 0..MOST_GIVEN_UP {
            pool.check_room().unwrap();
            assert!(pool.put(given_up(&n.to_string(), "/a", now), now).is_empty());
        }
        let error = pool.check_room().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Unsupported, Fate::NotSent));
        assert!(error.to_string().contains("use WebSocket"), "{error}");
        pool.adopt(&"/a".parse().unwrap()).unwrap();
        pool.check_room().unwrap();
    }

    #[test]
    fn failed_calls_are_counted() {
        let mut pool = ConnectionPool::<Io<Error>>::new(None);
        pool.failed(&unmoved());
        assert_eq!(pool.metrics().errors.iter().map(|(_, times)| times).sum::<u64>(), 1);
    }

    #[test]
    fn a_seed_gives_the_same_ids_again() {
        let ids = |seed| {
            let mut pool = ConnectionPool::<Io<Error>>::new(seed);
            [pool.id(), pool.id()]
        };
        assert_eq!(ids(Some(7)), ids(Some(7)));
        assert_ne!(ids(Some(7)), ids(Some(8)));
        assert_ne!(ids(None), ids(None));
        assert_ne!(ids(Some(7))[0], ids(Some(7))[1]);
    }
}
