//! The async face: its API, and the tasks that move its bytes.

pub(crate) mod admin;
pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod dispatch;
pub(crate) mod job;
pub(crate) mod lane;
pub(crate) mod link;
pub(crate) mod many;
pub(crate) mod packets;
pub(crate) mod route;
#[cfg(feature = "stream")]
pub(crate) mod streams;
pub(crate) mod worker;
