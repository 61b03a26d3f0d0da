//! Shared by the producers of both faces: options, events, reports.

pub(crate) mod events;
pub(crate) mod options;
pub(crate) mod report;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod shared;
