//! Two samples and their difference: `--rates` and `--diff` of commands that show figures.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::commands::watch;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::{Column, Field, Record, Shape};
use crate::text::units;

/// The flags of a command that can sample twice.
#[derive(Debug, Clone, Args)]
pub struct Twice {
    /// Sample twice and show the rate of change per second
    #[arg(long, conflicts_with = "diff")]
    rates: bool,

    /// Sample twice and show what changed
    #[arg(long)]
    diff: bool,

    /// Time between the two samples, at least 100ms [default: 1s]
    #[arg(short, long, value_name = "DUR", value_parser = watch::pause)]
    interval: Option<Duration>,
}

impl Twice {
    /// Whether to sample twice.
    ///
    /// # Errors
    /// `--interval` without a second sample: exit 2.
    pub fn is_wanted(&self) -> Result<bool, CliError> {
        if self.interval.is_some() && !self.rates && !self.diff {
            return Err(CliError::usage(
                "--interval is the time between two samples, but only one is taken",
            )
            .hint("--rates, or --diff"));
        }
        Ok(self.rates || self.diff)
    }
}

/// How to interpret the figures of a sample.
pub struct Figures {
    /// The subject of each record, such as `tube`; `None` for a single record about the server.
    pub noun: Option<&'static str>,
    /// Whether a figure only grows, until its subject is recreated.
    pub only_grows: fn(&str) -> bool,
    /// Figures whose changes are not interesting, such as the time.
    pub leaves_out: &'static [&'static str],
}

static CHANGES: Shape = Shape::rows(
    "figure",
    &[
        Column::new("name", "NAME"),
        Column::new("figure", "FIGURE"),
        Column::new("before", "BEFORE"),
        Column::new("after", "AFTER"),
        Column::new("change", "CHANGE"),
        Column::wide("per_second", "PER SECOND"),
    ],
);
static RATES: Shape = Shape::rows(
    "figure",
    &[
        Column::new("name", "NAME"),
        Column::new("figure", "FIGURE"),
        Column::new("per_second", "PER SECOND"),
        Column::new("change", "CHANGE"),
        Column::wide("before", "BEFORE"),
        Column::wide("after", "AFTER"),
    ],
);

/// The records of a sample, and the exit code if no second one is taken.
pub type Look = (Vec<Record>, Exit);

/// Samples twice and shows what changed. Records are matched by their `name`. Recreated subjects are reported. The exit
/// code is that of the worse sample.
///
/// # Errors
/// Those of `look`; a signal; write failures.
pub fn look_twice<T: Tool>(
    tool: &mut Context<T>,
    flags: &Twice,
    figures: &Figures,
    mut look: impl FnMut(&mut Context<T>) -> Result<Look, CliError>,
) -> Result<Exit, CliError> {
    let shape = if flags.rates { &RATES } else { &CHANGES };
    // Rejects unknown columns before anything is sent.
    tool.out.expect(shape)?;
    let interrupts = tool.interrupts()?;
    let mut seen = || -> Result<(Instant, Look), CliError> {
        let at = Instant::now();
        look(tool).map(|found| (at, found))
    };
    let (start, (before, first)) = seen()?;
    interrupts.sleep(flags.interval.unwrap_or(Duration::from_secs(1)))?;
    let (end, (after, second)) = seen()?;
    let seconds = end.duration_since(start).as_secs_f64();
    let (changes, news) = changes(figures, (&before, &after), seconds);
    if changes.is_empty() && tool.out.style.terminal && !tool.out.style.format.has_records() {
        let took = units::show_duration(Duration::from_millis((seconds * 1e3) as u64));
        tool.messages.note(format!("nothing changed in {took}"));
        news.into_iter().for_each(|news| tool.messages.warn(news));
        return Ok(if second.code() < first.code() { first } else { second });
    }
    let mut list = tool.out.list(shape)?;
    if figures.noun.is_none() {
        // With a single server, tables need not name the subject of a figure.
        list = list.without(NAME);
    }
    changes.into_iter().try_for_each(|change| list.push(change))?;
    list.finish()?;
    news.into_iter().for_each(|news| tool.messages.warn(news));
    Ok(if second.code() < first.code() { first } else { second })
}

