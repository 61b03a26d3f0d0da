//! Conditions that fail the command.

use std::str::FromStr;

use super::report::number;
use crate::output::Record;
use crate::rules::comparison::{self, Comparison, OF_NUMBERS, Operator, invalid};

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
/// A condition that makes a run fail: `p99>5ms`, `rate<1000`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limit {
    text: String,
    metric: &'static str,
    /// The column of the metric.
    column: &'static str,
    operator: Operator,
    value: f64,
}

impl Limit {
    /// Describes the violation, if there is one.
    pub(super) fn broken(&self, now: &Record) -> Option<String> {
        let Self { text, metric, operator, value, .. } = self;
        let measured = number(now, self.column)?;
        let is_broken = operator.accepts(measured.partial_cmp(value)?);
        is_broken.then(|| format!("{metric} is {measured}, and the limit is {text}"))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WHAT: &str = "limit";
        let wrong = |why: &str| invalid(WHAT, text, why);
        let names = METRICS.map(|(name, _)| name).join(", ");
        let Comparison { key, operator, value, .. } = Comparison::parse(WHAT, text)
            .map_err(|why| format!("{why}, such as p99>5ms or rate<1000; metrics: {names}"))?;
        let key = key.join(".");
        let (metric, column) = METRICS
            .into_iter()
            .find(|(name, _)| *name == key)
            .ok_or_else(|| wrong(&format!("there is no metric `{key}`; metrics: {names}")))?;
        if matches!(operator, Operator::Matches | Operator::MatchesNot) {
            return Err(wrong(&format!("the operators for a metric are {OF_NUMBERS}")));
        }
        let value = match column.ends_with("_ms") {
            true => comparison::seconds(&value).map(|value| value * 1e3),
            false => comparison::number(&value),
        };
        let value = value.map_err(|why| wrong(&why))?;
        Ok(Self { text: text.to_owned(), metric, column, operator, value })
    }
}
