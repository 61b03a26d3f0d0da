//! The outcome of a check, and its reports for monitoring systems, people and scripts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::measured::{Metric, Stated};
use crate::error::{CliError, Exit};
use crate::rules::thresholds::Verdict;
use crate::text::{escape, units, wrap};

/// The subject of a check, as reports name it.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// For example `server`, or the name of a queue.
    pub name: String,
    /// The noun for one subject, such as `function`.
    pub noun: &'static str,
    /// Whether there may be several subjects.
    pub many: bool,
    /// Whether the check changes something, which a dry run may not.
    pub changes: bool,
    /// Whether it is asked of any server, instead of each.
    pub of_any: bool,
}

impl Subject {
    /// A single subject that the check only reads.
    #[must_use]
    pub fn one(noun: &'static str, name: impl Into<String>) -> Self {
        Self { name: name.into(), noun, ..Self::default() }
    }
}

/// A metric with the verdict of its thresholds.
pub(super) struct Judged {
    pub(super) metric: Metric,
    pub(super) warning: Option<String>,
    pub(super) critical: Option<String>,
    pub(super) verdict: Verdict,
    /// Why the figure alone is an alert, if it is one.
    pub(super) problem: Option<&'static str>,
}

/// The outcome of a check.
pub(super) struct Report {
    pub(super) verdict: Verdict,
    pub(super) summary: String,
    pub(super) judged: Vec<Judged>,
    /// Performance data from elsewhere.
    pub(super) figures: String,
}

/// Number of figures in the summary of a check without alerts.
const SHOWN: usize = 4;
/// Number of alerts in the summary of a check of many subjects, and length of each in characters.
pub(super) const NAMED: usize = 10;
const NAMED_LENGTH: usize = 160;
/// Maximum length of a report in bytes, which every monitoring system accepts.
const LINE: usize = 4 << 10;

