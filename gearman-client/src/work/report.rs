//! The fates of a worker's jobs.

use std::fmt;

queue_core::worker_report! {
    /// Outcomes of a worker's jobs.
    pub struct WorkerReport {
        /// Done, and accepted by the server.
        pub completed: u64,
        /// Failed, and reported to the server.
        pub failed: u64,
        /// Of the failed ones, those that became [dead letters](crate::WorkerOptions::dead_letter).
        pub dead_lettered: u64,
        /// Finished after the server had given the job to another worker: the result is lost.
        pub rejected: u64,
        /// Finished, but the connection was lost before the server showed that it accepted the result.
        pub unknown: u64,
        /// Not finished: the server has given the jobs to other workers.
        pub abandoned: u64,
        /// [Given back](crate::Failure::give_back) by their handlers: the server runs them again.
        pub given_back: u64,
        /// Connections that have [given up](crate::WorkerEventKind::GivenUp) their server: it may have more jobs.
        pub given_up: u64,
        /// Servers to which no connection was ever made, once the worker has ended with them.
        pub never_connected: u64,
    }
}

impl WorkerReport {
    pub(crate) fn count(&mut self, settled: crate::protocol::Settled) {
        use crate::protocol::Settled;
        let count = match settled {
            Settled::Completed => &mut self.completed,
            Settled::Failed => &mut self.failed,
            Settled::Rejected => &mut self.rejected,
            Settled::Unknown => &mut self.unknown,
            Settled::Abandoned => &mut self.abandoned,
            Settled::GivenBack => &mut self.given_back,
        };
        *count += 1;
    }
}

impl fmt::Display for WorkerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} completed, {} failed", self.completed, self.failed)?;
        for (count, what) in [
            (self.dead_lettered, "of them dead-lettered"),
            (self.rejected, "given to others before they were finished"),
            (self.unknown, "finished, but perhaps without the server's knowledge"),
            (self.abandoned, "not finished"),
            (self.given_back, "given back"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if self.given_up > 0 {
            write!(f, ", {} given up", queue_core::counted(self.given_up, "connection"))?;
        }
        if self.never_connected > 0 {
            let servers = queue_core::counted(self.never_connected, "server");
            write!(f, ", {servers} never connected")?;
        }
        Ok(())
    }
}
