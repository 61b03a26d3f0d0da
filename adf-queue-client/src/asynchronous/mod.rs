//! The async face: its methods, and the tasks that move its bytes.

pub(crate) mod client;
pub(crate) mod http;
pub(crate) mod link;
pub(crate) mod pipeline;
pub(crate) mod producer;
#[cfg(feature = "stream")]
pub(crate) mod streams;
pub(crate) mod worker;
