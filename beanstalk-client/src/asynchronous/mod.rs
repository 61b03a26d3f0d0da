//! The async face: its API, and the tasks that move its bytes.

#[cfg(feature = "tokio")]
pub(crate) mod client;
#[cfg(feature = "tokio")]
pub(crate) mod jobs;
#[cfg(feature = "tokio")]
pub(crate) mod pipeline;
#[cfg(feature = "tokio")]
pub(crate) mod producer;
#[cfg(feature = "stream")]
pub(crate) mod streams;
#[cfg(feature = "tokio")]
pub(crate) mod worker;
