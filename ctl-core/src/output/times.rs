//! Measured times and their presentation.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::CliError;
use crate::text::units;

/// The longest time that is distinguished.
const LONGEST: Duration = Duration::from_secs(3600);

/// An empty histogram of nanoseconds, accurate to a thousandth.
pub(crate) fn histogram() -> Result<Histogram<u64>, CliError> {
    Histogram::new_with_bounds(1, nanoseconds(LONGEST), 3)
        .map_err(|error| CliError::internal(format!("cannot measure times: {error}")))
}

/// A time in nanoseconds, for a [`histogram`].
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds of a [`histogram`] as results show them.
pub(crate) fn milliseconds(nanoseconds: u64) -> f64 {
    units::milliseconds(Duration::from_nanos(nanoseconds))
}
