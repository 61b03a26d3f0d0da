//! Metrics of a client.

/// Counters of a client, or of one of its connections. They never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Metrics<Kind> {
    /// Connections made, including reconnects.
    pub connections: u64,
    /// Connections that replaced another one to the same server.
    pub reconnects: u64,
    /// Commands queued for writing, including those that restore a client's state.
    pub commands: u64,
    /// Replies read, including those no caller was waiting for.
    pub replies: u64,
    /// Bytes that the transport accepted; with TLS, before encryption.
    pub bytes_out: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Number of failed calls by kind of failure.
    #[cfg_attr(feature = "serde", serde(with = "crate::counts"))]
    #[cfg_attr(feature = "serde", serde(bound(serialize = "Kind: serde::Serialize")))]
    #[cfg_attr(feature = "serde", serde(bound(deserialize = "Kind: serde::Deserialize<'de>")))]
    pub errors: Vec<(Kind, u64)>,
}

impl<Kind> Default for Metrics<Kind> {
    fn default() -> Self {
        Metrics {
            connections: 0,
            reconnects: 0,
            commands: 0,
            replies: 0,
            bytes_out: 0,
            bytes_in: 0,
            errors: Vec::new(),
        }
    }
}

impl<Kind: Clone + PartialEq> Metrics<Kind> {
    /// The number of calls that failed in this way.
    #[must_use]
    pub fn errors_of(&self, kind: Kind) -> u64 {
        self.errors.iter().find(|(known, _)| *known == kind).map_or(0, |(_, count)| *count)
    }

    /// Counts a connection.
    #[doc(hidden)]
    pub fn connected(&mut self) {
        self.reconnects += u64::from(self.connections > 0);
        self.connections += 1;
    }

    /// Counts a failure.
    #[doc(hidden)]
    pub fn failed(&mut self, kind: Kind) {
        self.count(kind, 1);
    }

    fn count(&mut self, kind: Kind, times: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += times,
            None => self.errors.push((kind, times)),
        }
    }

    /// Adds the counters of another connection.
    #[doc(hidden)]
    pub fn add(&mut self, other: &Self) {
        let Metrics { connections, reconnects, commands, replies, bytes_out, bytes_in, errors } =
            other;
        self.connections += connections;
        self.reconnects += reconnects;
        self.commands += commands;
        self.replies += replies;
        self.bytes_out += bytes_out;
        self.bytes_in += bytes_in;
        for (kind, times) in errors {
            self.count(kind.clone(), *times);
        }
    }
}

/// The state of a connection.
///
/// The states are ordered, and the greatest one of several connections says what can be done: one that was not needed
/// yet is better than one that has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConnectionState {
    /// Closed for good.
    Closed,
    /// Failed; the next attempt waits for its delay, or for a call.
    Backoff,
    /// Not connected, because nothing needed it yet, or the connection was lost and the next call makes another. Whether
    /// the server is there is not known: only a request finds out.
    #[default]
    Idle,
    /// Being made.
    Connecting,
    /// Good, as far as known: a server that was lost or frozen since the last request is noticed by the next.
    #[doc(alias = "Connected")]
    Ready,
}

crate::words!(ConnectionState, crate::Error, "state of a connection":
    "closed" = Closed, "backoff" = Backoff, "idle" = Idle, "connecting" = Connecting, "ready" = Ready);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_add_up() {
        let mut one = Metrics::default();
        one.connected();
        one.connected();
        one.failed('a');
        let mut both = one.clone();
        one.failed('b');
        both.add(&one);
        assert_eq!((both.connections, both.reconnects), (4, 2));
        assert_eq!((both.errors_of('a'), both.errors_of('b'), both.errors_of('c')), (2, 1, 0));
    }
}
