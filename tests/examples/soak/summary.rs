//! The outcome of a run.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fixtures::history::Report;
use serde_json::{Value, json};

use crate::{ledger::Counts, options::Options, stage::Stage, trend::Trend};

/// What a long run has to have survived.
const SURVIVED: [&str; 6] = [
    "jobs acknowledged",
    "jobs delivered more than once",
    "submissions of unknown fate",
    "kills of the server",
    "kills of a worker process",
    "network faults",
];
const LONG: Duration = Duration::from_secs(60);

pub struct Summary {
    head: String,
    figures: Vec<(&'static str, u64)>,
    trends: Vec<Trend>,
    reports: Vec<String>,
    problems: Vec<String>,
}

impl Summary {
    /// Closes the ledger. `reports` are the summaries of the workers and producers.
    pub fn new(
        stage: &Stage,
        options: &Options,
        trends: Vec<Trend>,
        reports: Vec<String>,
    ) -> Summary {
        let took = stage.ledger.now();
        let (report, mut problems) = stage.ledger.close();
        problems.extend(report.violations.iter().map(ToString::to_string));
        problems.extend(trends.iter().filter(|trend| trend.grows()).map(|trend| {
            let Trend { name, unit, thirds: (first, last), margin, .. } = trend;
            format!("{name} grows: {first} {unit} in the first third, {last} in the last; {margin} more are allowed")
        }));
        let figures = figures(&stage.ledger.counts, &report);
        for name in SURVIVED {
            let figure = figures.iter().find(|(known, _)| *known == name);
            let (_, n) = figure.unwrap_or_else(|| panic!("there is no figure {name:?}"));
            if *n == 0 && options.length >= LONG {
                problems.push(format!("nothing to survive: no {name}"));
            }
        }
        let head = format!("{} s, seed {}", took.as_secs(), options.seed);
        Summary { head, figures, trends, reports, problems }
    }

    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn json(&self) -> Value {
        let figures: Value =
            self.figures.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect();
        let trends: Value = self
            .trends
            .iter()
            .map(|trend| {
                let Trend { name, first, median, last, max, thirds, margin, .. } = trend;
                let values = json!({
                    "first": first, "median": median, "last": last, "max": max,
                    "first third": thirds.0, "last third": thirds.1, "margin": margin,
                });
                ((*name).to_owned(), values)
            })
            .collect();
        json!({
            "run": self.head, "good": self.is_good(), "figures": figures, "resources": trends,
            "reports": self.reports, "problems": self.problems,
        })
    }
}

fn figures(counts: &Counts, report: &Report) -> Vec<(&'static str, u64)> {
    let Counts {
        submitted,
        acknowledged,
        unknown,
        not_sent,
        refused,
        deliveries,
        ended,
        end_unknown,
        end_not_sent,
        cancelled,
        connections,
        kills,
        freezes,
        worker_kills,
        toxics,
    } = counts;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    vec![
        ("jobs submitted", of(submitted)),
        ("jobs acknowledged", of(acknowledged)),
        ("submissions of unknown fate", of(unknown)),
        ("submissions not sent", of(not_sent)),
        ("submissions refused", of(refused)),
        ("calls cancelled", of(cancelled)),
        ("deliveries", of(deliveries)),
        ("jobs delivered", report.delivered as u64),
        ("jobs delivered more than once", report.duplicated as u64),
        ("jobs ended more than once (copies)", report.copied as u64),
        ("jobs delivered without an acknowledgement", report.recovered as u64),
        ("jobs forgotten by the server", report.forgotten as u64),
        ("jobs left in the server", report.remaining as u64),
        ("ends acknowledged", of(ended)),
        ("ends of unknown fate", of(end_unknown)),
        ("ends not sent or refused", of(end_not_sent)),
        ("connections made", of(connections)),
        ("kills of the server", of(kills)),
        ("freezes of the server", of(freezes)),
        ("kills of a worker process", of(worker_kills)),
        ("network faults", of(toxics)),
        ("broken rules", report.violations.len() as u64),
    ]
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        for (name, number) in &self.figures {
            writeln!(f, "{number:>10}  {name}")?;
        }
        for Trend { name, unit, first, median, last, max, thirds, margin } in &self.trends {
            writeln!(
                f,
                "{name}: first {first}, median {median}, last {last}, max {max} {unit} \
                 (thirds {} and {}, margin {margin})",
                thirds.0, thirds.1
            )?;
        }
        for report in &self.reports {
            writeln!(f, "{report}")?;
        }
        for problem in self.problems.iter().take(50) {
            writeln!(f, "PROBLEM: {problem}")?;
        }
        write!(f, "{}", if self.is_good() { "good" } else { "NOT GOOD" })
    }
}
