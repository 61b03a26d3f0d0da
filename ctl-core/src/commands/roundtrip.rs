//! `check roundtrip`: steps, each of which requires the previous ones, as a metric.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use crate::commands::check::Metric;
use crate::error::{CliError, Exit};
use crate::text::units;

/// How long these steps took in total.
///
/// # Errors
/// Of the first step that failed.
pub fn timed(steps: impl FnOnce() -> Result<(), CliError>) -> Result<Vec<Metric>, CliError> {
    let start = Instant::now();
    steps().map_err(|error| error.context("roundtrip"))?;
    Ok(vec![Metric::new("rtt", units::milliseconds(start.elapsed()), "ms").usual()])
}

/// The error of a step with another outcome than the expected one.
#[must_use]
pub fn unexpected(step: &str, got: &str, expected: &str) -> CliError {
    let what = format!("{step}: {got}, not {expected}");
    CliError::new(Exit::Negative, "FAILED", what)
}

/// A unique name for a queue of a command of this tool.
pub fn scratch_name(tool: &str, purpose: &str) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{tool}-{purpose}-{random:016x}")
}
