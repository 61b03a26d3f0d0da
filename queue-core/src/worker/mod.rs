//! Shared by the workers of all queues: limits, stops, reports, and handlers that decide, panic or are services.

pub(crate) mod claimed;
pub(crate) mod contain;
mod decision;
pub(crate) mod deferrals;
pub(crate) mod job_limit;
pub(crate) mod quick;
#[cfg(any(feature = "blocking", feature = "tokio"))]
pub(crate) mod registered;
mod report;
#[cfg(feature = "tower")]
pub(crate) mod service;
pub(crate) mod stop;
