//! Streams with timeouts, how to connect one, and threads for handlers: std alone, no runtime, no hidden thread.

mod connect;
mod desk;
mod duplex;
mod prompt;
mod pump;
#[cfg(feature = "__rustls")]
mod tls;
mod transport;

pub use self::{
    connect::{Connector, connect},
    desk::{Closing, Desk},
    duplex::Duplex,
    pump::{Drive, Wire},
    transport::Transport,
};
