//! Tables and blocks for people. Their look may change between releases.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use serde_json::Value;

use super::body::Encoding;
use super::record::{BODY, Column, Field, Record};
use crate::color::Role;
use crate::envelope::{ENVELOPE, short};
use crate::error::CliError;
use crate::escape;

/// How a table is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) color: bool,
    pub(super) headers: bool,
    /// The terminal's width; none when stdout is not a terminal.
    pub(super) width: Option<u16>,
    pub(super) encoding: Encoding,
    /// Words of the tool that have a colour.
    pub(super) colors: &'static [(&'static str, Role)],
}

/// Blanks between columns.
const GAP: usize = 2;
/// The longest cell of a table, in characters; longer ones are cut.
const CELL_LIMIT: usize = 200;
/// The longest body that a block shows, in bytes.
const VIEW_LIMIT: usize = 4096;

/// Rows under their headings.
pub(super) fn rows(columns: &[Column], records: &[Record], look: Look) -> Result<String, CliError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if look.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    match look.width {
        Some(width) => {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if look.headers {
        table.set_header(columns.iter().map(|column| {
            let cell = Cell::new(column.title);
            if look.color { cell.add_attribute(Attribute::Bold) } else { cell }
        }));
    }
    let mut widest = vec![0; columns.len()];
    for record in records {
        let mut cells = Vec::with_capacity(columns.len());
        for (column, widest) in columns.iter().zip(&mut widest) {
            let cell = cell_of(column, record, look)?;
            *widest = cell.content().chars().count().max(*widest);
            cells.push(cell);
        }
        table.add_row(cells);
    }
    let with_title =
        |(column, widest): (&Column, &usize)| column.title.chars().count().max(*widest);
    let whole: usize = columns.iter().zip(&widest).map(|both| with_title(both) + GAP).sum();
    // Numbers cannot be broken, but their headings can, and gaps can be smaller.
    let is_tight = look.width.is_some_and(|width| whole > usize::from(width) + GAP);
    let gap = if is_tight { 1 } else { GAP };
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::try_from(gap).unwrap_or(1)));
        if numeric(columns.get(at), records) {
            column.set_cell_alignment(CellAlignment::Right);
            let title = columns.get(at).map_or("", |column| column.title);
            let word = title.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            let least = word.max(widest.get(at).copied().unwrap_or(0)) + gap;
            column.set_constraint(match (is_tight, u16::try_from(least)) {
                (true, Ok(least)) => ColumnConstraint::Absolute(Width::Fixed(least)),
                _ => ColumnConstraint::ContentWidth,
            });
        } else if columns.get(at).is_some_and(|column| column.key != BODY) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(12)));
        }
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    Ok(lines.collect())
}

