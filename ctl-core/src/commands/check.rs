//! Checks for monitoring and CI: figures, thresholds, verdicts, and reports about them.

pub(crate) mod complete;
mod formats;
mod several;

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

pub use self::complete::{Measurable, Named};
pub use self::several::measure_all;
use crate::commands::thresholds::{self, Range, Threshold, Verdict};
use crate::error::{CliError, Exit};
use crate::output::escape;
use crate::output::units;
use crate::output::wrap;
use crate::output::{Format, Output};
use crate::program::Program;

/// Flags of every check.
#[derive(Debug, Clone, Args)]
pub struct CheckFlags {
    /// Warn outside this range; repeatable
    #[arg(short, long, global = true, value_name = thresholds::VALUE)]
    warning: Vec<Threshold>,

    /// Critical outside this range; repeatable
    #[arg(short, long, global = true, value_name = thresholds::VALUE)]
    critical: Vec<Threshold>,

    /// Output format
    #[arg(long, global = true, value_name = "FMT")]
    format: Option<CheckFormat>,

    /// Verdict on a timeout
    #[arg(long, global = true, value_name = "VERDICT", default_value = "critical")]
    on_timeout: OnTimeout,

    /// Verdict when jobs are waiting and there are no workers
    #[arg(long, global = true, value_name = "VERDICT", default_value = "crit")]
    zero_workers: ZeroWorkers,

    /// Verdict when no queue matches
    #[arg(long, global = true, value_name = "VERDICT")]
    missing: Option<Missing>,

    /// Fail if nothing matches (same as --missing crit)
    #[arg(long, global = true, conflicts_with = "missing")]
    must_exist: bool,
}

/// The value of `--missing`, and a tool's default for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// OK: a queue that exists only while in use counts as empty.
    Ok,
    /// Exit 1.
    Warn,
    /// Exit 2.
    Crit,
}

impl Missing {
    fn verdict(self) -> Verdict {
        match self {
            Self::Ok => Verdict::Ok,
            Self::Warn => Verdict::Warning,
            Self::Crit => Verdict::Critical,
        }
    }
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
    /// Prometheus metrics, for a textfile collector.
    Prometheus,
    /// Test report for CI systems.
    Junit,
    /// GitHub workflow annotations.
    Github,
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
    /// The queue that it describes, if any.
    pub subject: Option<String>,
    /// The figure.
    pub value: f64,
    /// Its unit, as performance data writes it.
    pub unit: &'static str,
    /// The reason if the figure alone is an alert, such as `ready jobs but no watchers`.
    pub unattended: Option<&'static str>,
    /// Whether the verdict depends on it even without a threshold, so that it is always reported.
    pub usual: bool,
}

impl Metric {
    /// A figure about the server as a whole.
    #[must_use]
    pub fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, subject: None, value, unit, unattended: None, usual: false }
    }

    /// The figure of a subject that has nothing.
    #[must_use]
    pub fn of_nothing((name, unit): Named) -> Self {
        Self::new(name, 0.0, unit)
    }

    /// Makes the verdict depend on it even without a threshold.
    #[must_use]
    pub fn usual(self) -> Self {
        Self { usual: true, ..self }
    }

    /// Makes it describe this queue.
    #[must_use]
    pub fn of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }
}

/// The findings of a check: figures, and why some are missing.
#[derive(Debug, Default)]
pub struct Measured {
    /// The figures that arrived.
    pub metrics: Vec<Metric>,
    /// Why others did not arrive.
    pub failure: Option<CliError>,
    /// Set if there is no such queue, or none that matches. The figures, if any, are then those of an empty one.
    pub absent: Option<String>,
    /// Without figures, the names that an empty queue would have: thresholds for other names are mistakes, which would
    /// go unnoticed as long as there is no queue.
    pub known: Vec<Metric>,
}

impl Measured {
    /// The subject does not exist; the figures are those of an empty one.
    #[must_use]
    pub fn absent(why: impl Into<String>, metrics: Vec<Metric>) -> Self {
        Self { metrics, absent: Some(why.into()), ..Self::default() }
    }

    /// The subject does not exist, and there are no figures; `known` are those of an empty one.
    #[must_use]
    pub fn nothing(why: impl Into<String>, known: Vec<Metric>) -> Self {
        Self { known, ..Self::absent(why, Vec::new()) }
    }
}

impl From<Vec<Metric>> for Measured {
    fn from(metrics: Vec<Metric>) -> Self {
        Self { metrics, ..Self::default() }
    }
}

