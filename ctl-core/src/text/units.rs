//! Durations, sizes and counts as people type them.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// The current time in UTC, to the second. A clock before 1970 reads as 1970.
pub(crate) fn now_in_seconds() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now().max(SystemTime::UNIX_EPOCH)).to_string()
}

/// The current time in UTC, to the millisecond, for records.
pub(crate) fn now_in_milliseconds() -> String {
    in_milliseconds(SystemTime::now())
}

/// A time of the system's clock in UTC. One before 1970 reads as 1970.
pub(crate) fn in_milliseconds(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time.max(SystemTime::UNIX_EPOCH)).to_string()
}

/// Parses `90s`, `5m`, `1h30m`, `500ms`; a bare number is in seconds and may have a fraction.
///
/// # Errors
/// A message with the value and the rule.
pub fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let rule = || format!("`{text}` is not a duration (examples: 30, 90s, 500ms, 1h30m)");
    if trimmed.is_empty() {
        return Err(rule());
    }
    if trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let seconds: f64 = trimmed.parse().map_err(|_| rule())?;
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("duration `{text}` is too long"));
    }
    humantime::parse_duration(trimmed).map_err(|_| rule())
}

/// Parses `2026-12-24T18:00:00Z`, `2026-12-24T18:00:00+01:00`, or seconds since 1970. A time without its zone is none:
/// it would be another one for a person than for this program.
///
/// # Errors
/// A message with the value and the rule.
pub fn point(text: &str) -> Result<SystemTime, String> {
    let since_1970 = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    let point = text.parse().map_or_else(|_| with_zone(text), since_1970);
    point.ok_or_else(|| {
        format!(
            "`{text}` is not a time with its zone (examples: 2026-12-24T18:00:00Z, 2026-12-24T18:00:00+01:00, 1798135200)"
        )
    })
}

fn with_zone(text: &str) -> Option<SystemTime> {
    // After the seconds it would take a zone of its own.
    let is_bare = |time: &str| time.bytes().skip(19).all(|b| b == b'.' || b.is_ascii_digit());
    let of = |time| humantime::parse_rfc3339_weak(time).ok().filter(|_| is_bare(time));
    if let Some(time) = text.strip_suffix('Z') {
        return of(time);
    }
    let (time, zone) = text.split_at_checked(text.len().checked_sub("+01:00".len())?)?;
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_once(':')?;
    let below = |text: &str, limit| {
        let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| is_number && *number < limit)
    };
    let ahead = Duration::from_secs(60 * (60 * below(hours, 24)? + below(minutes, 60)?));
    match sign {
        "+" => of(time)?.checked_sub(ahead),
        "-" => of(time)?.checked_add(ahead),
        _ => None,
    }
}

/// Parses `512`, `1k`, `64KiB`, `1MB` as bytes. Bare `k`, `m`, `g` are powers of 1024.
///
/// # Errors
/// A message with the value and the rule.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32, u32); 11] = [
        ("", 1, 0),
        ("b", 1, 0),
        ("k", 1024, 1),
        ("kib", 1024, 1),
        ("kb", 1000, 1),
        ("m", 1024, 2),
        ("mib", 1024, 2),
        ("mb", 1000, 2),
        ("g", 1024, 3),
        ("gib", 1024, 3),
        ("gb", 1000, 3),
    ];
    let rule = || format!("`{text}` is not a size (examples: 512, 1k, 64KiB, 1MB)");
    let lower = text.trim().to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(end);
    let unit = UNITS.iter().find(|(name, ..)| *name == unit.trim_start()).ok_or_else(rule)?;
    let factor = u64::from(unit.1).pow(unit.2);
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(rule);
    }
    let bytes = digits.parse::<f64>().map_err(|_| rule())? * factor as f64;
    // No fraction reaches 2^53, from which on a number no longer has one.
    if bytes < 9e15 { Ok(bytes as u64) } else { Err(rule()) }
}

