//! The current time.

use std::time::{Duration, Instant};

/// The time by the clock that deadlines are kept by: monotonic, and never the wall clock.
///
/// On a tokio runtime it is the runtime's clock, so that a test or a simulation that pauses it decides when deadlines
/// pass. Blocking calls on a runtime whose clock is paused see it stand still.
#[must_use]
#[inline]
pub fn now() -> Instant {
    #[cfg(shuttle)]
    return crate::sync::model::now();
    #[cfg(all(feature = "tokio", not(shuttle)))]
    return tokio::time::Instant::now().into_std();
    #[cfg(not(any(feature = "tokio", shuttle)))]
    return Instant::now();
}

/// The moment that comes `time` after `from`. A time that the clock has no moment for, such as `Duration::MAX`, gives one
/// so far away that it never comes.
#[must_use]
pub fn after(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).or_else(|| from.checked_add(NEVER)).unwrap_or(from)
}

/// Thirty years: longer than any process runs, and within every clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_duration_gives_a_moment() {
        let start = now();
        assert_eq!(after(start, Duration::from_secs(7)), start + Duration::from_secs(7));
        assert!(after(start, Duration::MAX) > start + Duration::from_secs(20 * 365 * 24 * 3600));
        assert!(after(after(start, Duration::MAX), Duration::MAX) > start);
    }
}