impl From<CliError> for Measured {
    fn from(failure: CliError) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

impl<M: Into<Self>> From<Result<M, CliError>> for Measured {
    fn from(measured: Result<M, CliError>) -> Self {
        measured.map_or_else(Self::from, Into::into)
    }
}

/// The subject of a check, as reports name it.
#[derive(Debug, Clone, Copy)]
pub struct Title<'a> {
    /// For example `server`, or the name of a queue.
    pub name: &'a str,
    /// The noun for one subject, such as `function`: the key in documents.
    pub noun: &'static str,
    /// Whether there may be several subjects.
    pub many: bool,
    /// What it means if there is none, unless a flag overrides it.
    pub missing: Missing,
}

/// Judges what was measured, writes the report and returns the exit code. Failures become verdicts; figures that
/// arrived anyway are reported with them.
///
/// # Errors
/// Only write failures.
pub fn conclude(
    out: &mut Output,
    program: &Program,
    flags: &CheckFlags,
    title: Title<'_>,
    measured: impl Into<Measured>,
) -> Result<Exit, CliError> {
    let Measured { metrics, failure, absent, known } = measured.into();
    let format = match (flags.format, out.style.format) {
        (Some(format), _) => format,
        (None, Format::Json | Format::Ndjson) => CheckFormat::Json,
        (None, Format::Table | Format::Wide) => CheckFormat::Text,
        (None, _) => CheckFormat::Nagios,
    };
    let judged = match failure {
        None if metrics.is_empty() && absent.is_some() => {
            flags.require(&known).map(|()| Vec::new())
        }
        None => flags.require(&metrics).map(|()| flags.judge(metrics)),
        Some(error) => Err((error, flags.judge(metrics))),
    };
    let report = match judged {
        Ok(judged) => {
            let missing = if flags.must_exist { Some(Missing::Crit) } else { flags.missing };
            let verdict = missing.unwrap_or(title.missing).verdict();
            Report::of(title, judged, absent.map(|why| (why, verdict)))
        }
        Err((error, judged)) => Report::failed(&error, flags.on_timeout, judged),
    };
    let headline = report.verdict.headline(program, &report.summary);
    match format {
        CheckFormat::Nagios => out.text(&report.nagios(&headline, title.many))?,
        CheckFormat::Text => out.text(&report.text(&headline, out.width()))?,
        CheckFormat::Prometheus => out.text(&report.prometheus(program.name, title))?,
        CheckFormat::Junit => {
            let junit = report.junit(program.name, title);
            out.text(&junit.map_err(|error| CliError::writing("the report", &error))?)?;
        }
        CheckFormat::Github => out.text(&report.github(&headline))?,
        CheckFormat::Json => {
            out.style.format = Format::Json;
            out.document(&report.json(title.noun))?;
        }
    }
    out.flush()?;
    Ok(report.verdict.exit())
}

impl CheckFlags {
    /// Whether a threshold names this metric, which costs more to measure than the others.
    #[must_use]
    pub fn ask_for(&self, metric: &str) -> bool {
        self.warning.iter().chain(&self.critical).any(|threshold| threshold.metric == metric)
    }

