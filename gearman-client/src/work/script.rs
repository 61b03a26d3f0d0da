//! The script of a handler test, and what the handler has reported.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use queue_core::{Signal, lock, sync::Mutex};

use crate::{
    Error, JobEvent, JobHandle, LostReason, Progress, Result,
    protocol::{Report, worker::work::job_lost},
};

/// Stands in for a worker in the test of a handler.
#[derive(Debug, Default)]
pub(crate) struct Script {
    said: Mutex<Vec<JobEvent>>,
    reason: OnceLock<LostReason>,
    is_lost: Signal,
    pub(crate) stopping: Signal,
}

impl Script {
    pub(crate) fn say(&self, job: &JobHandle, report: Report<'_>) -> Result<()> {
        if self.reason.get().is_some() {
            return Err(job_lost(job));
        }
        let number = |number: u64| Bytes::from(number.to_string());
        let event = match report {
            Report::Status(_, 0) => {
                return Err(Error::invalid("the denominator of a status cannot be 0"));
            }
            Report::Status(done, whole) => {
                JobEvent::Status(Progress::new(number(done), number(whole)))
            }
            Report::Data(data) => JobEvent::Data(Bytes::copy_from_slice(data)),
            Report::Warning(data) => JobEvent::Warning(Bytes::copy_from_slice(data)),
        };
        lock(&self.said).push(event);
        Ok(())
    }

    pub(crate) fn said(&self) -> Vec<JobEvent> {
        lock(&self.said).clone()
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        // The first reason wins.
        let _ = self.reason.set(reason);
        self.is_lost.set();
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        self.reason.get().copied()
    }

    #[cfg(feature = "tokio")]
    pub(crate) async fn lost(&self) -> LostReason {
        self.is_lost.wait().await;
        self.lost_reason().unwrap_or(LostReason::ConnectionLost)
    }

    pub(crate) fn wait_lost(&self, timeout: Duration) -> Option<LostReason> {
        // The reason shows whether it was in time.
        let _ = self.is_lost.wait_timeout(timeout);
        self.lost_reason()
    }
}
