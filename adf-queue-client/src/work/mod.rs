//! Shared by both faces of the worker.

#[cfg(any(feature = "tokio", feature = "blocking"))]
mod board;
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
pub(crate) use self::{
    board::Board,
    handlers::{Ended, Loss, panicked},
};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::{
    board::{ServerStatus, WorkerHandle},
    context::JobContext,
    test_job::TestJob,
};
pub use self::{
    options::WorkerOptions,
    outcome::{Decision, IntoOutcome, Outcome},
    report::{JobFate, LostReason, WorkerEvent, WorkerEventKind, WorkerReport},
};
