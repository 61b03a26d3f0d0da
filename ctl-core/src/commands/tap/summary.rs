//! A summary of the traffic: how often each command was sent and refused, and how long its answers took.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::output::{Column, Record, Shape};

/// Number of commands that are counted separately; any others are counted together.
const MOST: usize = 100;
const OTHERS: &str = "(others)";
/// Latencies are kept with two significant digits, up to an hour.
const LONGEST: u64 = 3_600_000_000;

/// Counts of everything.
#[derive(Debug, Default)]
pub(super) struct Summary {
    verbs: Vec<Verb>,
}

#[derive(Debug, Default)]
struct Verb {
    name: String,
    sent: u64,
    answered: u64,
    refused: u64,
    /// In microseconds.
    latencies: Option<Histogram<u64>>,
}

/// The columns of the summary.
pub(super) static SHAPE: Shape = Shape::rows(
    "verb",
    &[
        Column::new("verb", "VERB"),
        Column::new("sent", "SENT"),
        Column::new("answered", "ANSWERED"),
        Column::new("errors", "ERRORS"),
        Column::new("p50_ms", "P50 MS"),
        Column::wide("p90_ms", "P90 MS"),
        Column::new("p99_ms", "P99 MS"),
        Column::new("max_ms", "MAX MS"),
    ],
);

impl Summary {
    /// Counts a command that the client has sent.
    pub(super) fn sent(&mut self, verb: &str) {
        self.verb(verb).sent += 1;
    }

    /// Counts an answer that took this long, and whether it was a refusal.
    pub(super) fn answered(&mut self, verb: &str, took: Duration, is_error: bool) {
        let verb = self.verb(verb);
        verb.answered += 1;
        verb.refused += u64::from(is_error);
        if verb.latencies.is_none() {
            // These bounds are valid.
            verb.latencies = Histogram::new_with_bounds(1, LONGEST, 2).ok();
        }
        if let Some(latencies) = &mut verb.latencies {
            latencies.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST));
        }
    }

    fn verb(&mut self, name: &str) -> &mut Verb {
        let found = self.verbs.iter().position(|verb| verb.name == *name);
        let name = if self.verbs.len() < MOST { name } else { OTHERS };
        let at = found.or_else(|| self.verbs.iter().position(|verb| verb.name == name));
        let at = at.unwrap_or_else(|| {
            self.verbs.push(Verb { name: name.to_owned(), ..Verb::default() });
            self.verbs.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "it was found there or put there just now")]
        &mut self.verbs[at]
    }

    /// A record for each command, the most frequent first.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut verbs: Vec<&Verb> = self.verbs.iter().collect();
        verbs.sort_by(|a, b| b.sent.cmp(&a.sent).then_with(|| a.name.cmp(&b.name)));
        verbs.into_iter().map(Verb::record).collect()
    }
}

impl Verb {
    fn record(&self) -> Record {
        let at = |quantile| self.latencies.as_ref().map(|all| all.value_at_quantile(quantile));
        let max = self.latencies.as_ref().map(Histogram::max);
        let ms = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1000.0);
        Record::new()
            .with("verb", self.name.as_str())
            .with("sent", self.sent)
            .with("answered", self.answered)
            .with("errors", self.refused)
            .with("p50_ms", ms(at(0.5)))
            .with("p90_ms", ms(at(0.9)))
            .with("p99_ms", ms(at(0.99)))
            .with("max_ms", ms(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Field;

    #[test]
    fn counts_each_command_up_to_a_limit() {
        let mut summary = Summary::default();
        for number in 0..3 * MOST {
            summary.sent(&format!("verb{number}"));
            summary.sent("put");
        }
        summary.answered("put", Duration::from_millis(5), true);
        let records = summary.records();
        assert!(records.len() <= MOST + 1, "{}", records.len());
        let first = &records[0];
        assert_eq!(first.get("verb"), Some(&Field::Value("put".into())));
        assert_eq!(first.get("sent"), Some(&Field::Value((3 * MOST).into())));
        assert_eq!(first.get("errors"), Some(&Field::Value(1.into())));
        let Some(Field::Value(p50)) = first.get("p50_ms") else { panic!("{first:?}") };
        assert!((4.9..5.2).contains(&p50.as_f64().unwrap()), "{p50}");
    }
}
