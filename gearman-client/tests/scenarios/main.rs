//! What users do, in both faces, on the in-memory server and on the real one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod admin;
mod client;
mod faults;
mod limits;
mod programs;
mod support;
mod worker;
