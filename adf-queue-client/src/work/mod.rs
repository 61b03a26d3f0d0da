//! Shared by both faces of the worker.

#[cfg(any(feature = "tokio", feature = "blocking"))]
mod context;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod handlers;
mod options;
mod outcome;
mod report;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod test_job;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod worker_status;

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::{
    context::JobContext,
    test_job::TestJob,
    worker_status::{ServerStatus, WorkerHandle},
};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) use self::{
    handlers::{Ended, MessageLoss, panicked},
    worker_status::WorkerStatus,
};
pub use self::{
    options::WorkerOptions,
    outcome::{Decision, IntoOutcome, Outcome},
    report::{JobFate, LostReason, WorkerEvent, WorkerEventKind, WorkerReport},
};
