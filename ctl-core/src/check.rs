//! Checks for monitoring and CI: figures, thresholds, verdicts, and what is written about them.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::error::{CliError, Exit};
use crate::output::{Format, Output};
use crate::program::Program;
use crate::thresholds::{Threshold, Verdict};
use crate::units;

/// Flags of every check.
#[derive(Debug, Clone, Args)]
pub struct CheckFlags {
    /// Warn outside of this range; may be given several times
    #[arg(short, long, global = true, value_name = "METRIC=RANGE")]
    warning: Vec<Threshold>,

    /// Critical outside of this range; may be given several times
    #[arg(short, long, global = true, value_name = "METRIC=RANGE")]
    critical: Vec<Threshold>,

    /// What is written
    #[arg(long, global = true, value_name = "FMT")]
    format: Option<CheckFormat>,

    /// What a timeout means
    #[arg(long, global = true, value_name = "VERDICT", default_value = "critical")]
    on_timeout: OnTimeout,

    /// What waiting jobs without any worker mean
    #[arg(long, global = true, value_name = "VERDICT", default_value = "crit")]
    zero_workers: ZeroWorkers,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// One line with performance data, for monitoring systems.
    Nagios,
    /// One JSON document.
    Json,
    /// Lines for people.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnTimeout {
    /// Exit 2.
    Critical,
    /// Exit 3.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ZeroWorkers {
    /// Fine.
    Ok,
    /// Exit 1.
    Warn,
    /// Exit 2.
    Crit,
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name, as thresholds use it.
    pub name: &'static str,
    /// The queue it is about, if it is about one.
    pub subject: Option<String>,
    /// The figure.
    pub value: f64,
    /// Its unit, as performance data writes it.
    pub unit: &'static str,
    /// Why the figure is an alert by itself: jobs wait, and nobody works.
    pub unattended: Option<&'static str>,
}

impl Metric {
    /// A figure about the server as a whole.
    #[must_use]
    pub fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, subject: None, value, unit, unattended: None }
    }

    /// About this queue.
    #[must_use]
    pub fn of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }
}

/// What a check has found out: figures, and why there are not more.
#[derive(Debug)]
pub struct Measured {
    /// The figures that came.
    pub metrics: Vec<Metric>,
    /// Why others did not.
    pub failure: Option<CliError>,
}

impl From<Result<Vec<Metric>, CliError>> for Measured {
    fn from(measured: Result<Vec<Metric>, CliError>) -> Self {
        match measured {
            Ok(metrics) => Self { metrics, failure: None },
            Err(error) => Self { metrics: Vec::new(), failure: Some(error) },
        }
    }
}

/// What is checked, as reports call it.
#[derive(Debug, Clone, Copy)]
pub struct Title<'a> {
    /// Such as `server`, or the name of a queue.
    pub name: &'a str,
    /// What one subject is called, such as `function`: the key in documents.
    pub noun: &'static str,
    /// Whether there may be several subjects.
    pub many: bool,
}

/// Judges what was measured, writes the report and gives the exit code. Failures are verdicts; figures that came all
/// the same are reported with them.
///
/// # Errors
/// Only failures of writing.
pub fn conclude(
    out: &mut Output,
    program: &Program,
    flags: &CheckFlags,
    title: Title<'_>,
    measured: impl Into<Measured>,
) -> Result<Exit, CliError> {
    let Measured { metrics, failure } = measured.into();
    let format = match (flags.format, out.style.format) {
        (Some(format), _) => format,
        (None, Format::Json | Format::Ndjson) => CheckFormat::Json,
        (None, Format::Table | Format::Wide) => CheckFormat::Text,
        (None, _) => CheckFormat::Nagios,
    };
    let judged = match failure {
        None => flags.require(&metrics).map(|()| flags.judge(metrics)),
        Some(error) => Err((error, flags.judge(metrics))),
    };
    let report = match judged {
        Ok(judged) => Report::of(title, judged),
        Err((error, judged)) => Report::failed(&error, flags.on_timeout, judged),
    };
    let headline = program.headline(report.verdict, &report.summary);
    match format {
        CheckFormat::Nagios => out.text(&report.nagios(&headline))?,
        CheckFormat::Text => out.text(&report.text(&headline))?,
        CheckFormat::Json => {
            out.style.format = Format::Json;
            out.document(&report.json(title.noun))?;
        }
    }
    out.flush()?;
    Ok(report.verdict.exit())
}

