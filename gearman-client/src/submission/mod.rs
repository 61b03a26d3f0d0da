//! A client's view of a job: its submission, handle and events; and the events of the client.

pub(crate) mod client_events;
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod submit;
