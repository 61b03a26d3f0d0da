//! Streams with timeouts, connecting, and threads for handlers, using only std: no runtime, and no hidden thread but for
//! attempts to connect that must not block their caller.

mod canceller;
mod connect;
mod dialer;
mod duplex;
mod job_queue;
mod parker;
mod prompt;
mod pump;
#[cfg(feature = "__rustls")]
mod tls;
mod transport;

pub use self::{canceller::Canceller, duplex::Duplex};
#[doc(hidden)]
pub use self::{
    connect::{Connector, connect},
    job_queue::{JobQueue, QueueCloser, Slices},
    parker::{Parker, SharedParker},
    pump::{Drive, Wire},
    transport::TimedStream,
};
