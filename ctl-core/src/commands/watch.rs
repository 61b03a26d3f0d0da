//! `watch`: repeats a read-only command.

use std::time::{Duration, Instant};

use clap::Args;
use clap::error::ErrorKind;
use serde_json::{Value, json};

use crate::args::GlobalArgs;
use crate::error::{CliError, Exit};
use crate::link::absence::Absence;
use crate::output::messages::Messages;
use crate::output::{Format, Memory, Output, Style};
use crate::rules::expect::Condition;
use crate::system::signals::Interrupts;
use crate::text::color::Role;
use crate::text::escape;
use crate::text::units;
use crate::text::wrap;

/// The minimum interval, to spare the server.
const SHORTEST: Duration = Duration::from_millis(100);

/// Parses a polling interval of a flag.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < SHORTEST {
        return Err(format!("`{text}` is too short: the interval must be at least 100ms"));
    }
    Ok(pause)
}

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Interval between two runs
    #[arg(short, long, value_name = "DUR", default_value = "2s", value_parser = units::duration)]
    interval: Duration,

    /// Run N times
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Stop when the result meets this condition, e.g. 'count==0'; exit 124 if it never does
    #[arg(long, value_name = "EXPR")]
    until: Option<String>,

    /// Mark changed lines
    #[arg(long)]
    diff: bool,

    /// The command
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
}

/// A tool with read-only commands.
pub trait Repeat {
    /// A parsed command.
    type Command;

    /// The tool's name.
    const NAME: &'static str;

    /// Parses a command line that starts with the tool's name. `None` for a command that changes something, or that
    /// repeats itself.
    ///
    /// # Errors
    /// Errors of clap.
    fn read(line: &[String]) -> Result<Option<(GlobalArgs, Self::Command)>, clap::Error>;

    /// The writer for stdout.
    fn out(&mut self) -> &mut Output;

    /// The writer for stderr.
    fn messages(&self) -> &Messages;

    /// The value of `--timeout`, if any.
    fn timeout(&self) -> Option<Duration>;

    /// Runs a command.
    ///
    /// # Errors
    /// Errors of the command.
    fn run(&mut self, command: Self::Command) -> Result<Exit, CliError>;
}

/// Runs `watch`, which waits for a lost server.
///
/// # Errors
/// The command is invalid or changes something (2), or its first or last run failed; the condition did not become true
/// (124).
pub fn watch<T: Repeat>(
    tool: &mut T,
    args: &WatchArgs,
    interrupts: &Interrupts,
) -> Result<Exit, CliError> {
    let line = std::iter::once(T::NAME.to_owned()).chain(args.command.iter().cloned());
    let line: Vec<String> = line.collect();
    inner::<T>(&line)?;
    let until = args.until.as_deref().map(Condition::parse).transpose().map_err(CliError::usage)?;
    let mut ticks = Vec::new();
    let mut before = String::new();
    let mut looks = 0;
    let start = Instant::now();
    let mut absence = Absence::new(tool.messages());
    let holds = loop {
        looks += 1;
        let holds = match absence.settle(look(tool, &line, until.as_ref()))? {
            Some(frame) => {
                show(tool.out(), args, &frame, &mut before, &mut ticks)?;
                frame.holds
            }
            None => false,
        };
        let is_over = tool.timeout().is_some_and(|bound| start.elapsed() >= bound);
        let is_last = args.count.is_some_and(|count| looks >= count) || is_over && until.is_some();
        if holds || is_last || interrupts.sleep(args.interval).is_err() {
            break holds;
        }
    };
    if matches!(tool.out().style.format, Format::Json | Format::Yaml) {
        tool.out().document(&Value::Array(ticks))?;
    }
    tool.out().flush()?;
    match (interrupts.requested(), absence.why(), &args.until) {
        (Some(exit), ..) => {
            tool.messages().after_interrupt();
            Ok(exit)
        }
        (None, Some(error), _) => Err(error),
        (None, None, Some(condition)) if !holds => {
            let looks = units::count(looks, "run");
            Err(CliError::timeout(format!("`{condition}` did not become true in {looks}")))
        }
        _ => Ok(Exit::Done),
    }
}

/// One result of the command.
struct Frame {
    text: String,
    value: Value,
    holds: bool,
}

