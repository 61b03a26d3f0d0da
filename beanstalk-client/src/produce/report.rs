//! Reports of a producer.

use std::fmt;

use crate::ConnectionState;

/// A producer's counters.
///
/// Every accepted put is counted once more when it ends, as `inserted`, `buried`, `refused`, `not_sent` or `unknown`,
/// even if its future was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProducerReport {
    /// Puts accepted into the queue.
    pub accepted: u64,
    /// Puts that the server has acknowledged.
    pub inserted: u64,
    /// Puts whose job the server had to bury.
    pub buried: u64,
    /// Puts permanently refused by a server.
    pub refused: u64,
    /// Puts that were abandoned before their last byte was sent.
    pub not_sent: u64,
    /// Puts that were abandoned after their last byte was, or may have been, sent.
    pub unknown: u64,
    /// How often puts of unknown fate were resent.
    pub resent: u64,
    /// How often puts were moved to another server.
    pub moved: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Puts in the queue now.
    pub queued_jobs: usize,
    /// The share of [`max_bytes`](crate::ProducerOptions::max_bytes) used by the puts in the queue.
    pub queued_bytes: usize,
    /// The servers, in the order in which they were given.
    pub servers: Vec<ServerReport>,
}

impl ProducerReport {
    /// Whether every finished put became a job that can run: none was abandoned, refused or buried.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.buried == 0 && self.refused == 0 && self.not_sent == 0 && self.unknown == 0
    }
}

impl fmt::Display for ProducerReport {
    /// Formats the counters on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} jobs put", self.inserted, self.accepted)?;
        let others = [
            (self.buried, "buried"),
            (self.refused, "refused"),
            (self.not_sent, "not sent"),
            (self.unknown, "of unknown fate"),
            (self.resent, "sent again"),
            (self.moved, "moved to another server"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        write!(f, "; {}", queue_core::counted(self.connections, "connection"))
    }
}

/// A producer's view of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ServerReport {
    /// Its address.
    pub address: String,
    /// The state of the connection to it.
    pub state: ConnectionState,
    /// Why the last connection failed, or why the server last refused jobs.
    pub last_error: Option<String>,
}

impl fmt::Display for ServerReport {
    /// Formats the address, the state and the last error on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.state)?;
        let error = self.last_error.as_ref();
        error.map_or(Ok(()), |error| write!(f, " (last error: {})", error.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_mentions_failures_only() {
        let report =
            ProducerReport { accepted: 9, inserted: 9, connections: 1, ..Default::default() };
        assert!(report.is_complete());
        assert_eq!(report.to_string(), "9 of 9 jobs put; 1 connection");
        let report = ProducerReport { inserted: 7, unknown: 2, resent: 1, ..report };
        assert!(!report.is_complete());
        assert_eq!(
            report.to_string(),
            "7 of 9 jobs put, 2 of unknown fate, 1 sent again; 1 connection"
        );
    }
}
