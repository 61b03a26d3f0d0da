//! What the workers of every queue share: limits, the stop, handlers that panic or are services.

pub(crate) mod claimed;
pub(crate) mod contain;
pub(crate) mod job_limit;
pub(crate) mod quick;
#[cfg(feature = "tower")]
pub(crate) mod service;
pub(crate) mod stop;