fn inner<T: Repeat>(line: &[String]) -> Result<(GlobalArgs, T::Command), CliError> {
    let read = T::read(line).map_err(|error| {
        let text = error.render().to_string();
        let wrong =
            CliError::usage(text.strip_prefix("error: ").unwrap_or(&text).trim().to_owned());
        match error.kind() {
            ErrorKind::InvalidSubcommand => wrong.hint(format!(
                "{} watch -- COMMAND repeats a command of this tool; {0} help watch has examples",
                T::NAME
            )),
            _ => wrong,
        }
    })?;
    read.ok_or_else(|| {
        CliError::usage("watch repeats only commands that run once and change nothing")
            .hint(format!("{} help watch has examples", T::NAME))
    })
}

fn look<T: Repeat>(
    tool: &mut T,
    line: &[String],
    until: Option<&Condition>,
) -> Result<Frame, CliError> {
    let style = &tool.out().style;
    let structured = style.format.is_structured();
    let text = if structured { String::new() } else { capture(tool, line, None)? };
    let value = if structured || until.is_some() {
        let json = capture(tool, line, Some(Format::Json))?;
        serde_json::from_str(&json).unwrap_or(Value::Null)
    } else {
        Value::Null
    };
    let holds = match until {
        Some(condition) => condition.check(&value).map_err(CliError::usage)?.holds,
        None => false,
    };
    Ok(Frame { text, value, holds })
}

/// Runs the inner command and returns its output. An absent subject is a result, too.
fn capture<T: Repeat>(
    tool: &mut T,
    line: &[String],
    format: Option<Format>,
) -> Result<String, CliError> {
    let (globals, command) = inner::<T>(line)?;
    let buffer = Memory::default();
    let style = globals.restyle(&tool.out().style);
    let style = Style { format: format.unwrap_or(style.format), ..style };
    let outer = std::mem::replace(tool.out(), Output::to(Box::new(buffer.clone()), style));
    let result = tool.run(command);
    *tool.out() = outer;
    match result {
        Ok(_) => {}
        Err(error) if error.exit == Exit::Negative && format.is_none() => {
            let width = wrap::of_stdout().unwrap_or(usize::MAX);
            return Ok(
                wrap::words(&format!("{}: {}\n", error.code, error.message), width).into_owned()
            );
        }
        Err(error) if error.exit == Exit::Negative => return Ok("null".to_owned()),
        Err(error) => return Err(error),
    }
    Ok(buffer.text())
}

fn show(
    out: &mut Output,
    args: &WatchArgs,
    frame: &Frame,
    before: &mut String,
    ticks: &mut Vec<Value>,
) -> Result<(), CliError> {
    let tick = || {
        let now = units::now_in_milliseconds();
        json!({"ts": now, "command": args.command.join(" "), "result": frame.value})
    };
    match out.style.format {
        Format::Json | Format::Yaml => ticks.push(tick()),
        Format::Ndjson => out.document(&tick())?,
        _ => {
            let color = out.style.color;
            let text = if args.diff && !before.is_empty() {
                marked(before, &frame.text, color)
            } else {
                frame.text.clone()
            };
            if out.style.terminal {
                let every = units::show_duration(args.interval);
                let now = units::now_in_seconds();
                let title = format!("every {every}: {}  {now}", args.command.join(" "));
                let title = Role::Faint.paint(&escape::line(&title), color);
                out.text(&format!("\x1b[H\x1b[2J{title}\n\n{text}"))?;
            } else {
                if !before.is_empty() {
                    out.text("\n")?;
                }
                out.text(&text)?;
            }
            frame.text.clone_into(before);
        }
    }
    out.flush()
}

/// The lines of `now`; those that differ from the same line of `before` are marked.
fn marked(before: &str, now: &str, color: bool) -> String {
    let mut old = before.lines();
    let mut text = String::new();
    for line in now.lines() {
        let changed = old.next() != Some(line);
        text.push_str(&match (changed, color) {
            (false, true) => line.to_owned(),
            (false, false) => format!("  {line}"),
            (true, true) => Role::Warning.paint(line, true),
            (true, false) => format!("* {line}"),
        });
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_marked() {
        assert_eq!(marked("a 1\nb 1\n", "a 1\nb 2\nc 3\n", false), "  a 1\n* b 2\n* c 3\n");
    }
}
