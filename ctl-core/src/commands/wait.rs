//! `wait`: waits for a condition.

use std::time::Duration;

use clap::Args;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::Record;
use crate::output::progress::Wait;
use crate::rules::expect::Condition;
use crate::text::escape;
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
    let (mut looks, mut agreeing) = (0_u64, 0);
    loop {
        let (holds, found) = look(tool)?;
        looks += 1;
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
        .with("waited_ms", waited)
        .with("looks", looks);
    let after = units::show_duration(Duration::from_millis(waited));
    let sentence = format!("`{}` became true after {after}", flags.condition);
    tool.out.done_with(&record, &["condition", "waited_ms"], &sentence)
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

/// The result of checking a condition on counts.
///
/// # Errors
/// The condition names something else: exit 2.
pub fn seen(condition: &Condition, counts: &serde_json::Value) -> Result<Look, CliError> {
    let verdict = condition.check(counts).map_err(CliError::usage)?;
    Ok((verdict.holds, format!("{} {}", condition.key(), verdict.found)))
}

/// The words for a queue without work. The first one is documented.
pub const EMPTY: [&str; 2] = ["empty", "idle"];

/// Parses a condition on counts; `known` has all counts that it may name, and `words` are the other conditions.
///
/// # Errors
/// It is invalid, or names something else: exit 2, with all conditions.
pub fn on_counts(
    text: &str,
    known: &serde_json::Value,
    words: &str,
) -> Result<Condition, CliError> {
    let counts: Vec<&str> =
        known.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    let read = || {
        let condition = Condition::parse(text)
            .map_err(|_| format!("`{}` is not a condition", escape::line(text)))?;
        let is_count = counts.contains(&condition.key());
        is_count
            .then_some(condition)
            .ok_or_else(|| format!("`{}`: there is no such count", escape::line(text)))
    };
    read().map_err(|why| {
        CliError::usage(why)
            .hint(words)
            .hint(format!("COUNT>=N, or == != < <= >, with COUNT one of {}", counts.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_condition_is_answered_with_all_of_them() {
        let known = json!({"ready": 0, "workers": 0});
        let parse = |text| on_counts(text, &known, "empty, server");
        assert!(parse("ready>=1").is_ok());
        for text in ["emty", "raedy>=1", ">=1", ""] {
            let hints = parse(text).unwrap_err().hints.join("; ");
            assert!(hints.contains("empty, server") && hints.contains("ready, workers"), "{hints}");
        }
    }
}
