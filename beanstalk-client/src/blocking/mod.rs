//! The blocking face: the same names as the async one, on `std::net`, with no runtime and no hidden thread.
//!
//! ```
//! # let server = fixtures::beanstalkd::Server::start()?;
//! # let address = server.address();
//! use std::time::Duration;
//! use beanstalk_client::{PutOptions, Reserved, blocking::Client};
//!
//! let mut client = Client::connect(address)?; // for example "127.0.0.1:11300"
//! let id = client.put("hello", PutOptions::default())?.id();
//! if let Reserved::Job(job) = client.reserve_with_timeout(Duration::from_secs(5))? {
//!     assert_eq!((job.id, &*job.body), (id, &b"hello"[..]));
//!     client.delete(&job)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod jobs;
mod pipeline;
mod producer;
mod worker;

pub use queue_core::blocking::{Canceller, Duplex};

pub use self::{
    client::Client,
    jobs::JobList,
    pipeline::CallMany,
    producer::{Producer, PutMany, Receipt},
    worker::{JobContext, TestJob, Worker},
};