impl Report {
    /// The outcome from figures, and from what is stated, such as the absence of a subject.
    pub(super) fn of(
        subject: &Subject,
        judged: Vec<Judged>,
        Stated { text, verdict, figures }: Stated,
    ) -> Self {
        let verdict = judged.iter().map(|j| j.verdict).fold(verdict, Verdict::max);
        let mut parts: Vec<String> =
            Some(text).filter(|text| !text.is_empty()).into_iter().collect();
        let mut name = subject.name.as_str();
        if subject.many {
            let alerts = alerts(&judged);
            if !judged.is_empty() {
                let counts = count_subjects(&judged, subject.noun);
                let named =
                    (!alerts.is_empty()).then(|| format!("{counts}: {}", alerts.join("; ")));
                parts.push(named.unwrap_or(counts));
            }
            // The count implies it.
            if name.strip_suffix('s') == Some(subject.noun) && !judged.is_empty() {
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
        Self { verdict, summary: format!("{name}{colon}{parts}"), judged, figures }
    }

    /// The outcome from a failure of the check itself, and from what was found anyway.
    pub(super) fn failed(error: &CliError, on_timeout: Verdict, judged: Vec<Judged>) -> Self {
        let late = error.is_late();
        let verdict = match error.exit {
            _ if late => on_timeout,
            Exit::Unknown
            | Exit::Unavailable
            | Exit::TryAgain
            | Exit::Protocol
            | Exit::Negative => Verdict::Critical,
            _ => Verdict::Unknown,
        };
        let verdict = judged.iter().map(|judged| judged.verdict).fold(verdict, Verdict::max);
        // An alert carries no hints: its reader has no command line at hand.
        let mut parts = vec![format!("{}: {}", error.code, error.message)];
        parts.extend(alerts(&judged));
        Self { verdict, summary: parts.join("; "), judged, figures: String::new() }
    }

    /// The reported figures: those that the command line asks for and those that alert; without thresholds, also those
    /// that the verdict depends on.
    pub(super) fn reported(&self) -> impl Iterator<Item = &Judged> {
        let is_asked = self.judged.iter().any(Judged::has_threshold);
        let is_reported =
            move |one: &&Judged| one.is_asked_for() || (!is_asked && one.metric.usual);
        self.judged.iter().filter(is_reported)
    }

    /// One line. For many subjects, it has only the figures that thresholds name, as many as fit.
    pub(super) fn nagios(&self, headline: &str, many: bool) -> String {
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
        if !self.figures.is_empty() {
            line.push_str(before);
            line.push_str(&escape::clip(&self.figures, LINE / 2));
        }
        line.push('\n');
        line
    }

    /// For people: the verdict, on lines no longer than `width`, and the figures.
    pub(super) fn text(&self, headline: &str, width: Option<usize>) -> String {
        let headline = width.map_or(headline.into(), |width| wrap::words(headline, width));
        let mut text = format!("{headline}\n");
        for judged in self.reported() {
            let place = judged.metric.place().map(|place| format!("{place} "));
            let place = escape::line(place.as_deref().unwrap_or_default()).into_owned();
            let (word, name) = (judged.verdict.word(), judged.metric.name);
            text.push_str(&format!("  {word:8} {place}{name} {}\n", judged.number()));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let metrics: Vec<Value> = self
            .judged
            .iter()
            .map(|judged| {
                let metric = &judged.metric;
                let mut record = json!({
                    "name": metric.name,
                    "queue": metric.subject,
                    "server": metric.server,
                    "value": metric.value,
                    "unit": metric.unit,
                    "warning": judged.warning,
                    "critical": judged.critical,
                    "problem": judged.problem,
                    "status": judged.verdict.word(),
                });
                if let (Some(record), Some(most)) = (record.as_object_mut(), metric.most) {
                    record.insert("most".to_owned(), most.into());
                }
                record
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
        let verdict = worst.entry(judged.metric.place()).or_insert(Verdict::Ok);
        *verdict = judged.verdict.max(*verdict);
    }
    let all = units::count(worst.len() as u64, noun);
    let count = |verdict| worst.values().filter(|of| **of == verdict).count();
    let counts = [Verdict::Critical, Verdict::Unknown, Verdict::Warning];
    let counts = counts.map(|verdict| (count(verdict), verdict));
    let mut counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let word = |verdict: Verdict| verdict.word().to_lowercase();
    let Some((first, verdict)) = counts.next() else { return format!("{all} fine") };
    let mut text = format!("{first} of {all} {}", word(verdict));
    counts.for_each(|(count, verdict)| text.push_str(&format!(", {count} {}", word(verdict))));
    text
}

/// The alerts by reason, the most severe first, such as `ready jobs but no workers: mail, sms and 6 more`.
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
        let short: Vec<_> = who.iter().map(|who| escape::clip(who, NAMED_LENGTH)).collect();
        format!("{why}: {}", units::first_of(&short, each))
    };
    let mut texts: Vec<String> = groups.iter().take(NAMED).map(text).collect();
    if more > 0 {
        texts.push(format!("and {}", units::count(more as u64, "more reason")));
    }
    texts
}

impl Judged {
    pub(super) fn is_alert(&self) -> bool {
        self.verdict != Verdict::Ok
    }

    /// Whether a threshold names it.
    fn has_threshold(&self) -> bool {
        self.warning.is_some() || self.critical.is_some()
    }

    /// Whether the command line asks for it, or it alerts on its own.
    pub(super) fn is_asked_for(&self) -> bool {
        self.has_threshold() || self.metric.asked || self.is_alert()
    }

    /// The range that it violates.
    fn range(&self) -> &str {
        let (warning, critical) = (self.warning.as_deref(), self.critical.as_deref());
        let range = match self.verdict {
            Verdict::Critical => critical,
            Verdict::Unknown => critical.or(warning),
            Verdict::Warning | Verdict::Ok => warning,
        };
        range.unwrap_or_default()
    }

    /// Why it alerts.
    pub(super) fn reason(&self) -> String {
        match self.problem {
            Some(why) => why.to_owned(),
            None => format!("{} {} (range {})", self.metric.name, self.number(), self.range()),
        }
    }

    /// Why it alerts, in the same words for all subjects with this reason; and the subject.
    fn grouped(&self) -> (String, String) {
        let subject = self.metric.place().unwrap_or_default();
        match self.problem {
            Some(why) => (why.to_owned(), subject),
            None => {
                let why = format!("{} (range {})", self.metric.name, self.range());
                (why, format!("{subject} {}", self.number()).trim_start().to_owned())
            }
        }
    }

    /// `'label'=value[unit];warning;critical;minimum`.
    fn performance(&self) -> String {
        let label = match self.metric.place() {
            Some(place) => format!("{place}_{}", self.metric.name),
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

    pub(super) fn number(&self) -> String {
        let (value, unit) = (self.metric.value, self.metric.unit);
        match self.metric.most {
            Some(most) if most > value => format!("{value} to {most}{unit}"),
            _ => format!("{value}{unit}"),
        }
    }
}
