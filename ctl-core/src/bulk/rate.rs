//! `--rate`: an evenly paced rate limit of bulk commands.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use queue_core::lock;

use crate::system::pause::wait;

/// A number of items per time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Always positive and finite.
    per_second: f64,
}

/// Items are grouped for at most this long, so that the pace is even.
const STEP: Duration = Duration::from_millis(100);
/// Maximum delay until a signal is noticed.
const SLICE: Duration = Duration::from_millis(20);
/// A lower rate is rejected.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Rate {
    /// Number of items that go out together.
    pub fn step(self) -> usize {
        // The cast saturates, so any rate works.
        ((self.per_second * STEP.as_secs_f64()) as usize).max(1)
    }

    /// The time of this many items.
    fn time_of(self, count: usize) -> Duration {
        Duration::try_from_secs_f64(count as f64 / self.per_second).unwrap_or(Duration::MAX)
    }
}

/// `100/s`, `30/m`, `5/h`; a bare number is per second.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || format!("`{text}` is not a rate (examples: 100/s, 0.5/s, 30/m, 5/h)");
        let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
        let seconds = match unit.trim() {
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(rule()),
        };
        let number: f64 = number.trim().parse().map_err(|_| rule())?;
        let rate = Self { per_second: number / seconds };
        if !number.is_finite() || number <= 0.0 {
            return Err(rule());
        }
        if rate.time_of(1) > LONGEST {
            return Err(format!("the rate `{text}` is less than one in a day"));
        }
        Ok(rate)
    }
}

/// Schedules turns at a rate. Late callers do not catch up, which would be a burst.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, next: Mutex::new(None) }
    }

    /// Waits for the turn of `count` items, or until `gives_up`.
    pub(super) fn wait(&self, count: usize, gives_up: impl Fn() -> bool) {
        let turn = self.book(count, Instant::now());
        wait(turn.saturating_duration_since(Instant::now()), SLICE, gives_up);
    }

    /// When the turn of `count` items starts; the next one starts after their time.
    fn book(&self, count: usize, now: Instant) -> Instant {
        let mut next = lock(&self.next);
        let turn = next.map_or(now, |next| next.max(now));
        *next = turn.checked_add(self.rate.time_of(count)).or(Some(turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn rates_are_read_in_seconds_minutes_and_hours() {
        for (text, per_second) in
            [("100/s", 100.0), ("100", 100.0), ("0.5/s", 0.5), ("30/m", 0.5), ("36/h", 0.01)]
        {
            assert_eq!(rate(text).per_second, per_second, "{text}");
        }
        for text in ["", "0", "-1/s", "x/s", "5/d", "5/", "inf", "nan/s", "1e-9"] {
            let why = text.parse::<Rate>().unwrap_err();
            assert!(why.contains(&format!("`{text}`")), "{why}");
        }
    }

    #[test]
    fn a_batch_is_bounded_by_a_tenth_of_a_second() {
        for (text, step) in [("1000/s", 100), ("10/s", 1), ("1/h", 1), ("1e300", usize::MAX)] {
            assert_eq!(rate(text).step(), step, "{text}");
        }
    }

    #[test]
    fn paces_evenly_without_catching_up() {
        let (pace, start) = (Pace::new(rate("10/s")), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(pace.book(1, start), start);
        assert_eq!(pace.book(2, start), after(100));
        assert_eq!(pace.book(1, after(150)), after(300));
        assert_eq!(pace.book(1, after(5000)), after(5000));
        assert_eq!(pace.book(1, after(5000)), after(5100));
    }

    #[test]
    fn a_wait_for_a_turn_can_be_cancelled() {
        let pace = Pace::new(rate("1/h"));
        pace.wait(1, || false);
        pace.wait(1, || true);
    }
}
