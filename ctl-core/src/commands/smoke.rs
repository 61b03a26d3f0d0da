//! `smoke` and `check roundtrip`: steps, each of which requires the previous ones, as a table or as a metric.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use clap::Args;

use crate::commands::check::Metric;
use crate::error::{CliError, Exit};
use crate::output::{Column, Output, Record, Shape};
use crate::text::units;

/// Arguments of `smoke`.
#[derive(Debug, Args)]
pub struct SmokeArgs {}

/// The steps of a check, as rows.
pub static STEPS: Shape = Shape::rows(
    "step",
    &[
        Column::new("step", "STEP"),
        Column::new("command", "COMMAND"),
        Column::new("expected", "EXPECTED").ranked(3),
        Column::new("got", "GOT").ranked(0),
        Column::new("duration_ms", "MS").ranked(2),
        Column::new("ok", "OK").ranked(0),
    ],
);

/// The steps and their outcomes.
#[derive(Debug)]
pub struct Steps {
    rows: Vec<Record>,
    /// The step that failed, and what came instead.
    failed: Option<String>,
    start: Instant,
    /// When the current step started.
    since: Instant,
    /// What ended the connection.
    broken: Option<CliError>,
}

impl Default for Steps {
    fn default() -> Self {
        let now = Instant::now();
        Self { rows: Vec::new(), failed: None, start: now, since: now, broken: None }
    }
}

impl Steps {
    /// When the current step started.
    #[must_use]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Ends a step, and starts the next one. Returns whether the step succeeded.
    pub fn note(
        &mut self,
        (step, command): (&'static str, &str),
        expected: &'static str,
        got: &str,
        ok: bool,
    ) -> bool {
        let ms = units::milliseconds(self.since.elapsed());
        self.since = Instant::now();
        if !ok {
            self.failed.get_or_insert_with(|| format!("{step}: {got}"));
        }
        let row = Record::new()
            .with("step", step)
            .with("command", command)
            .with("expected", expected)
            .with("got", got)
            .with("duration_ms", ms)
            .with("ok", ok);
        self.rows.push(row);
        ok
    }

    /// Ends a step with this error. Any error but a refusal has ended the connection.
    pub fn fail(
        &mut self,
        (step, command): (&'static str, &str),
        expected: &'static str,
        error: CliError,
    ) {
        let got = format!("{}: {}", error.code, error.message);
        self.note((step, command), expected, &got, false);
        self.broken = Some(error).filter(|error| error.exit != Exit::Negative);
    }

    /// Writes the table.
    ///
    /// # Errors
    /// What ended the connection, and write failures; a failed step is exit 1.
    pub fn finish(self, out: &mut Output) -> Result<Exit, CliError> {
        let mut list = out.list(&STEPS)?;
        for row in self.rows {
            list.push(row)?;
        }
        list.finish()?;
        match self.broken {
            Some(error) => Err(error),
            None if self.failed.is_some() => Ok(Exit::Negative),
            None => Ok(Exit::Done),
        }
    }
}

impl Steps {
    /// How long all of them took, for a check.
    ///
    /// # Errors
    /// The first step that failed.
    pub fn roundtrip(self) -> Result<Vec<Metric>, CliError> {
        let took = units::milliseconds(self.since.duration_since(self.start));
        match (self.broken, self.failed) {
            (Some(error), _) => Err(error.context("roundtrip")),
            (None, Some(why)) => {
                Err(CliError::new(Exit::Negative, "FAILED", format!("roundtrip, {why}")))
            }
            (None, None) => Ok(vec![Metric::new("rtt", took, "ms").usual()]),
        }
    }
}

/// A unique name for a queue of a command of this tool.
#[must_use]
pub fn scratch_name(tool: &str, purpose: &str) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{tool}-{purpose}-{random:016x}")
}