    /// Refuses thresholds of metrics that do not exist.
    fn require(&self, metrics: &[Metric]) -> Result<(), (CliError, Vec<Judged>)> {
        for threshold in self.warning.iter().chain(&self.critical) {
            let found = metrics.iter().find(|metric| metric.name == threshold.metric);
            if let Some(metric) = found
                && threshold.range.in_unit(metric.unit).is_none()
            {
                let (name, range) = (metric.name, &threshold.range);
                let text = format!("`{range}` is a time range, but {name} is a number");
                return Err((CliError::usage(text).hint(format!("{name}=10")), Vec::new()));
            }
            if found.is_none() {
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
            let of_metric = |threshold: &&Threshold| threshold.metric == metric.name;
            thresholds.iter().rev().find(of_metric)?.range.in_unit(metric.unit)
        };
        let (warning, critical) = (find(&self.warning), find(&self.critical));
        let alerts =
            |range: &Option<Range>| range.as_ref().is_some_and(|range| range.alerts(metric.value));
        let unattended = metric.unattended.is_some() && self.zero_workers != ZeroWorkers::Ok;
        let grave = unattended && self.zero_workers == ZeroWorkers::Crit;
        let verdict = if alerts(&critical) || grave {
            Verdict::Critical
        } else if alerts(&warning) || unattended {
            Verdict::Warning
        } else {
            Verdict::Ok
        };
        let text = |range: Option<Range>| range.map(|range| range.to_string());
        Judged { warning: text(warning), critical: text(critical), verdict, unattended, metric }
    }
}

/// A metric with the verdict of its thresholds.
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

/// Number of figures in the summary of a check without alerts.
const SHOWN: usize = 4;
/// Number of alerts in the summary of a check of many subjects, and length of each in characters.
const NAMED: usize = 10;
const NAMED_LENGTH: usize = 160;
/// Maximum length of a report in bytes, which every monitoring system accepts.
const LINE: usize = 4 << 10;

impl Report {
    /// The outcome from figures, or from the absence of a subject.
    fn of(title: Title<'_>, judged: Vec<Judged>, absent: Option<(String, Verdict)>) -> Self {
        let (absent, missing) = absent.map_or((None, Verdict::Ok), |(why, v)| (Some(why), v));
        let verdict = judged.iter().map(|j| j.verdict).fold(missing, Verdict::max);
        let mut parts: Vec<String> = absent.into_iter().collect();
        let mut name = title.name;
        if title.many {
            let alerts = alerts(&judged);
            if !judged.is_empty() {
                let counts = count_subjects(&judged, title.noun);
                let named =
                    (!alerts.is_empty()).then(|| format!("{counts}: {}", alerts.join("; ")));
                parts.push(named.unwrap_or(counts));
            }
            // The count implies it.
            if name.strip_suffix('s') == Some(title.noun) && !judged.is_empty() {
                name = "";
            }
        } else if judged.iter().any(Judged::is_alert) {
            let alerts = judged.iter().filter(|judged| judged.is_alert());
            parts.extend(alerts.map(Judged::reason));
        } else {
            let figure = |j: &Judged| format!("{} {}", j.metric.name, j.number());
            parts.extend(judged.iter().take(SHOWN).map(figure));
        }
        let (parts, colon) = (parts.join(", "), if name.is_empty() { "" } else { ": " });
        Self { verdict, summary: format!("{name}{colon}{parts}"), judged }
    }

    /// The outcome from a failure of the check itself, and from what was found anyway.
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
        // Whoever an alert wakes has no command line in front of them, so it has no hints.
        Self { verdict, summary: format!("{}: {}", error.code, error.message), judged }
    }

    /// The reported figures: those that thresholds name and those that alert; without thresholds, those that the
    /// verdict depends on.
    fn reported(&self) -> impl Iterator<Item = &Judged> {
        let is_asked = self.judged.iter().any(Judged::has_threshold);
        let is_reported =
            move |one: &&Judged| one.is_asked_for() || (!is_asked && one.metric.usual);
        self.judged.iter().filter(is_reported)
    }

    /// One line. For many subjects, it has only the figures that thresholds name, as many as fit.
    fn nagios(&self, headline: &str, many: bool) -> String {
        let mut line = escape::clip(headline, LINE / 2).into_owned();
        let mut before = " | ";
        for judged in self.reported().filter(|judged| !many || judged.is_asked_for()) {
            let data = judged.performance();
            if many && line.len() + before.len() + data.len() >= LINE {
                break;
            }
            line.push_str(before);
            line.push_str(&data);
            before = " ";
        }
        line.push('\n');
        line
    }