/// A row of a table that is written row by row, with the headings before the first one. `widths` are those of the columns
/// so far; they grow with what comes.
pub(super) fn next_row(
    columns: &[Column],
    record: &Record,
    look: Look,
    widths: &mut Vec<usize>,
) -> Result<String, CliError> {
    let mut cells = Vec::with_capacity(columns.len());
    for column in columns {
        cells.push(cell_of(column, record, look)?.content());
    }
    let is_first = widths.is_empty();
    widths.resize(columns.len(), 0);
    for ((width, column), cell) in widths.iter_mut().zip(columns).zip(&cells) {
        *width = (*width).max(column.title.chars().count()).max(cell.chars().count());
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(widths.iter()).zip(columns).map(|((cell, width), column)| {
            // Numbers with their ends below each other.
            let is_right = numeric(Some(column), std::slice::from_ref(record));
            if is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let row = line(&mut cells.iter().map(String::as_str));
    if !is_first || !look.headers {
        return Ok(format!("{row}\n"));
    }
    let titles = line(&mut columns.iter().map(|column| column.title));
    let titles = if look.color { Role::Heading.paint(&titles, true) } else { titles };
    Ok(format!("{titles}\n{row}\n"))
}

/// `key: value` lines, then the body.
pub(super) fn block(record: &Record, look: Look) -> Result<String, CliError> {
    let widest = record.fields().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut bodies = String::new();
    for (key, field) in record.fields() {
        let label = Role::Faint
            .paint(&format!("{:<width$}", format!("{key}:"), width = widest + 1), look.color);
        match field {
            Field::Value(value) => {
                let text = if key == ENVELOPE { short(value) } else { value_text(value) };
                out.push_str(&format!("{label} {}\n", escape::line(&text)));
            }
            Field::Body(bytes) => bodies.push_str(&body_view(bytes, look)?),
        }
    }
    if !bodies.is_empty() {
        out.push('\n');
        out.push_str(&bodies);
    }
    Ok(out)
}

fn body_view(bytes: &[u8], look: Look) -> Result<String, CliError> {
    let (shown, rest) = bytes.split_at_checked(VIEW_LIMIT).unwrap_or((bytes, &[]));
    let mut view = match look.encoding.text(shown)? {
        Some(text) => text,
        None => escape::bytes_view(shown),
    };
    if !view.is_empty() && !view.ends_with('\n') {
        view.push('\n');
    }
    if !rest.is_empty() {
        let note = format!("… {} bytes in all, use -o raw to see them", bytes.len());
        view.push_str(&Role::Faint.paint(&note, look.color));
        view.push('\n');
    }
    Ok(view)
}

/// What is in a body stands in its place, where it could be read.
fn cell_of(column: &Column, record: &Record, look: Look) -> Result<Cell, CliError> {
    match record.get(ENVELOPE) {
        Some(Field::Value(envelope)) if envelope.get("why").is_none() && column.key == BODY => {
            cell(ENVELOPE, record.get(ENVELOPE), look)
        }
        _ => cell(column.key, record.get(column.key), look),
    }
}

fn cell(key: &str, field: Option<&Field>, look: Look) -> Result<Cell, CliError> {
    let text = match field {
        None => String::new(),
        Some(Field::Value(value)) if key == ENVELOPE => escape::line(&short(value)).into_owned(),
        Some(Field::Value(value)) => escape::line(&value_text(value)).into_owned(),
        Some(Field::Body(bytes)) => {
            let shown = bytes.get(..CELL_LIMIT * 4).unwrap_or(bytes);
            match look.encoding.text(shown)? {
                Some(text) => text,
                None => escape::bytes_line(shown),
            }
        }
    };
    let cut = match text.char_indices().nth(CELL_LIMIT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    };
    let of_tool = || look.colors.iter().find(|(word, _)| *word == cut).map(|(_, role)| *role);
    let role = match cut.as_str() {
        "CRITICAL" | "failed" => Some(Role::Error),
        "false" if key == "ok" => Some(Role::Error),
        "WARNING" | "skipped" => Some(Role::Warning),
        _ => of_tool(),
    };
    let cell = Cell::new(cut);
    let color = match role.filter(|_| look.color) {
        Some(Role::Error) => comfy_table::Color::Red,
        Some(Role::Warning) => comfy_table::Color::Yellow,
        Some(Role::Good) => comfy_table::Color::Green,
        Some(Role::Heading | Role::Faint | Role::Tint(_)) | None => return Ok(cell),
    };
    Ok(cell.fg(color))
}

/// A value as people read it: text without quotes, nothing for null, commas between the words of a list, other
/// structures as JSON.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.iter().all(|one| !one.is_array() && !one.is_object()) => {
            all.iter().map(value_text).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

fn numeric(column: Option<&Column>, records: &[Record]) -> bool {
    let is_number = |record: &Record| {
        column.is_some_and(|column| {
            matches!(
                record.get(column.key),
                Some(Field::Value(Value::Number(_) | Value::Null)) | None
            )
        })
    };
    !records.is_empty() && records.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_broken_where_a_table_would_not_fit() {
        let columns = [Column::new("a", "LONG HEADING"), Column::new("b", "OTHER HEADING")];
        let records = [Record::new().with("a", 1).with("b", 22)];
        let shown = |width| {
            let look = Look {
                color: false,
                headers: true,
                width: Some(width),
                encoding: Encoding::Auto,
                colors: &[],
            };
            rows(&columns, &records, look).unwrap()
        };
        assert_eq!(shown(40), "LONG HEADING  OTHER HEADING\n           1             22\n");
        assert_eq!(shown(20), "   LONG   OTHER\nHEADING HEADING\n      1      22\n");
    }
}
