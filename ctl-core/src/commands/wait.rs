//! `wait`: waits for a condition.

use std::time::Duration;

use clap::Args;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::Record;
use crate::output::progress::Wait;
use crate::rules::filter::{Field, Filter, Kind, Value};
use crate::text::units;

/// The flags of `wait` in every tool.
#[derive(Debug, Args)]
pub struct WaitFlags {
    /// The condition
    #[arg(long = "for", value_name = "COND")]
    pub condition: String,

    /// Polling interval
    #[arg(short, long, value_name = "DUR", default_value = "500ms", value_parser = units::duration)]
    interval: Duration,

    /// Require N consecutive matches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    stable: u32,

    /// Fail if the target does not exist
    #[arg(long)]
    pub must_exist: bool,
}

/// The result of a check: whether the condition holds, and the observed value.
pub type Look = (bool, String);

/// The default of `--timeout`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks until the condition holds. The record has the name of the `subject`, whose kind is for people.
///
/// # Errors
/// The condition did not become true in time (124), a signal, or errors of `look`.
pub fn until<T: Tool>(
    tool: &mut Context<T>,
    flags: &WaitFlags,
    (noun, name): (&'static str, Option<String>),
    mut look: impl FnMut(&mut Context<T>) -> Result<Look, CliError>,
) -> Result<Exit, CliError> {
    let bound = tool.link.dialer().timeout().unwrap_or(PATIENCE);
    tool.link.dialer_mut().default_timeout(bound);
    let interrupts = tool.interrupts()?;
    let subject = name.as_ref().map(|name| format!(" ({noun} {name})")).unwrap_or_default();
    let label = format!("waiting for `{}`{subject}", flags.condition);
    let wait = Wait::new(&tool.messages, label, Some(bound)).showing(&tool.messages);
    let mut shown = wait.shown();
    let (mut polls, mut agreeing) = (0_u64, 0);
    loop {
        let (holds, found) = look(tool)?;
        polls += 1;
        tool.messages.decision(format!("seen: {found}"));
        agreeing = if holds { agreeing + 1 } else { 0 };
        if agreeing >= flags.stable {
            break;
        }
        let rest = wait.rest();
        if rest.is_zero() {
            let within = units::show_duration(bound);
            let what = format!("`{}` did not become true within {within}", flags.condition);
            return Err(CliError::timeout(format!("{what} (last seen: {found})")));
        }
        shown.sleep(&interrupts, flags.interval.min(rest), &found)?;
    }
    drop(shown);
    let waited = u64::try_from(wait.elapsed().as_millis()).unwrap_or(u64::MAX);
    let record = Record::new()
        .with("condition", flags.condition.as_str())
        .with("queue", name)
        .with("duration_ms", waited)
        .with("polls", polls);
    let after = units::show_duration(Duration::from_millis(waited));
    let sentence = format!("`{}` became true after {after}", flags.condition);
    tool.out.done_with(&record, &["condition", "duration_ms"], &sentence)
}

/// Whether the server answers.
///
/// # Errors
/// The command line is wrong, which no wait changes.
pub fn answers<T>(answer: Result<T, CliError>) -> Result<Look, CliError> {
    match answer {
        Ok(_) => Ok((true, "an answer".to_owned())),
        Err(error) if error.exit == Exit::Usage => Err(error),
        Err(error) => Ok((false, error.message)),
    }
}

/// A count of a queue, by its name in conditions.
pub type Count = (&'static str, u64);

/// The result of checking a condition on counts.
pub fn seen(condition: &Filter, counts: &[Count]) -> Look {
    let name = condition.field();
    let count = counts.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
    let found = count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    (condition.holds(count.map(Value::Whole)), format!("{name} {found}"))
}

/// The words for a queue without work. The first one is documented.
pub const EMPTY: [&str; 2] = ["empty", "idle"];

/// Parses a condition on counts of what `noun` calls; `words` are the other conditions.
///
/// # Errors
/// It is invalid, or names something else: exit 2, with all conditions.
pub fn on_counts(
    text: &str,
    (noun, words): (&str, &str),
    counts: &[Count],
) -> Result<Filter, CliError> {
    let fields: Vec<_> = counts.iter().map(|(name, _)| Field::new(name, Kind::Whole)).collect();
    Filter::read(text, ("condition", noun), &fields).map_err(|error| error.hint(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_condition_lists_all_conditions() {
        let counts = [("ready", 3), ("workers", 0)];
        let parse = |text| on_counts(text, ("queue", "empty, server"), &counts);
        assert_eq!(seen(&parse("ready>=3").unwrap(), &counts), (true, "ready 3".to_owned()));
        for text in ["emty", "raedy>=1", ">=1", ""] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(&format!("the condition `{text}` is not valid")));
            let hints = error.hints.join("; ");
            assert!(hints.contains("empty, server") && hints.contains("ready, workers"), "{hints}");
        }
    }
}
