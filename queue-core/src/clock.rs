//! What time it is.

use std::time::Instant;

/// The time by the clock that deadlines are kept by: monotonic, and never the wall clock.
///
/// On a tokio runtime it is the runtime's clock, so that a test or a simulation that pauses it decides when deadlines
/// pass. Blocking calls on a runtime whose clock is paused see it stand still.
#[must_use]
#[inline]
pub fn now() -> Instant {
    #[cfg(feature = "tokio")]
    return tokio::time::Instant::now().into_std();
    #[cfg(not(feature = "tokio"))]
    return Instant::now();
}
