//! `watch`: repeat a command that only looks.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use clap::Args;
use ctl_core::color::Role;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Format, Output, Style};
use ctl_core::repl::expect::Condition;
use ctl_core::units;
use serde_json::{Value, json};

use super::reads_only;
use crate::cli;
use crate::tool::Tool;

/// The end of `watch --help`.
pub const HELP: &str = "\
Repeats a command that changes nothing. On a terminal each result replaces the one before it; in a pipe
they follow each other, separated by empty lines; with -o ndjson (before the --) there is one object per look,
with its time `ts` and the command's result.
--until takes a condition on the result, such as 'ready==0'.

Examples:
  bsctl watch -- stats-tube mail
  bsctl watch -i 500ms --until 'ready==0' -- stats-tube mail
  bsctl watch -c 10 -o ndjson -- tubes";

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Pause between two looks
    #[arg(short, long, value_name = "DUR", default_value = "2s", value_parser = units::duration)]
    interval: Duration,

    /// Look N times
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,

    /// Stop when this is true of the result, such as 'ready==0'
    #[arg(long, value_name = "EXPR")]
    until: Option<String>,

    /// Mark lines that changed
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

/// Runs `watch`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WatchArgs) -> Result<Exit, CliError> {
    let line = std::iter::once("bsctl".to_owned()).chain(args.command.iter().cloned());
    let line: Vec<String> = line.collect();
    inner(&line)?;
    let until = args.until.as_deref().map(Condition::parse).transpose().map_err(CliError::usage)?;
    let interrupts = tool.interrupts()?;
    let mut ticks = Vec::new();
    let mut before = String::new();
    let mut looks = 0;
    loop {
        looks += 1;
        let frame = look(tool, &line, until.as_ref())?;
        show(tool, &args, &frame, &mut before, &mut ticks)?;
        let last = args.count.is_some_and(|count| looks >= count);
        if frame.holds || last || interrupts.sleep(args.interval).is_err() {
            break;
        }
    }
    if matches!(tool.out.style.format, Format::Json | Format::Yaml) {
        tool.out.document(&Value::Array(ticks))?;
    }
    Ok(interrupts.requested().unwrap_or(Exit::Done))
}

/// One result of the command.
struct Frame {
    text: String,
    value: Value,
    holds: bool,
}

/// Reads the inner command, which must not change anything or repeat itself.
fn inner(line: &[String]) -> Result<cli::Cli, CliError> {
    let cli = cli::parse(line).map_err(|error| {
        let text = error.render().to_string();
        CliError::usage(text.strip_prefix("error: ").unwrap_or(&text).trim().to_owned())
    })?;
    let looks = cli
        .command
        .as_ref()
        .is_some_and(|command| reads_only(command) && !matches!(command, cli::Command::Watch(_)));
    if !looks {
        return Err(CliError::usage("watch repeats only commands that change nothing")
            .hint("bsctl watch -- stats-tube mail"));
    }
    Ok(cli)
}

fn look(tool: &mut Tool, line: &[String], until: Option<&Condition>) -> Result<Frame, CliError> {
    let style = &tool.out.style;
    let structured = matches!(style.format, Format::Json | Format::Ndjson | Format::Yaml);
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

/// Runs the inner command and gives what it wrote. That there is nothing (yet) is a result, too.
fn capture(tool: &mut Tool, line: &[String], format: Option<Format>) -> Result<String, CliError> {
    let cli = inner(line)?;
    let Some(command) = cli.command else { return Ok(String::new()) };
    let buffer = Buffer::default();
    let style = cli.globals.restyle(&tool.out.style);
    let style = Style { format: format.unwrap_or(style.format), ..style };
    let outer = std::mem::replace(&mut tool.out, Output::to(Box::new(buffer.clone()), style));
    let result = super::dispatch(tool, command);
    tool.out = outer;
    match result {
        Ok(_) => {}
        Err(error) if error.exit == Exit::Negative && format.is_none() => {
            return Ok(format!("{}: {}\n", error.code, error.message));
        }
        Err(error) if error.exit == Exit::Negative => return Ok("null".to_owned()),
        Err(error) => return Err(error),
    }
    let bytes = buffer.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn show(
    tool: &mut Tool,
    args: &WatchArgs,
    frame: &Frame,
    before: &mut String,
    ticks: &mut Vec<Value>,
) -> Result<(), CliError> {
    let tick = || {
        let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        json!({"ts": now, "command": args.command.join(" "), "result": frame.value})
    };
    match tool.out.style.format {
        Format::Json | Format::Yaml => ticks.push(tick()),
        Format::Ndjson => tool.out.document(&tick())?,
        _ => {
            let color = tool.out.style.color;
            let text = if args.diff && !before.is_empty() {
                marked(before, &frame.text, color)
            } else {
                frame.text.clone()
            };
            if tool.out.style.terminal {
                let every = units::show_duration(args.interval);
                let now = humantime::format_rfc3339_seconds(SystemTime::now());
                let title = format!("every {every}: {}  {now}", args.command.join(" "));
                let title = Role::Faint.paint(&ctl_core::escape::line(&title), color);
                tool.out.text(&format!("\x1b[H\x1b[2J{title}\n\n{text}"))?;
            } else {
                if !before.is_empty() {
                    tool.out.text("\n")?;
                }
                tool.out.text(&text)?;
            }
            frame.text.clone_into(before);
        }
    }
    tool.out.flush()
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

    #[test]
    fn only_commands_that_look_are_repeated() {
        let line = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(inner(&line(&["bsctl", "stats"])).is_ok());
        for words in [
            &["bsctl", "clear", "x"][..],
            &["bsctl", "watch", "stats"],
            &["bsctl"],
            &["bsctl", "nope"],
        ] {
            assert_eq!(inner(&line(words)).unwrap_err().exit.code(), 2, "{words:?}");
        }
    }
}
