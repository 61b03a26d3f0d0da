//! The report: a row for each client, and one for all of them.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::lane::Tally;
use super::{Plan, Sizes};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::times::milliseconds;
use crate::output::{Column, Field, Record, Shape};
use crate::system::signals::Interrupts;
use crate::text::units;

/// The name of the row of all clients.
pub(super) const ALL: &str = "all";

/// The clients of a benchmark, and all of them together, as rows.
pub static ROWS: Shape = Shape::rows(
    "client",
    &[
        Column::new("client", "CLIENT"),
        Column::new("ops", "OPS"),
        Column::new("errors", "ERRORS"),
        Column::wide("duration_seconds", "SECONDS"),
        Column::new("ops_per_second", "OPS/S"),
        Column::wide("bytes_per_second", "BYTES/S"),
        Column::wide("min_ms", "MIN"),
        Column::wide("mean_ms", "MEAN"),
        Column::new("p50_ms", "P50"),
        Column::new("p90_ms", "P90"),
        Column::new("p99_ms", "P99"),
        Column::new("p99_9_ms", "P99.9"),
        Column::new("max_ms", "MAX"),
        Column::on_request("mode", "MODE"),
        Column::on_request("clients", "CLIENTS"),
        Column::on_request("size", "SIZE"),
        Column::on_request("pipeline", "PIPELINE"),
        Column::on_request("rate", "RATE"),
        Column::on_request("errors_by_code", "ERRORS BY CODE"),
    ],
);

/// The measurements of a run.
pub struct Measured {
    rows: Vec<Record>,
    pub(super) all: Tally,
    last_error: Option<CliError>,
}

impl Measured {
    /// From the measurements of each client; `all` is still empty.
    pub(super) fn new(plan: &Plan, tallies: Vec<Tally>, mut all: Tally, start: Instant) -> Self {
        let begun = start + plan.flags.warmup;
        let mut rows = Vec::new();
        let mut last_error = None;
        for (mut tally, number) in tallies.into_iter().zip(1_u64..) {
            rows.push(row(plan, number.into(), &tally, begun));
            all.add(&tally);
            last_error = tally.last_error.take().or(last_error);
        }
        rows.push(row(plan, ALL.into(), &all, begun));
        Self { rows, all, last_error }
    }

    /// Shows the measurements, and returns the exit code. With a single client, its row is omitted.
    ///
    /// # Errors
    /// Its failure, if not one operation succeeded; write failures.
    pub fn report<T: Tool>(
        mut self,
        context: &mut Context<T>,
        plan: Plan,
        interrupts: &Interrupts,
    ) -> Result<Exit, CliError> {
        let failed: u64 = self.all.errors.values().sum();
        let ops = self.all.times.len();
        if let (0, Some(error)) = (ops, self.last_error.take()) {
            return Err(error);
        }
        if let [_, _] = self.rows.as_slice() {
            self.rows.remove(0);
        }
        let of_all = self.rows.last().cloned().unwrap_or_default();
        context.out.list(&ROWS)?.all(self.rows)?;
        if context.out.style.format.is_for_people() {
            context.messages.note("times in milliseconds");
        }
        if let Some(rate) = plan.flags.rate
            && number(&of_all, "ops_per_second").is_some_and(|came| came < 0.95 * rate)
        {
            let came = number(&of_all, "ops_per_second").unwrap_or_default();
            context.messages.note(format!("target rate {rate}/s, achieved {came:.0}/s"));
        }
        if failed > 0 {
            let errors = self.all.errors.iter().map(|(code, count)| format!("{count} {code}"));
            let errors = errors.collect::<Vec<_>>().join(", ");
            let last = self.last_error.map(|error| format!(": {}", error.message));
            context.messages.warn(format!("failed: {errors}{}", last.unwrap_or_default()));
        }
        if let Some(exit) = interrupts.requested() {
            return Ok(exit);
        }
        let broken = plan.flags.fail_if.iter().filter_map(|limit| limit.broken(&of_all));
        let broken: Vec<String> = broken.collect();
        if !broken.is_empty() {
            return Err(CliError::new(Exit::Negative, "SLOWER", broken.join("; ")));
        }
        Ok(if failed > 0 { Exit::Partial } else { Exit::Done })
    }
}

/// The number in this column.
pub(super) fn number(record: &Record, key: &str) -> Option<f64> {
    match record.get(key) {
        Some(Field::Value(value)) => value.as_f64(),
        _ => None,
    }
}

fn row(plan: &Plan, client: Value, tally: &Tally, begun: Instant) -> Record {
    let took = tally.end.map_or(Duration::ZERO, |end| end.saturating_duration_since(begun));
    let seconds = took.as_secs_f64();
    let a_second =
        |count: u64| (seconds > 0.0).then(|| (count as f64 / seconds * 10.0).round() / 10.0);
    let times = &tally.times;
    let ms = |nanoseconds: u64| (!times.is_empty()).then(|| milliseconds(nanoseconds));
    let errors: u64 = tally.errors.values().sum();
    let by_code = tally.errors.iter().map(|(code, count)| ((*code).to_owned(), (*count).into()));
    let Sizes { smallest, largest } = plan.flags.size;
    let size = match smallest == largest {
        true => smallest.to_string(),
        false => format!("{smallest}..{largest}"),
    };
    Record::new()
        .with("client", client)
        .with("ops", times.len())
        .with("errors", errors)
        .with("duration_seconds", units::milliseconds(took) / 1e3)
        .with("ops_per_second", a_second(times.len()))
        .with("bytes_per_second", a_second(tally.bytes))
        .with("min_ms", ms(times.min()))
        .with("mean_ms", ms(times.mean() as u64))
        .with("p50_ms", ms(times.value_at_quantile(0.5)))
        .with("p90_ms", ms(times.value_at_quantile(0.9)))
        .with("p99_ms", ms(times.value_at_quantile(0.99)))
        .with("p99_9_ms", ms(times.value_at_quantile(0.999)))
        .with("max_ms", ms(times.max()))
        .with("mode", plan.mode.as_str())
        .with("clients", plan.flags.jobs)
        .with("size", size)
        .with("pipeline", plan.flags.pipeline)
        .with("rate", plan.flags.rate)
        .with("errors_by_code", Value::Object(Map::from_iter(by_code)))
}
