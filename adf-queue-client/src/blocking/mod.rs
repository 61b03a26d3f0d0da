//! The blocking face: the same names as the async one, on `std::net`, with no runtime and no hidden thread.

mod client;
mod http;
mod link;
mod pipeline;
mod producer;
mod worker;

pub use queue_core::blocking::{Canceller, Duplex};

pub use self::{client::Client, pipeline::PushMany, producer::Producer, worker::Worker};
