//! Comparing with another run, and conditions that fail the command.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde_json::Value;

use super::Plan;
use super::report::{conditions, number};
use crate::error::CliError;
use crate::output::{Field, Record};
use crate::rules::comparison;
use crate::rules::comparison::{Comparison, OF_NUMBERS, Operator, invalid};

/// The metrics that limits can name, and their columns.
const METRICS: [(&str, &str); 9] = [
    ("rate", "ops_per_second"),
    ("min", "min_ms"),
    ("mean", "mean_ms"),
    ("p50", "p50_ms"),
    ("p90", "p90_ms"),
    ("p99", "p99_ms"),
    ("p99.9", "p99_9_ms"),
    ("max", "max_ms"),
    ("errors", "errors"),
];
/// Metrics reported in every comparison.
const TOLD: [&str; 4] = ["rate", "p50", "p90", "p99"];

/// The report of another run under the same conditions.
pub(super) struct Base {
    name: String,
    all: Value,
}

impl Base {
    /// Parses the output of `-o json` or `-o ndjson`; the last row is that of all clients.
    pub(super) fn read(path: &Path, plan: &Plan) -> Result<Self, CliError> {
        let name = path.to_string_lossy().into_owned();
        let text =
            std::fs::read_to_string(path).map_err(|error| CliError::reading(&name, &error))?;
        let wrong = |why: &str| {
            CliError::bad_data(format!("{name} is not a benchmark report: {why}"))
                .hint("bench -o json > base.json")
        };
        let rows = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let rows =
            rows.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error.to_string()))?;
        let last = match rows.into_iter().next_back() {
            Some(Value::Array(rows)) => rows.into_iter().next_back(),
            last => last,
        };
        let all = last.filter(Value::is_object).ok_or_else(|| wrong("it has no row"))?;
        for (key, field) in conditions(plan).fields() {
            let Field::Value(here) = field else { continue };
            let there = all.get(key).ok_or_else(|| wrong(&format!("it has no `{key}`")))?;
            let same = match (there.as_f64(), here.as_f64()) {
                (Some(there), Some(here)) => there == here,
                _ => there == here,
            };
            if !same {
                let why =
                    format!("cannot compare with {name}: its {key} is {there}, here it is {here}");
                return Err(CliError::bad_data(why).hint("the same flags as in that run"));
            }
        }
        Ok(Self { name, all })
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.all.get(key).and_then(Value::as_f64)
    }

    /// The increase of a column, in percent.
    fn change(&self, now: &Record, key: &str) -> Option<f64> {
        let (before, now) = (self.number(key)?, number(now, key)?);
        (before > 0.0).then(|| (now / before - 1.0) * 100.0)
    }

    /// `against base.json: rate +3.1%, p50 -2.0%`.
    pub(super) fn against(&self, now: &Record) -> String {
        let told = METRICS.iter().filter(|(metric, _)| TOLD.contains(metric));
        let changes = told.filter_map(|(metric, key)| {
            self.change(now, key).map(|change| format!("{metric} {change:+.1}%"))
        });
        format!("against {}: {}", self.name, changes.collect::<Vec<_>>().join(", "))
    }
}

/// A condition that makes a run fail: `p99>20%`, `rate<1000`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    text: String,
    metric: &'static str,
    /// The column of the metric.
    column: &'static str,
    operator: Operator,
    value: f64,
    is_relative: bool,
}

impl Limit {
    /// Whether it is relative to another run.
    pub(super) fn is_relative(&self) -> bool {
        self.is_relative
    }

    /// Describes the violation, if there is one.
    pub(super) fn broken(&self, now: &Record, base: Option<&Base>) -> Option<String> {
        let Self { text, metric, operator, value, .. } = self;
        let (measured, shown) = match self.is_relative {
            true => {
                let change = base?.change(now, self.column)?;
                (change, format!("{metric} changed by {change:+.1}%"))
            }
            false => {
                let measured = number(now, self.column)?;
                (measured, format!("{metric} is {measured}"))
            }
        };
        let is_broken = operator.accepts(measured.partial_cmp(value)?);
        is_broken.then(|| format!("{shown}, and the limit is {text}"))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WHAT: &str = "limit";
        let wrong = |why: &str| invalid(WHAT, text, why);
        let names = METRICS.map(|(name, _)| name).join(", ");
        let Comparison { key, operator, value, .. } =
            Comparison::parse(WHAT, text).map_err(|why| {
                format!("{why}, such as p99>20%, p99>5ms or rate<1000; metrics: {names}")
            })?;
        let key = key.join(".");
        let (metric, column) = METRICS
            .into_iter()
            .find(|(name, _)| *name == key)
            .ok_or_else(|| wrong(&format!("there is no metric `{key}`; metrics: {names}")))?;
        let percent = value.strip_suffix('%');
        let value = match percent {
            Some(digits) => comparison::number(digits.trim()),
            None if column.ends_with("_ms") => comparison::seconds(&value).map(|value| value * 1e3),
            None => comparison::number(&value),
        };
        let value = value.map_err(|why| wrong(&why))?;
        let value = match (operator, percent) {
            (_, Some(_)) if value < 0.0 => return Err(wrong("a change has no sign")),
            // `rate<10%`: it has become less by more than that.
            (Operator::Less | Operator::LessOrEqual, Some(_)) => -value,
            (Operator::Equal | Operator::Different, Some(_)) => {
                return Err(wrong("the operators for a change are < <= > >="));
            }
            (Operator::Matches | Operator::MatchesNot, _) => {
                return Err(wrong(&format!("the operators for a metric are {OF_NUMBERS}")));
            }
            _ => value,
        };
        let is_relative = percent.is_some();
        Ok(Self { text: text.to_owned(), metric, column, operator, value, is_relative })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
