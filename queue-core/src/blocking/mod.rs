//! Streams with timeouts, and how to connect one: std alone, no runtime, no hidden thread.

mod connect;
mod stream;
#[cfg(feature = "__rustls")]
mod tls;
mod transport;

pub use self::{
    connect::{Connector, connect},
    stream::Stream,
    transport::Transport,
};