/// A size for people, exact: `256 MiB`, `1000 bytes`.
pub fn show_size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    match exact {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => count(bytes, "byte"),
    }
}

/// A duration for people, in its two largest units: `1h 30m`, `12s`, `3ms`.
pub fn show_duration(duration: Duration) -> String {
    let rounded = match duration {
        long if long >= Duration::from_secs(10) => Duration::from_secs(long.as_secs()),
        short if short >= Duration::from_millis(1) => {
            Duration::from_millis(whole_milliseconds(short))
        }
        tiny => Duration::from_micros(u64::try_from(tiny.as_micros()).unwrap_or(u64::MAX)),
    };
    let text = humantime::format_duration(rounded).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// `1 job`, `2 jobs`.
pub fn count(n: u64, singular: &str) -> String {
    if n == 1 { format!("1 {singular}") } else { format!("{n} {singular}s") }
}

/// Whole milliseconds, for results.
pub fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds with three decimals, for results.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// One name or a count: `queue /mail`, or `3 queues`.
pub fn which(noun: &str, names: &[impl Display]) -> String {
    match names {
        [name] => format!("{noun} {name}"),
        names => format!("{} {noun}s", names.len()),
    }
}

/// The first few of these names, and how many more there are: `mail, sms and 3 more`.
pub fn first_of(names: &[impl Display], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(ToString::to_string).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_reads_as_1970() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(3600);
        assert_eq!(in_milliseconds(before), "1970-01-01T00:00:00.000Z");
        let after = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        assert_eq!(in_milliseconds(after), "1970-01-01T00:00:01.500Z");
    }

    #[test]
    fn a_time_has_its_zone() {
        let at = |text| point(text).map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        for text in
            ["2026-12-24T18:00:00Z", "2026-12-24 19:30:00+01:30", "2026-12-24T17:00:00-01:00"]
        {
            assert_eq!(at(text), Ok(Duration::from_secs(1_798_135_200)), "{text}");
        }
        assert_eq!(at("7"), Ok(Duration::from_secs(7)));
        let bad =
            ["2026-12-24T18:00:00", "2026-12-24", "2026-02-30T00:00:00Z", "18:00Z", "", "+01:00"];
        let bad = bad.into_iter().chain(["2026-12-24T18:00:00+24:00", "2026-12-24T18:00:00é1:00"]);
        let zones =
            ["ZZ", "Z+01:00", "+00:00Z", "Zab+01:00", "++1:00", "+1:000", "+001:0", "+01:+1"];
        let twice = zones.map(|zone| format!("2026-12-24T18:00:00{zone}"));
        let bad = bad.chain(["-1", "99999999999999999999"]);
        for text in bad.chain(twice.iter().map(String::as_str)) {
            let error = point(text).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is not a time with its zone")), "{error}");
        }
    }

    #[test]
    fn sizes_round_trip_as_text() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1000, "1000 bytes"),
            (1024, "1 KiB"),
            (1 << 30, "1 GiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
        assert_eq!(show_size(size("256MiB").unwrap()), "256 MiB");
    }

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", " ", "x", "-1", "1 fortnight", "1.2.3", "inf", "nan", "1e400"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(duration("99999999999999999999999").unwrap_err().contains("too long"));
    }

    #[test]
    fn sizes() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1k"), Ok(1024));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1MiB"), Ok(1_048_576));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert!(size("big").unwrap_err().contains("big"));
        assert!(size("-1").is_err());
    }

    #[test]
    fn durations_for_people() {
        assert_eq!(show_duration(Duration::from_secs(5400)), "1h 30m");
        assert_eq!(show_duration(Duration::from_micros(3_400)), "3ms");
        assert_eq!(show_duration(Duration::from_millis(1_250)), "1s 250ms");
        assert_eq!(show_duration(Duration::from_secs(86_400 + 3_600 + 5)), "1day 1h");
    }

    #[test]
    fn lists_few_names_and_counts_many() {
        assert_eq!(first_of(&["a", "b"], 2), "a, b");
        assert_eq!(first_of(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }
}