    /// For people: the verdict, on lines no longer than `width`, and the figures.
    fn text(&self, headline: &str, width: Option<usize>) -> String {
        let headline = width.map_or(headline.into(), |width| wrap::words(headline, width));
        let mut text = format!("{headline}\n");
        for judged in self.reported() {
            let place = judged.metric.subject.as_ref().map(|subject| format!("{subject} "));
            let place = escape::line(place.as_deref().unwrap_or_default()).into_owned();
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

/// For example `3 of 500 tubes critical, 2 warning`, each by its worst figure.
fn count_subjects(judged: &[Judged], noun: &str) -> String {
    let mut worst = BTreeMap::new();
    for judged in judged {
        let verdict = worst.entry(&judged.metric.subject).or_insert(Verdict::Ok);
        *verdict = judged.verdict.max(*verdict);
    }
    let all = units::count(worst.len() as u64, noun);
    let count = |verdict| worst.values().filter(|of| **of == verdict).count();
    let counts = [Verdict::Critical, Verdict::Warning].map(|verdict| (count(verdict), verdict));
    let mut counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let word = |verdict: Verdict| verdict.word().to_lowercase();
    let Some((first, verdict)) = counts.next() else { return format!("{all} fine") };
    let mut text = format!("{first} of {all} {}", word(verdict));
    counts.for_each(|(count, verdict)| text.push_str(&format!(", {count} {}", word(verdict))));
    text
}

/// The alerts by reason, the most severe first, such as `ready jobs but no watchers: mail, sms and 6 more`.
fn alerts(judged: &[Judged]) -> Vec<String> {
    let mut groups: Vec<(Verdict, String, Vec<String>)> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.is_alert()) {
        let (why, who) = judged.grouped();
        match groups.iter_mut().find(|(verdict, of, _)| *verdict == judged.verdict && *of == why) {
            Some((_, _, all)) => all.push(who),
            None => groups.push((judged.verdict, why, vec![who])),
        }
    }
    groups.sort_by_key(|(verdict, _, _)| std::cmp::Reverse(*verdict));
    let more = groups.len().saturating_sub(NAMED);
    let each = (NAMED / groups.len().max(1)).max(1);
    let text = |(_, why, who): &(Verdict, String, Vec<String>)| {
        let short = who.iter().take(each).map(|who| escape::clip(who, NAMED_LENGTH));
        let names = short.collect::<Vec<_>>().join(", ");
        let rest = who.len().saturating_sub(each);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("{why}: {names}{rest}")
    };
    let mut texts: Vec<String> = groups.iter().take(NAMED).map(text).collect();
    if more > 0 {
        texts.push(format!("and {}", units::count(more as u64, "more reason")));
    }
    texts
}

impl Judged {
    fn is_alert(&self) -> bool {
        self.verdict != Verdict::Ok
    }

    /// Whether a threshold names it.
    fn has_threshold(&self) -> bool {
        self.warning.is_some() || self.critical.is_some()
    }

    /// Whether a threshold names it, or it alerts on its own.
    fn is_asked_for(&self) -> bool {
        self.has_threshold() || self.is_alert()
    }

    /// The range that it violates.
    fn range(&self) -> &str {
        let range = match self.verdict {
            Verdict::Critical => self.critical.as_deref(),
            _ => self.warning.as_deref(),
        };
        range.unwrap_or_default()
    }

    /// Why it alerts.
    fn reason(&self) -> String {
        match self.metric.unattended {
            Some(why) if self.unattended => why.to_owned(),
            _ => format!("{} {} (range {})", self.metric.name, self.number(), self.range()),
        }
    }

    /// The same with its subject.
    fn whole_reason(&self) -> String {
        let subject = self.metric.subject.as_ref().map(|subject| format!("{subject} "));
        let colon = if self.unattended { "has " } else { "" };
        format!("{}{colon}{}", subject.unwrap_or_default(), self.reason())
    }

    /// Why it alerts, in the same words for all subjects with this reason; and the subject.
    fn grouped(&self) -> (String, String) {
        let subject = self.metric.subject.clone().unwrap_or_default();
        match self.metric.unattended {
            Some(why) if self.unattended => (why.to_owned(), subject),
            _ => {
                let why = format!("{} (range {})", self.metric.name, self.range());
                (why, format!("{subject} {}", self.number()).trim_start().to_owned())
            }
        }
    }

    /// `'label'=value[unit];warning;critical;minimum`.
    fn performance(&self) -> String {
        let label = match &self.metric.subject {
            Some(subject) => format!("{subject}_{}", self.metric.name),
            None => self.metric.name.to_owned(),
        };
        // Quotes and vertical bars would end the label.
        let label = escape::line(&label).replace(['\'', '|', '='], "_");
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
    use clap::Parser;

    use super::*;
    use crate::output::{Memory, Style};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: CheckFlags,
    }

    use crate::program::TOOL as PROGRAM;

    #[test]
    fn figures_that_came_are_reported_with_what_did_not() {
        for (line, exit, word) in [
            (&["check"][..], 2, "CRITICAL"),
            (&["check", "--on-timeout", "unknown"], 3, "UNKNOWN"),
            (&["check", "--on-timeout", "unknown", "-c", "rtt=1"], 2, "CRITICAL"),
            // It cannot be known whether there is a metric of this name.
            (&["check", "--on-timeout", "unknown", "-c", "queued=1"], 3, "UNKNOWN"),
        ] {
            let flags = Line::parse_from(line).flags;
            let failure = Some(CliError::timeout("status: no reply"));
            let metrics = vec![Metric::new("rtt", 5.0, "ms").usual()];
            let measured = Measured { metrics, failure, ..Measured::default() };
            let sink = Memory::default();
            let mut out = Output::to(Box::new(sink.clone()), Style::default());
            let title =
                Title { name: "server", noun: "queue", many: false, missing: Missing::Crit };
            let verdict = conclude(&mut out, &PROGRAM, &flags, title, measured).unwrap();
            let text = String::from_utf8(sink.bytes()).unwrap();
            assert_eq!(verdict.code(), exit, "{line:?}: {text}");
            assert!(
                text.starts_with(&format!("TOOL {word} - TIMEOUT: status: no reply")),
                "{text}"
            );
            assert!(text.contains("'rtt'=5ms;"), "{text}");
        }
    }
}
