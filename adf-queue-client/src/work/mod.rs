//! Shared by both faces of the worker.

mod context;
mod handlers;
mod options;
mod outcome;
mod report;
mod test_job;
mod worker_status;

pub use self::{
    context::JobContext,
    test_job::TestJob,
    worker_status::{ServerStatus, WorkerHandle},
};
pub(crate) use self::{
    handlers::{Ended, MessageLoss, panicked},
    worker_status::WorkerStatus,
};
pub use self::{
    options::WorkerOptions,
    outcome::{Decision, IntoOutcome, Outcome},
    report::{JobFate, LostReason, WorkerEvent, WorkerEventKind, WorkerReport},
};
