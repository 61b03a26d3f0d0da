//! What crosses crates, as one program: each file here is a module of it, and so is each folder.
//!
//! Separate programs are `sim`, which is also run alone and optimised; `vocabulary`, which has the three tools in it;
//! and `call_backs`, `observability` and `trace_context`, each of which has the one subscriber of its process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod adf_queue_differential;
mod beanstalk_differential;
mod differential;
mod ended_runtimes;
mod fuzz_seeds;
mod gearmand_differential;
mod guide;
mod layers;
mod linear_time;
mod packages;
mod sdk_vocabulary;
mod services;
mod shared;
mod soak;
mod source;
mod table_of_faults;
mod tokio_clock;