impl CheckFlags {
    /// Refuses thresholds of metrics that there are not.
    fn require(&self, metrics: &[Metric]) -> Result<(), (CliError, Vec<Judged>)> {
        for threshold in self.warning.iter().chain(&self.critical) {
            if !metrics.iter().any(|metric| metric.name == threshold.metric) {
                let mut known: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
                known.sort_unstable();
                known.dedup();
                let text = format!("there is no metric `{}`", threshold.metric);
                let hint = format!("metrics: {}", known.join(", "));
                return Err((CliError::usage(text).hint(hint), Vec::new()));
            }
        }
        Ok(())
    }

    fn judge(&self, metrics: Vec<Metric>) -> Vec<Judged> {
        metrics.into_iter().map(|metric| self.judge_one(metric)).collect()
    }

    fn judge_one(&self, metric: Metric) -> Judged {
        let find = |thresholds: &[Threshold]| {
            thresholds.iter().rev().find(|threshold| threshold.metric == metric.name).cloned()
        };
        let (warning, critical) = (find(&self.warning), find(&self.critical));
        let alerts = |threshold: &Option<Threshold>| {
            threshold.as_ref().is_some_and(|threshold| threshold.range.alerts(metric.value))
        };
        let unattended = metric.unattended.is_some() && self.zero_workers != ZeroWorkers::Ok;
        let grave = unattended && self.zero_workers == ZeroWorkers::Crit;
        let verdict = if alerts(&critical) || grave {
            Verdict::Critical
        } else if alerts(&warning) || unattended {
            Verdict::Warning
        } else {
            Verdict::Ok
        };
        let text = |threshold: Option<Threshold>| threshold.map(|t| t.range.to_string());
        Judged { warning: text(warning), critical: text(critical), verdict, unattended, metric }
    }
}

/// A metric with what its thresholds say.
struct Judged {
    metric: Metric,
    warning: Option<String>,
    critical: Option<String>,
    verdict: Verdict,
    unattended: bool,
}

/// The outcome of a check.
struct Report {
    verdict: Verdict,
    summary: String,
    judged: Vec<Judged>,
}

/// Figures that the summary of a check without alerts shows.
const SHOWN: usize = 4;

impl Report {
    fn of(title: Title<'_>, judged: Vec<Judged>) -> Self {
        let verdict = judged.iter().map(|j| j.verdict).max().unwrap_or(Verdict::Ok);
        let alerts: Vec<String> = judged
            .iter()
            .filter(|j| j.verdict != Verdict::Ok)
            .map(|j| j.reason(title.many))
            .collect();
        let shown = if !alerts.is_empty() {
            alerts.join(", ")
        } else if title.many {
            let mut subjects: Vec<_> = judged.iter().map(|j| &j.metric.subject).collect();
            subjects.dedup();
            format!("{} fine", units::count(subjects.len() as u64, title.noun))
        } else {
            let figure = |j: &Judged| format!("{} {}", j.metric.name, j.number());
            judged.iter().take(SHOWN).map(figure).collect::<Vec<_>>().join(", ")
        };
        Self { verdict, summary: format!("{}: {shown}", title.name), judged }
    }

    /// From the failure of the check itself, and what was found out all the same.
    fn failed(error: &CliError, on_timeout: OnTimeout, judged: Vec<Judged>) -> Self {
        let late = error.exit == Exit::Timeout || error.code == "CONNECT_TIMEOUT";
        let verdict = match error.exit {
            _ if late && on_timeout == OnTimeout::Unknown => Verdict::Unknown,
            Exit::Timeout
            | Exit::Unavailable
            | Exit::TryAgain
            | Exit::Protocol
            | Exit::Negative => Verdict::Critical,
            _ => Verdict::Unknown,
        };
        let critical = judged.iter().any(|judged| judged.verdict == Verdict::Critical);
        let verdict = if critical { Verdict::Critical } else { verdict };
        let mut summary = format!("{}: {}", error.code, error.message);
        for hint in &error.hints {
            summary.push_str(&format!(" ({hint})"));
        }
        Self { verdict, summary, judged }
    }

