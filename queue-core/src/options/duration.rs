//! Durations as text, for configuration.

use std::{fmt, time::Duration};

use crate::{Error, excerpt};

/// Parses a duration: `250ms`, `1.5s`, `30`, `5m`, `1h` or `2d`. A number without a unit is seconds.
///
/// # Errors
///
/// `InvalidInput` for anything else, and for a time that is too long; `what` names the value in the message.
pub fn read_duration(what: &str, text: &str) -> Result<Duration, Error> {
    let wrong = || {
        Error::invalid(format!(
            "{what} {} is not valid: it must be a number followed by ms, s, m, h or d, such as 250ms or 1.5s",
            excerpt(text.as_bytes())
        ))
    };
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit_at).ok_or_else(wrong)?;
    let unit = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    // Signs and exponents are not allowed.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// Formats a duration as [`read_duration`] parses it: in seconds, or in milliseconds if it has a fraction of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationText(pub Duration);

impl DurationText {
    /// A measured duration: in whole milliseconds.
    #[must_use]
    pub fn rounded(time: Duration) -> Self {
        Self(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_nanos()) {
            (seconds, 0) => write!(f, "{seconds}s"),
            (_, nanos) if nanos % 1_000_000 == 0 => write!(f, "{}ms", self.0.as_millis()),
            _ => write!(f, "{}s", self.0.as_secs_f64()),
        }
    }
}

/// A duration in an error.
pub(crate) fn rounded(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds < 1.0 {
        // What is left of a longer limit.
        true if seconds >= 0.01 => format!("{} ms", (seconds * 1e3).round()),
        true => format!("{} ms", (seconds * 1e6).round() / 1e3),
        false => format!("{} s", (seconds * 1e3).round() / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for (text, millis) in [
            ("30", 30_000),
            ("1.5s", 1500),
            ("250ms", 250),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
        ] {
            let read = read_duration("pause", text).unwrap();
            assert_eq!(read, Duration::from_millis(millis), "{text}");
            assert_eq!(read_duration("pause", &DurationText(read).to_string()).unwrap(), read);
        }
        assert_eq!(DurationText(Duration::from_millis(1500)).to_string(), "1500ms");
        assert_eq!(DurationText(Duration::from_micros(1500)).to_string(), "0.0015s");
        assert_eq!(DurationText::rounded(Duration::from_micros(7_000_714)).to_string(), "7s");
        assert_eq!(DurationText::rounded(Duration::from_micros(54_264)).to_string(), "54ms");
        assert_eq!(rounded(Duration::from_micros(186_630)), "187 ms");
        assert_eq!(DurationText(Duration::from_secs(90)).to_string(), "90s");
    }

    #[test]
    fn an_invalid_duration_error_states_the_rule() {
        for bad in [
            "",
            "s",
            "-1s",
            "1e3",
            "inf",
            "NaN",
            "1 s",
            "5x",
            "1h30m",
            "é",
            "99999999999999999999d",
        ] {
            let error = read_duration("pause", bad).unwrap_err().to_string();
            assert!(error.contains("such as 250ms or 1.5s"), "{bad}: {error}");
        }
    }
}
