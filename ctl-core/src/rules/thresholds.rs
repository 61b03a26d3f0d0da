//! Thresholds: `METRIC OP VALUE`, or `METRIC=RANGE` with a range of monitoring plugins, `[@]start:end`; and the verdicts
//! 0 to 3.
//!
//! <https://www.monitoring-plugins.org/doc/guidelines.html#THRESHOLDFORMAT>

use std::fmt;
use std::str::FromStr;

use crate::error::Exit;
use crate::program::Program;
use crate::rules::comparison::{Comparison, OF_NUMBERS, Operator, invalid, number, seconds};
use crate::text::escape;

/// The value name of a threshold, which completion looks for.
pub(crate) const VALUE: &str = "THRESHOLD";

/// A range of values; values outside of it alert, or inside of it with `@`.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    start: f64,
    end: f64,
    inside: bool,
    /// Given as times, such as `10m`; `start` and `end` are seconds.
    is_time: bool,
    text: String,
}

impl Range {
    /// The range that alerts where the comparison holds.
    fn alerting(operator: Operator, value: &str) -> Result<Self, String> {
        number(value).or_else(|_| seconds(value))?;
        let text = match operator {
            Operator::Greater => format!("~:{value}"),
            Operator::GreaterOrEqual => format!("@{value}:"),
            Operator::Less => format!("{value}:"),
            Operator::LessOrEqual => format!("@~:{value}"),
            Operator::Equal => format!("@{value}:{value}"),
            Operator::Different => format!("{value}:{value}"),
            Operator::Matches | Operator::MatchesNot => {
                return Err(format!("the operators for a metric are {OF_NUMBERS}"));
            }
        };
        text.parse()
    }

    /// Whether this value is an alert.
    pub fn alerts(&self, value: f64) -> bool {
        let within = value >= self.start && value <= self.end;
        within == self.inside
    }

    /// The same in the unit of a metric; `None` for a range of times if the metric is not a time.
    pub(crate) fn in_unit(&self, unit: &str) -> Option<Self> {
        let factor = match (self.is_time, unit) {
            (false, _) => return Some(self.clone()),
            (true, "s") => 1.0,
            (true, "ms") => 1e3,
            (true, _) => return None,
        };
        let (start, end) = (self.start * factor, self.end * factor);
        let shown = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let first = match start {
            f64::NEG_INFINITY => "~:".to_owned(),
            0.0 if end.is_finite() => String::new(),
            start => format!("{start}:"),
        };
        let text = format!("{}{first}{}", if self.inside { "@" } else { "" }, shown(end));
        Some(Self { start, end, inside: self.inside, is_time: false, text })
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule =
            || format!("`{text}` is not a range (examples: 10, 10:, ~:10, 10:20, @10:20, 5m)");
        let (inside, rest) = match text.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let is_time = rest.split(':').any(|part| part.ends_with(|c: char| c.is_ascii_alphabetic()));
        let number =
            |part: &str| if is_time { seconds(part) } else { number(part) }.map_err(|_| rule());
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
        Ok(Self { start, end, inside, is_time, text: text.to_owned() })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// When a metric alerts: `ready>100`, or `ready=100`, the range of good values.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The metric's name.
    pub metric: String,
    /// The good values.
    pub range: Range,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Comparison { key, sign, operator, value } = Comparison::parse("threshold", text)
            .map_err(|why| {
                format!("{why}, such as ready>100, or METRIC=RANGE, such as ready=100")
            })?;
        let range = match (sign, operator) {
            ("=", _) => value.parse()?,
            // The start of a range without one.
            ("=~", _) => format!("~{value}").parse()?,
            (_, operator) => {
                Range::alerting(operator, &value).map_err(|why| invalid("threshold", text, &why))?
            }
        };
        Ok(Self { metric: key.join("."), range })
    }
}

/// The result of a check; the most severe is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verdict {
    /// 0.
    #[default]
    Ok,
    /// 1.
    Warning,
    /// 3: the check itself failed, or what it needs to know cannot be known.
    Unknown,
    /// 2.
    Critical,
}

impl Verdict {
    /// The word for monitoring systems.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The first line of a check, such as `BSCTL OK - fine`.
    pub(crate) fn headline(self, program: &Program, summary: &str) -> String {
        // A bar would begin performance data.
        let summary = escape::line(summary).replace('|', "/");
        format!("{} {} - {summary}", program.prefix, self.word())
    }

    /// The plugin's exit code.
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
    fn times_are_in_the_unit_of_the_metric() {
        for (text, unit, shown) in [
            ("10m", "s", "600"),
            ("500ms", "ms", "500"),
            ("1h:", "s", "3600:"),
            ("~:2s", "ms", "~:2000"),
            ("@1m:1h30m", "s", "@60:5400"),
            ("10", "s", "10"),
            ("10:", "", "10:"),
        ] {
            let range: Range = text.parse().unwrap();
            assert_eq!(range.in_unit(unit).unwrap().to_string(), shown, "{text}");
        }
        let range: Range = "10m".parse().unwrap();
        assert!(range.in_unit("").is_none());
        assert!(range.in_unit("s").unwrap().alerts(601.0));
        for wrong in ["10x", "m", "inf", "nan:", "10m:5m"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_by_table() {
        // Range, good values, alerting values.
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
        assert!("ready>x".parse::<Threshold>().unwrap_err().contains("`x` is not a duration"));
        assert!("ready!~3".parse::<Threshold>().unwrap_err().contains("== != < <= > >="));
        let threshold: Threshold = "ready=@1:2".parse().unwrap();
        assert_eq!(
            (threshold.metric.as_str(), threshold.range.to_string().as_str()),
            ("ready", "@1:2")
        );
    }

    #[test]
    fn a_comparison_alerts_where_it_holds() {
        for (text, range, fine, alerts) in [
            ("ready>10", "~:10", 10.0, 11.0),
            ("ready >= 10", "@10:", 9.0, 10.0),
            ("ready<10", "10:", 10.0, 9.0),
            ("ready<=10", "@~:10", 11.0, 10.0),
            ("ready==10", "@10:10", 9.0, 10.0),
            ("ready!=10", "10:10", 10.0, 11.0),
            ("ready=~:10", "~:10", 10.0, 11.0),
        ] {
            let threshold: Threshold = text.parse().unwrap();
            assert_eq!((&*threshold.metric, threshold.range.to_string()), ("ready", range.into()));
            assert!(!threshold.range.alerts(fine) && threshold.range.alerts(alerts), "{text}");
        }
        let range = "age>10m".parse::<Threshold>().unwrap().range.in_unit("s").unwrap();
        assert_eq!(range.to_string(), "~:600");
    }

    #[test]
    fn verdicts_are_ordered_by_severity() {
        assert!(Verdict::Ok < Verdict::Warning && Verdict::Warning < Verdict::Unknown);
        assert!(Verdict::Unknown < Verdict::Critical);
        assert_eq!(Verdict::Unknown.exit().code(), 3);
    }
}
