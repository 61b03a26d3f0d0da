//! What a producer tells about itself.

/// What a producer's connection to a server is doing.
///
/// Of several servers' states, the greatest says what the producer can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProducerState {
    /// It has ended, and is not made again.
    Closed,
    /// There is none, because nothing is to be sent.
    Idle,
    /// It failed; the next attempt waits for its time.
    Backoff,
    /// It is being made.
    Connecting,
    /// Puts go out at once.
    Ready,
}

/// What a producer has done so far.
///
/// Every accepted put is counted once more when it is over: as `inserted`, `buried`, `refused`, `not_sent` or
/// `unknown`. A put whose future was dropped counts, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerReport {
    /// Puts that were let into the queue.
    pub accepted: u64,
    /// Puts that the server has acknowledged.
    pub inserted: u64,
    /// Puts that the server could only bury.
    pub buried: u64,
    /// Puts that a server refused for good.
    pub refused: u64,
    /// Puts that were given up before their last byte was sent.
    pub not_sent: u64,
    /// Puts that were given up when their last byte had been, or might still be, sent.
    pub unknown: u64,
    /// How often puts of unknown fate were sent again.
    pub resent: u64,
    /// How often puts went to another server than they were meant for.
    pub moved: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Puts in the queue now.
    pub queued_jobs: usize,
    /// What the puts in the queue take of [`max_bytes`](crate::ProducerOptions::max_bytes).
    pub queued_bytes: usize,
    /// The servers, in the order in which they were given.
    pub servers: Vec<ServerReport>,
}

/// A producer's view of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// Its address.
    pub address: String,
    /// What the connection to it is doing.
    pub state: ProducerState,
    /// Why the last connection failed, or why the server last took no jobs.
    pub last_error: Option<String>,
}
