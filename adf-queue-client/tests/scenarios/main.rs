//! What users do, in both faces, over each transport, on the in-memory server and on the real one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cancellation;
mod client;
mod cuts;
mod examples;
mod face;
mod http;
mod http_peer;
#[cfg(feature = "stream")]
mod message_streams;
mod pipelines;
mod producer;
mod quirks;
mod scripted;
mod streams;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod worker;
mod worker_faults;
mod workers;
