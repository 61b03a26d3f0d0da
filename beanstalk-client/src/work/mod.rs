//! Shared by the workers of both faces: options, outcomes, reports.

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod board;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod report;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod view;
