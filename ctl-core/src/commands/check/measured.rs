//! The figures of a check, and why some are missing.

use crate::error::CliError;
use crate::rules::thresholds::Verdict;
use crate::text::escape;

/// The meaning of a figure without any threshold, with the reason to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Work waits and no worker takes it, such as `ready jobs but no workers`: CRITICAL, unless a critical threshold of
    /// the figure says what is normal.
    Unattended(&'static str),
    /// Work waits and the server does not report whether a worker takes it: UNKNOWN, unless a critical threshold of the
    /// figure says what is normal.
    Untold(&'static str),
    /// A warning, unless a threshold says what is normal.
    Unusual(&'static str),
}

/// One figure.
#[derive(Debug, Clone, Default)]
pub struct Metric {
    /// Its name, as thresholds use it.
    pub name: &'static str,
    /// The queue that it describes, if any.
    pub subject: Option<String>,
    /// The server that it is from, if there are several.
    pub server: Option<String>,
    /// The figure.
    pub value: f64,
    /// Set if the server does not say more than that the figure is between `value` and this.
    pub most: Option<f64>,
    /// Its unit, as performance data writes it.
    pub unit: &'static str,
    /// The meaning of the figure without any threshold.
    pub problem: Option<Problem>,
    /// Whether the verdict depends on it even without a threshold, so that it is always reported.
    pub usual: bool,
    /// Whether it is reported even if no threshold names it, because the command line asks for it in another way.
    pub asked: bool,
}

impl Metric {
    /// A figure about the server as a whole.
    #[must_use]
    pub fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, value, unit, ..Self::default() }
    }

    /// Makes the verdict depend on it even without a threshold.
    #[must_use]
    pub fn usual(self) -> Self {
        Self { usual: true, ..self }
    }

    /// Reports it whether or not a threshold names it.
    #[must_use]
    pub fn asked(self) -> Self {
        Self { asked: true, ..self }
    }

    /// The queue and the server, such as `mail on one:11300`.
    pub(super) fn place(&self) -> Option<String> {
        match (&self.subject, &self.server) {
            (Some(queue), Some(server)) => Some(format!("{queue} on {server}")),
            (one, other) => one.clone().or_else(|| other.clone()),
        }
    }

    /// Makes it describe this queue.
    #[must_use]
    pub fn of(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }
}

/// A verdict that is not about a figure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The reason.
    pub text: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Performance data as monitoring systems write it; may be empty.
    pub figures: String,
}

impl Stated {
    /// The verdict of another plugin: `2:text|figures`, on one line.
    pub fn read(output: &str) -> Option<Self> {
        let (code, text) = output.split_once(':')?;
        let all = [Verdict::Ok, Verdict::Warning, Verdict::Critical, Verdict::Unknown];
        let verdict = all.into_iter().find(|verdict| verdict.exit().code().to_string() == code)?;
        let line = text.lines().next().unwrap_or_default();
        let (text, figures) = line.split_once('|').unwrap_or((line, ""));
        let tidy = |text: &str| escape::line(text.trim()).into_owned();
        Some(Self { text: tidy(text), verdict, figures: tidy(figures) })
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
    /// Findings of another check.
    pub stated: Option<Stated>,
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
