//! What users do, in both faces, on the in-memory server and on the real one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod admin;
mod barriers;
mod bounds;
mod bytes_cut;
mod cancellation;
mod catalogue;
mod client;
mod client_events;
mod client_faults;
mod connectors;
mod crashes;
mod cuts;
mod examples;
mod face;
mod faults;
mod floods;
mod greetings;
mod handlers;
#[cfg(feature = "stream")]
mod job_streams;
mod limits;
mod packets;
mod properties;
mod quirks;
mod regressions;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod worker;
mod worker_clock;
mod worker_faults;
mod worker_floods;
mod worker_losses;
mod worker_refusals;
