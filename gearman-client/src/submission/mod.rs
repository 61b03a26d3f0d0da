//! A client's view of a job: its submission, handle and events; and the events of the client.

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod client_events;
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod submit;
