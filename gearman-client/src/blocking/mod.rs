//! The blocking face: the same names as the async one, on `std::net`, with no runtime and no hidden thread.

mod admin;
mod client;
mod held;
mod job;
mod lane;
mod link;
mod many;
mod packets;
mod serve;
mod test_job;
mod worker;

pub use queue_core::blocking::{Canceller, Duplex};

pub use self::{
    admin::Admin,
    client::Client,
    held::{GrabbedJob, JobContext},
    job::Job,
    many::{CallMany, SubmitMany},
    packets::Packets,
    test_job::TestJob,
    worker::Worker,
};
