//! Thresholds of monitoring plugins: ranges `[@]start:end`, and the verdicts 0 to 3.
//!
//! <https://www.monitoring-plugins.org/doc/guidelines.html#THRESHOLDFORMAT>

use std::fmt;
use std::str::FromStr;

use crate::error::Exit;

/// A range of values; outside of it is an alert, or inside of it with `@`.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    start: f64,
    end: f64,
    inside: bool,
    text: String,
}

impl Range {
    /// Whether this value is an alert.
    #[must_use]
    pub fn alerts(&self, value: f64) -> bool {
        let within = value >= self.start && value <= self.end;
        within == self.inside
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || format!("`{text}` is not a range (examples: 10, 10:, ~:10, 10:20, @10:20)");
        let (inside, rest) = match text.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let number = |part: &str| -> Result<f64, String> {
            part.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(rule)
        };
        let (start, end) = match rest.split_once(':') {
            None => (0.0, number(rest)?),
            Some((start, end)) => {
                let start = match start {
                    "~" => f64::NEG_INFINITY,
                    "" => 0.0,
                    start => number(start)?,
                };
                (start, if end.is_empty() { f64::INFINITY } else { number(end)? })
            }
        };
        if start > end {
            return Err(format!("range `{text}` ends before it starts"));
        }
        Ok(Self { start, end, inside, text: text.to_owned() })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `metric=range`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The metric's name.
    pub metric: String,
    /// The values that are fine.
    pub range: Range,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (metric, range) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` is not a threshold (write METRIC=RANGE, such as ready=100)")
        })?;
        Ok(Self { metric: metric.to_owned(), range: range.parse()? })
    }
}

/// What a check found, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// 0.
    Ok,
    /// 1.
    Warning,
    /// 2.
    Critical,
    /// 3: the check itself could not be done.
    Unknown,
}

impl Verdict {
    /// The word that monitoring systems know.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The plugin's exit code.
    #[must_use]
    pub const fn exit(self) -> Exit {
        match self {
            Self::Ok => Exit::Done,
            Self::Warning => Exit::Own(1),
            Self::Critical => Exit::Own(2),
            Self::Unknown => Exit::Own(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_by_table() {
        // Range, values that are fine, values that alert.
        let table: &[(&str, &[f64], &[f64])] = &[
            ("10", &[0.0, 10.0], &[-1.0, 10.5, 11.0]),
            ("10:", &[10.0, 1e9], &[9.0, -1.0]),
            ("~:10", &[-5.0, 10.0], &[11.0]),
            ("10:20", &[10.0, 20.0], &[9.0, 21.0]),
            ("@10:20", &[9.0, 21.0], &[10.0, 15.0, 20.0]),
            (":5", &[0.0, 5.0], &[-1.0, 6.0]),
            ("@~:0", &[1.0], &[0.0, -3.0]),
        ];
        for (text, fine, alerts) in table {
            let range: Range = text.parse().unwrap();
            for value in *fine {
                assert!(!range.alerts(*value), "{text} {value}");
            }
            for value in *alerts {
                assert!(range.alerts(*value), "{text} {value}");
            }
        }
    }

    #[test]
    fn wrong_ranges_and_thresholds_are_named() {
        for bad in ["", "x", "1:x", "@", "nan", "inf", "1:2:3", "~"] {
            assert!(bad.parse::<Range>().unwrap_err().contains(bad), "{bad}");
        }
        assert!("20:10".parse::<Range>().unwrap_err().contains("ends before"));
        assert!("ready".parse::<Threshold>().unwrap_err().contains("METRIC=RANGE"));
        let threshold: Threshold = "ready=@1:2".parse().unwrap();
        assert_eq!(
            (threshold.metric.as_str(), threshold.range.to_string().as_str()),
            ("ready", "@1:2")
        );
    }

    #[test]
    fn verdicts_order_from_good_to_unknown() {
        assert!(Verdict::Ok < Verdict::Warning && Verdict::Warning < Verdict::Critical);
        assert_eq!(Verdict::Unknown.exit().code(), 3);
    }
}