    fn nagios(&self, headline: &str) -> String {
        if self.judged.is_empty() {
            return format!("{headline}\n");
        }
        let data: Vec<String> = self.judged.iter().map(Judged::performance).collect();
        format!("{headline} | {}\n", data.join(" "))
    }

    fn text(&self, headline: &str) -> String {
        let mut text = format!("{headline}\n");
        for judged in &self.judged {
            let place = judged.metric.subject.as_ref().map(|subject| format!("{subject} "));
            let place = crate::escape::line(place.as_deref().unwrap_or_default()).into_owned();
            let (word, name) = (judged.verdict.word(), judged.metric.name);
            text.push_str(&format!("  {word:8} {place}{name} {}\n", judged.number()));
        }
        text
    }

    fn json(&self, noun: &str) -> Value {
        let metrics: Vec<Value> = self
            .judged
            .iter()
            .map(|judged| {
                json!({
                    "name": judged.metric.name,
                    noun: judged.metric.subject,
                    "value": judged.metric.value,
                    "unit": judged.metric.unit,
                    "warning": judged.warning,
                    "critical": judged.critical,
                    "status": judged.verdict.word(),
                })
            })
            .collect();
        json!({
            "status": self.verdict.word(),
            "exit": self.verdict.exit().code(),
            "summary": self.summary,
            "metrics": metrics,
        })
    }
}

impl Judged {
    fn reason(&self, with_subject: bool) -> String {
        let subject = match &self.metric.subject {
            Some(subject) if with_subject => format!("{subject} "),
            _ => String::new(),
        };
        if let (Some(why), true) = (self.metric.unattended, self.unattended) {
            return format!("{subject}{why}");
        }
        let range = match self.verdict {
            Verdict::Critical => self.critical.as_deref(),
            _ => self.warning.as_deref(),
        };
        let range = range.unwrap_or_default();
        format!("{subject}{} {} (range {range})", self.metric.name, self.number())
    }

    /// `'label'=value[unit];warning;critical;minimum`.
    fn performance(&self) -> String {
        let label = match &self.metric.subject {
            Some(subject) => format!("{subject}_{}", self.metric.name),
            None => self.metric.name.to_owned(),
        };
        // Quotes and bars would end the label.
        let label = crate::escape::line(&label).replace(['\'', '|', '='], "_");
        format!(
            "'{label}'={}{};{};{};0;",
            self.metric.value,
            self.metric.unit,
            self.warning.as_deref().unwrap_or_default(),
            self.critical.as_deref().unwrap_or_default()
        )
    }

    fn number(&self) -> String {
        format!("{}{}", self.metric.value, self.metric.unit)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use clap::Parser;

    use super::*;
    use crate::output::Style;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: CheckFlags,
    }

    use crate::program::TOOL as PROGRAM;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn figures_that_came_are_reported_with_what_did_not() {
        for (line, exit, word) in [
            (&["check"][..], 2, "CRITICAL"),
            (&["check", "--on-timeout", "unknown"], 3, "UNKNOWN"),
            (&["check", "--on-timeout", "unknown", "-c", "rtt=1"], 2, "CRITICAL"),
            // Whether there is a metric of this name cannot be known.
            (&["check", "--on-timeout", "unknown", "-c", "queued=1"], 3, "UNKNOWN"),
        ] {
            let flags = Line::parse_from(line).flags;
            let failure = Some(CliError::timeout("status: no reply"));
            let measured = Measured { metrics: vec![Metric::new("rtt", 5.0, "ms")], failure };
            let sink = Sink::default();
            let mut out = Output::to(Box::new(sink.clone()), Style::default());
            let title = Title { name: "server", noun: "queue", many: false };
            let verdict = conclude(&mut out, &PROGRAM, &flags, title, measured).unwrap();
            let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            assert_eq!(verdict.code(), exit, "{line:?}: {text}");
            assert!(
                text.starts_with(&format!("TOOL {word} - TIMEOUT: status: no reply")),
                "{text}"
            );
            assert!(text.contains("'rtt'=5ms;"), "{text}");
        }
    }
}
