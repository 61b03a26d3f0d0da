//! Shared by the workers of both faces: options, outcomes, reports.

pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod report;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod view;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod worker_status;
