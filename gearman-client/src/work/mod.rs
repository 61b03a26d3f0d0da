//! Shared by the workers of both faces: options, failures, outcomes, events, reports.

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod events;
pub(crate) mod failure;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod handle;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod ledger;
pub(crate) mod options;
pub(crate) mod report;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod script;