/// A record for each changed figure, and further messages.
fn changes(
    figures: &Figures,
    (before, after): (&[Record], &[Record]),
    seconds: f64,
) -> (Vec<Record>, Vec<String>) {
    let (mut changes, mut news) = (Vec::new(), Vec::new());
    let noun = figures.noun.unwrap_or("server");
    for then in before.iter().filter(|then| find(after, then).is_none()) {
        news.push(format!("{noun} {} is gone", name(then)));
    }
    for now in after {
        let Some(then) = find(before, now) else {
            news.push(format!("{noun} {} is new", name(now)));
            continue;
        };
        let number = |record: &Record, key: &str| match record.get(key) {
            Some(Field::Value(Value::Number(number))) => number.as_f64(),
            _ => None,
        };
        let went_back = |key: &str| {
            let (then, now) = (number(then, key), number(now, key));
            (figures.only_grows)(key) && then.zip(now).is_some_and(|(then, now)| now < then)
        };
        if now.fields().any(|(key, _)| went_back(key)) {
            let which = figures.noun.map_or_else(String::new, |_| format!(" {}", name(now)));
            news.push(format!(
                "the {noun}{which} restarted between the samples: its counters went backwards"
            ));
        }
        let is_told = |key: &str| key != NAME && !figures.leaves_out.contains(&key);
        for (key, field) in now.fields().filter(|(key, _)| is_told(key)) {
            let (Some(Field::Value(old)), Field::Value(new)) = (then.get(key), field) else {
                continue;
            };
            if old == new {
                continue;
            }
            let grown = number(then, key).zip(number(now, key)).map(|(then, now)| now - then);
            let rate =
                grown.filter(|_| !went_back(key) && seconds > 0.0).map(|grown| grown / seconds);
            let record = Record::new().with("name", figures.noun.map(|_| name(now)));
            let record = record.with("figure", key).with("before", old.clone());
            let record = record.with("after", new.clone()).with("change", grown.map(exact));
            changes.push(
                record.with("per_second", rate.map(|rate| json!((rate * 1e3).round() / 1e3))),
            );
        }
    }
    (changes, news)
}

const NAME: &str = "name";

/// The record with the same name.
fn find<'r>(records: &'r [Record], wanted: &Record) -> Option<&'r Record> {
    records.iter().find(|record| record.get(NAME) == wanted.get(NAME))
}

fn name(record: &Record) -> &str {
    match record.get(NAME) {
        Some(Field::Value(Value::String(name))) => name,
        _ => "",
    }
}

/// A whole number without a fraction.
fn exact(number: f64) -> Value {
    if number.fract() == 0.0 { json!(number as i64) } else { json!((number * 1e6).round() / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUBES: Figures = Figures {
        noun: Some("tube"),
        only_grows: |key| key.starts_with("cmd"),
        leaves_out: &["uptime"],
    };

    fn tube(name: &str, ready: i64, commands: i64) -> Record {
        let record = Record::new().with("name", name).with("ready", ready);
        record.with("cmd-put", commands).with("uptime", commands).with("text", format!("{ready}"))
    }

    #[test]
    fn what_changed_is_told_with_its_rate() {
        let (before, after) =
            ([tube("a", 5, 10), tube("b", 1, 1)], [tube("a", 3, 15), tube("b", 1, 1)]);
        let (changes, news) = changes(&TUBES, (&before, &after), 2.0);
        assert!(news.is_empty(), "{news:?}");
        let row = |figure: &str| {
            let is = |record: &&Record| record.get("figure") == Some(&json!(figure).into());
            changes.iter().find(is).map(|record| {
                ["name", "change", "per_second"].map(|key| match record.get(key) {
                    Some(Field::Value(value)) => value.clone(),
                    other => panic!("{other:?}"),
                })
            })
        };
        assert_eq!(changes.len(), 3);
        assert_eq!(row("ready"), Some([json!("a"), json!(-2), json!(-1.0)]));
        assert_eq!(row("cmd-put"), Some([json!("a"), json!(5), json!(2.5)]));
        assert_eq!(row("text"), Some([json!("a"), json!(null), json!(null)]));
    }

    #[test]
    fn what_began_anew_came_or_went_is_told() {
        let (before, after) =
            ([tube("a", 5, 10), tube("b", 1, 1)], [tube("a", 5, 2), tube("c", 1, 1)]);
        let (changes, news) = changes(&TUBES, (&before, &after), 1.0);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].get("per_second"), Some(&Value::Null.into()));
        assert_eq!(news.len(), 3, "{news:?}");
        assert!(news[0].contains("tube b is gone") && news[1].contains("tube a restarted between"));
        assert!(news[2].contains("tube c is new"));
    }
}
