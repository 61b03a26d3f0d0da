//! The blocking face: the same names as the async one, on `std::net`, with no runtime, and no hidden thread but for what
//! nobody waits for.

mod client;
mod http;
mod link;
mod pipeline;
mod producer;
mod shared_link;
mod worker;

pub use queue_core::blocking::{Canceller, Duplex};

pub use self::{
    client::Client,
    pipeline::PushMany,
    producer::{Producer, Receipt},
    worker::Worker,
};
