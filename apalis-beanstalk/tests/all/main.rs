//! The backend for beanstalkd, against the in-memory server and the real one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
#![cfg(feature = "json")]

mod backend;
mod example;
