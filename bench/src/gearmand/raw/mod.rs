//! The limit: loops over plain sockets, written by hand for one purpose each.
//!
//! No error handling beyond noticing that something is wrong, no deadlines, no reconnecting, no types; what a program
//! would do that knows beforehand what the server will say. Buffers are reused, everything that can go out at once
//! does, and `TCP_NODELAY` is set.

mod blocking;
mod plan;
mod tokio;
mod wire;

pub use self::{
    blocking::{Blocking, Helper, Keeper},
    tokio::Tokio,
};
