//! What a check says: one line for monitoring systems, lines for people, or a document.

use ctl_core::error::{CliError, Exit};
use ctl_core::escape;
use ctl_core::output::{Format, Output};
use ctl_core::thresholds::Verdict;
use serde_json::{Value, json};

use super::{CheckFormat, Judged, OnTimeout, What};

/// The outcome of a check.
pub(super) struct Report {
    pub(super) verdict: Verdict,
    summary: String,
    judged: Vec<Judged>,
}

impl Report {
    /// From judged metrics.
    pub(super) fn of(what: &What, judged: Vec<Judged>) -> Self {
        let verdict = judged.iter().map(|j| j.verdict).max().unwrap_or(Verdict::Ok);
        let name = match what {
            What::Server => "server",
            What::Tube { tube } => tube,
            What::Tubes { .. } => "tubes",
            What::Roundtrip => "roundtrip",
        };
        let alerts: Vec<&Judged> = judged.iter().filter(|j| j.verdict != Verdict::Ok).collect();
        let shown: Vec<String> = if alerts.is_empty() {
            let most = if matches!(what, What::Tubes { .. }) { 0 } else { 4 };
            judged.iter().take(most).map(|j| format!("{} {}", j.metric.name, number(j))).collect()
        } else {
            alerts.iter().map(|j| j.reason(matches!(what, What::Tubes { .. }))).collect()
        };
        let summary = match (shown.is_empty(), what) {
            (true, What::Tubes { .. }) => {
                let mut tubes: Vec<_> =
                    judged.iter().filter_map(|j| j.metric.tube.as_ref()).collect();
                tubes.dedup();
                format!("{} fine", ctl_core::units::count(tubes.len() as u64, "tube"))
            }
            (true, _) => format!("{name}: rtt {}", judged.first().map(number).unwrap_or_default()),
            (false, _) => format!("{name}: {}", shown.join(", ")),
        };
        Self { verdict, summary, judged }
    }

    /// From the failure of the check itself.
    pub(super) fn failed(error: &CliError, on_timeout: OnTimeout) -> Self {
        let verdict = match error.exit {
            Exit::Timeout if on_timeout == OnTimeout::Unknown => Verdict::Unknown,
            Exit::Unavailable
                if error.code == "CONNECT_TIMEOUT" && on_timeout == OnTimeout::Unknown =>
            {
                Verdict::Unknown
            }
            Exit::Timeout
            | Exit::Unavailable
            | Exit::TryAgain
            | Exit::Protocol
            | Exit::Negative => Verdict::Critical,
            _ => Verdict::Unknown,
        };
        let mut summary = format!("{}: {}", error.code, error.message);
        for hint in &error.hints {
            summary.push_str(&format!(" ({hint})"));
        }
        Self { verdict, summary, judged: Vec::new() }
    }

    /// Writes it.
    pub(super) fn write(&self, out: &mut Output, format: CheckFormat) -> Result<(), CliError> {
        match format {
            CheckFormat::Nagios => out.text(&format!("{}\n", self.nagios()))?,
            CheckFormat::Text => out.text(&self.text())?,
            CheckFormat::Json => {
                out.style.format = Format::Json;
                out.document(&self.json())?;
            }
        }
        out.flush()
    }

    fn nagios(&self) -> String {
        let line = headline(self.verdict, &self.summary);
        if self.judged.is_empty() {
            return line;
        }
        let data: Vec<String> = self.judged.iter().map(Judged::performance).collect();
        format!("{line} | {}", data.join(" "))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", headline(self.verdict, &self.summary));
        for judged in &self.judged {
            let place =
                judged.metric.tube.as_ref().map(|tube| format!("{tube} ")).unwrap_or_default();
            let word = judged.verdict.word();
            text.push_str(&format!(
                "  {word:8} {place}{} {}\n",
                judged.metric.name,
                number(judged)
            ));
        }
        text
    }

    fn json(&self) -> Value {
        let metrics: Vec<Value> = self
            .judged
            .iter()
            .map(|judged| {
                json!({
                    "name": judged.metric.name,
                    "tube": judged.metric.tube.as_ref().map(|tube| tube.as_str()),
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
    fn reason(&self, with_tube: bool) -> String {
        let tube = match &self.metric.tube {
            Some(tube) if with_tube => format!("{tube} "),
            _ => String::new(),
        };
        let name = self.metric.name;
        if name == "workers" && self.metric.unattended {
            return format!("{tube}has ready jobs, and nobody watches it");
        }
        let range = match self.verdict {
            Verdict::Critical => self.critical.as_deref(),
            _ => self.warning.as_deref(),
        };
        format!("{tube}{name} {} (range {})", number(self), range.unwrap_or_default())
    }

    /// `'label'=value[unit];warning;critical;minimum`.
    fn performance(&self) -> String {
        let label = match &self.metric.tube {
            Some(tube) => format!("{tube}_{}", self.metric.name),
            None => self.metric.name.to_owned(),
        };
        format!(
            "'{label}'={}{};{};{};0;",
            self.metric.value,
            self.metric.unit,
            self.warning.as_deref().unwrap_or_default(),
            self.critical.as_deref().unwrap_or_default()
        )
    }
}

fn number(judged: &Judged) -> String {
    format!("{}{}", judged.metric.value, judged.metric.unit)
}

fn headline(verdict: Verdict, summary: &str) -> String {
    // A bar would begin performance data.
    let summary = escape::line(summary).replace('|', "/");
    format!("BSCTL {} - {summary}", verdict.word())
}

/// The line of a check that could not even be read, for stdout.
#[must_use]
pub fn unknown(why: &str) -> String {
    headline(Verdict::Unknown, why)
}
