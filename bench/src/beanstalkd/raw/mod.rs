//! The limit: loops over plain sockets, written by hand for one purpose each.
//!
//! No error handling beyond noticing that something is wrong, no deadlines, no reconnecting, no typed replies; like a
//! program that knows in advance what the server will answer. Buffers are reused, everything that can be sent at once
//! is, and `TCP_NODELAY` is set.

mod blocking;
mod plan;
mod tokio;
mod wire;

pub use self::{blocking::Blocking, tokio::Tokio};
