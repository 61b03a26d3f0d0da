//! beanstalk-client against the in-memory and the real beanstalkd: scenarios, faults, cancellation, properties.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod bytes;
mod cancellation;
mod commands;
mod connections;
mod connectors;
mod damaged;
mod deadlines;
mod examples;
mod faults;
#[cfg(feature = "stream")]
mod job_streams;
mod jobs;
mod listing;
mod out_of_step;
mod pipelines;
mod producer;
mod producer_cancellation;
mod producer_faults;
mod properties;
mod reconnects;
mod regressions;
mod servers;
mod stats;
mod support;
mod timing;
#[cfg(feature = "tls")]
mod tls;
mod worker;
