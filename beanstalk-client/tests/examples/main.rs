//! The examples, run as a user would, and services as handlers.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod moving;
#[cfg(unix)]
mod resilient_consumer;
#[cfg(feature = "tower")]
mod services;
