//! Streams with timeouts, and how to connect one: std alone, no runtime, no hidden thread.

mod connect;
mod pump;
mod stream;
#[cfg(feature = "__rustls")]
mod tls;
mod transport;

pub use self::{
    connect::{Connector, connect},
    pump::{Drive, Wire},
    stream::Stream,
    transport::Transport,
};
