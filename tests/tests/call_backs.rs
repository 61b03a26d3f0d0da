//! Observers, event handlers and subscribers that call back into everything they can reach, in each role and face: no
//! lock is held while they run, so they never wait for themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "call_backs/adf_queue.rs"]
mod adf_queue;
#[path = "call_backs/beanstalk.rs"]
mod beanstalk;
#[path = "call_backs/doors.rs"]
mod doors;
#[path = "call_backs/gearman.rs"]
mod gearman;
#[path = "call_backs/sdk.rs"]
mod sdk;
