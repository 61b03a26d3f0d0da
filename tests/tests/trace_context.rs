//! One trace from the sender to the handler, through an envelope of the caller, with the crates of OpenTelemetry; and
//! the measurements on its meters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "trace_context/adf_queue.rs"]
mod adf_queue;
#[path = "trace_context/beanstalk.rs"]
mod beanstalk;
#[path = "trace_context/envelope.rs"]
mod envelope;
#[path = "trace_context/gearman.rs"]
mod gearman;
#[path = "trace_context/passes.rs"]
mod passes;
#[path = "trace_context/telemetry.rs"]
mod telemetry;
