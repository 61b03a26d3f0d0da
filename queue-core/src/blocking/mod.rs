//! Streams with timeouts, connecting, and threads for handlers, using only std: no runtime and no hidden thread.

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
    desk::{Closing, Desk, Slices},
    duplex::Duplex,
    pump::{Drive, Wire},
    transport::Transport,
};
