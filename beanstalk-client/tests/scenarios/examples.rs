//! The examples, run as a user would.

mod moving;
#[cfg(unix)]
mod resilient_consumer;
