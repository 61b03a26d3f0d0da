//! A job as its client sees it: how it is submitted, where it is, what it reports; and what the client reports.

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod client_events;
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod submit;
