//! The async face: its API, and the tasks that move its bytes.

#[cfg(feature = "tokio")]
pub(crate) mod admin;
#[cfg(feature = "tokio")]
pub(crate) mod call;
#[cfg(feature = "tokio")]
pub(crate) mod client;
#[cfg(feature = "tokio")]
pub(crate) mod dispatch;
#[cfg(feature = "tokio")]
pub(crate) mod job;
#[cfg(feature = "tokio")]
pub(crate) mod lane;
#[cfg(feature = "tokio")]
pub(crate) mod link;
#[cfg(feature = "tokio")]
pub(crate) mod many;
#[cfg(feature = "tokio")]
pub(crate) mod packets;
#[cfg(feature = "tokio")]
pub(crate) mod route;
#[cfg(feature = "stream")]
pub(crate) mod streams;
#[cfg(feature = "tokio")]
pub(crate) mod worker;
