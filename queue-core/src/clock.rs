//! The current time.

use std::time::{Duration, Instant};

/// The current time of the clock used for deadlines, which is monotonic and never the wall clock.
///
/// On a tokio runtime it is the runtime's clock, so that a test or a simulation that pauses it controls when deadlines
/// pass. Blocking calls on a runtime with a paused clock see time stand still.
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

/// The moment `time` after `from`. For a time that the clock cannot represent, such as `Duration::MAX`, a moment so far
/// away that it never comes.
#[must_use]
pub fn after(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).or_else(|| from.checked_add(NEVER)).unwrap_or(from)
}

/// Thirty years: longer than any process runs, and within the range of every clock.
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
