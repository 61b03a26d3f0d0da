//! Streams with timeouts, how to connect one, and threads for handlers: std alone, no runtime, no hidden thread.

mod connect;
mod desk;
mod prompt;
mod pump;
mod stream;
#[cfg(feature = "__rustls")]
mod tls;
mod transport;

pub use self::{
    connect::{Connector, connect},
    desk::{Closing, Desk},
    pump::{Drive, Wire},
    stream::Stream,
    transport::Transport,
};
