//! The flags of a listing: `--sort-by`, and `-i/--interval`, which shows it again and again, until a signal comes or its
//! reader goes away.

use std::time::Duration;

use clap::Arg;

use super::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::link::absence::Absence;
use crate::output::{Format, Memory, Output};
use crate::text::color::Role;
use crate::text::units;

/// The minimum interval, to spare the server.
const SHORTEST: Duration = Duration::from_millis(100);

/// The id of `--interval`, which no argument of a command has.
pub(crate) const FLAG: &str = "repeat_interval";

/// Maximum size of a listing on a terminal, in bytes.
const MOST: usize = 8 << 20;

/// Parses a polling interval.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < SHORTEST {
        return Err(format!("`{text}` is too short: the interval must be at least 100ms"));
    }
    Ok(pause)
}

/// The id of `--sort-by`.
pub(super) const SORT: &str = "sort_by";

/// The flags.
pub(super) fn flags() -> [Arg; 2] {
    let interval = Arg::new(FLAG).short('i').long("interval").value_name("DUR").value_parser(pause);
    let sort = Arg::new(SORT).long("sort-by").alias("sort").value_name("COLUMN");
    [
        interval.help("Repeat at this interval until Ctrl-C, e.g. 2s"),
        sort.help("Sort by this column"),
    ]
}

/// Runs a listing at this interval. It waits for a server that goes away, and something that is not there may come.
///
/// # Errors
/// The first run fails; a later one fails other than by a server out of reach; a session, whose lines end.
pub(super) fn run<T: Tool>(
    context: &mut Context<T>,
    name: &str,
    every: Duration,
    look: impl Fn(&mut Context<T>) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    if context.session.is_some() {
        return Err(CliError::usage("a session does not repeat its lines")
            .hint(format!("in a shell: {} {name} --interval DUR", T::PROGRAM.name)));
    }
    let interrupts = context.interrupts()?;
    let mut absence = Absence::new(&context.messages);
    let is_screen = context.out.style.terminal && !context.out.style.format.has_records();
    let mut is_first = true;
    loop {
        let shown = if is_screen {
            redraw(context, &format!("every {}: {name}", units::show_duration(every)), &look)
        } else {
            if !std::mem::take(&mut is_first) {
                separate(&mut context.out)?;
            }
            once(context, &look)
        };
        let shown = match shown {
            Err(error) if error.exit == Exit::Negative => {
                context.messages.warn(error.to_string());
                Ok(())
            }
            shown => shown,
        };
        absence.settle(shown)?;
        if interrupts.sleep(every).is_err() {
            context.messages.after_interrupt();
            return Ok(interrupts.requested().unwrap_or(Exit::Interrupted));
        }
    }
}

/// Divides a result from the previous one: documents and records follow each other.
pub(crate) fn separate(out: &mut Output) -> Result<(), CliError> {
    match out.style.format {
        Format::Json | Format::Ndjson => Ok(()),
        Format::Yaml => out.text("---\n"),
        Format::Csv => {
            out.style.headless = true;
            Ok(())
        }
        Format::Table | Format::Wide | Format::Plain | Format::Name | Format::Raw => out.text("\n"),
    }
}

fn once<T: Tool>(
    context: &mut Context<T>,
    look: impl Fn(&mut Context<T>) -> Result<Exit, CliError>,
) -> Result<(), CliError> {
    let style = context.out.style.clone();
    let result = look(context).and_then(|_| context.out.flush());
    context.link.rest();
    context.out.style = style;
    result
}

/// Shows a result in place of the previous one, all at once.
fn redraw<T: Tool>(
    context: &mut Context<T>,
    title: &str,
    look: impl Fn(&mut Context<T>) -> Result<Exit, CliError>,
) -> Result<(), CliError> {
    let memory = Memory::bounded(MOST, "the listing is too long to repeat: narrow it down");
    let inner = Output::to(Box::new(memory.clone()), context.out.style.clone());
    let outer = std::mem::replace(&mut context.out, inner);
    let result = once(context, look);
    context.out = outer;
    let title = Role::Faint
        .paint(&format!("{title}  {}", units::now_in_seconds()), context.out.style.color);
    if !result.as_ref().is_err_and(|error| error.exit != Exit::Negative) {
        context.out.text(&format!("\x1b[H\x1b[2J{title}\n\n{}", memory.text()))?;
        context.out.flush()?;
    }
    result
}
