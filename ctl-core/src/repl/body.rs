//! Bodies of what a session holds: shown as far as they fit on a screen, and saved.

use std::path::Path;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output, Record, Shape};
use crate::system::files;
use crate::text::units;

/// How much of a body is shown to a person.
const SHOWN: usize = 4096;

/// Shows what was just taken; `record` gets the part of the body that is shown. Show no more than fits on
/// the screen.
///
/// # Errors
/// Write failures.
pub fn show<T: Tool>(
    tool: &mut Context<T>,
    shape: &'static Shape,
    body: &[u8],
    record: impl FnOnce(&[u8]) -> Record,
) -> Result<Exit, CliError> {
    let style = &tool.out.style;
    let for_person = style.terminal && matches!(style.format, Format::Table | Format::Wide);
    let shown = if for_person { body.get(..SHOWN).unwrap_or(body) } else { body };
    tool.out.object(shape, record(shown))?;
    if shown.len() < body.len() {
        let size = units::count(body.len() as u64, "byte");
        tool.messages.note(format!("… {size}, use -o raw or :save FILE"));
    }
    Ok(Exit::Done)
}

/// Writes a body into a file that did not exist; `record` and `label` name its owner.
///
/// # Errors
/// The file exists or cannot be written: exit 74.
pub fn save(
    out: &mut Output,
    file: &Path,
    body: &[u8],
    (record, label): (Record, &str),
) -> Result<Exit, CliError> {
    files::write_new(file, body)?;
    let name = file.display().to_string();
    let sentence =
        format!("{} of {label} written to {name}", units::count(body.len() as u64, "byte"));
    out.done(&record.with("file", name).with("size", body.len()), &sentence)
}
