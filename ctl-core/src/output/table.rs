//! Tables and blocks for people. Their appearance may change between releases.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::body::Encoding;
use super::fit::{self, Fit, Need};
use super::record::{BODY, Column, Field, Record, SERVER};
use crate::envelope::{ENVELOPE, short};
use crate::error::CliError;
use crate::text::color::Role;
use crate::text::{escape, wrap};

/// How a table is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) color: bool,
    /// The terminal's width; `None` if stdout is not a terminal.
    pub(super) width: Option<usize>,
    pub(super) encoding: Encoding,
    /// Whether bodies are shown whole, whatever their size.
    pub(super) whole: bool,
    /// Whether the columns were chosen, so that none may be dropped.
    pub(super) chosen: bool,
    /// The tool's own coloured words.
    pub(super) colors: &'static [(&'static str, Role)],
}

/// Maximum length of a cell, in characters; longer ones are cut.
const CELL_LIMIT: usize = 200;
/// Maximum length of a body in a block, in bytes, unless it is shown whole.
const VIEW_LIMIT: usize = 4096;

/// Rows with their headers, and the titles of the columns dropped for lack of space.
pub(super) fn rows(
    columns: &[Column],
    records: &[Record],
    name: &str,
    look: Look,
) -> Result<(String, Vec<&'static str>), CliError> {
    let mut grid = Vec::with_capacity(records.len());
    for record in records {
        let cells = columns.iter().map(|column| cell_of(column, record, look));
        grid.push(cells.collect::<Result<Vec<_>, _>>()?);
    }
    let numbers: Vec<bool> = columns.iter().map(|column| numeric(column, records)).collect();
    let needs: Vec<Need> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = grid.iter().filter_map(|row| row.get(at)).map(|(text, _)| text.as_str());
            let is_number = numbers.get(at).copied().unwrap_or(false);
            need(column, cells, is_number, name, look)
        })
        .collect();
    let fit = fit::fit(&needs, look.width);
    let left_out = left_out(columns, &fit);

    let titles = columns.iter().map(|column| (column.title.to_owned(), Some(Role::Heading)));
    let titles: Vec<_> = titles.collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(&grid) {
        let cells = fit.shown.iter().filter_map(|&(at, width)| {
            let is_body = columns.get(at).is_some_and(|column| column.key == BODY);
            let (text, role) = row.get(at)?;
            let lines = match look.width {
                Some(_) => wrap::lines(&fit::cut_words(text, width, is_body), width),
                None => vec![text.clone()],
            };
            Some((lines, *role, width, numbers.get(at).copied().unwrap_or(false)))
        });
        let cells: Vec<_> = cells.collect();
        let height = cells.iter().map(|(lines, ..)| lines.len()).max().unwrap_or(0).max(1);
        for nth in 0..height {
            let line = cells.iter().map(|(lines, role, width, is_number)| {
                let part = lines.get(nth).map_or("", String::as_str);
                let painted = role.map(|role| role.paint(part, look.color && !part.is_empty()));
                wrap::padded(painted.as_deref().unwrap_or(part), *width, *is_number)
            });
            let line = line.collect::<Vec<_>>().join(&" ".repeat(fit.gap));
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    Ok((text, left_out))
}

/// Whether sentences fit into a table: directly, or wrapped on a wide enough terminal.
pub(super) fn has_room(columns: &[Column], records: &[Record], look: Look) -> bool {
    const WIDE: usize = 100;
    let Some(width) = look.width.filter(|width| *width < WIDE) else { return true };
    let widest = |column: &Column| {
        let cells = records.iter().filter_map(|record| cell_of(column, record, look).ok());
        cells.map(|(text, _)| text.width()).fold(column.title.width(), usize::max)
    };
    let whole: usize = columns.iter().map(|column| widest(column) + fit::GAP).sum();
    whole.saturating_sub(fit::GAP) <= width
}

fn need<'c>(
    column: &Column,
    cells: impl Iterator<Item = &'c str>,
    is_number: bool,
    name: &str,
    look: Look,
) -> Need {
    let is_body = column.key == BODY;
    // Requested columns stay, and so does the name of a result.
    let stays = look.chosen || is_body || [name, SERVER.key].contains(&column.key);
    let rank = if stays { 0 } else { column.rank };
    Need::of(column.title, cells, (is_number, is_body), (rank, look.width))
}

fn left_out(columns: &[Column], fit: &Fit) -> Vec<&'static str> {
    let is_shown = |at: usize| fit.shown.iter().any(|(shown, _)| *shown == at);
    let hidden = columns.iter().enumerate().filter(|(at, _)| !is_shown(*at));
    hidden.map(|(_, column)| column.title).collect()
}

/// The widths of the columns of a live table.
#[derive(Debug, Default)]
pub(super) struct Widths {
    /// At present; they grow as needed.
    now: Vec<usize>,
    /// What words are cut to.
    most: Vec<usize>,
}

impl Widths {
    /// Whether there was no row yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.most.is_empty()
    }
}

/// The columns of a live table that fit the terminal, judging by the first row, with their widths, and the titles of
/// the others.
pub(super) fn live_columns(
    columns: &[Column],
    first: &Record,
    name: &str,
    look: Look,
) -> Result<(Vec<Column>, Widths, Vec<&'static str>), CliError> {
    let mut needs = Vec::with_capacity(columns.len());
    for column in columns {
        let (text, _) = cell_of(column, first, look)?;
        let is_number = numeric(column, std::slice::from_ref(first));
        let mut need = need(column, std::iter::once(text.as_str()), is_number, name, look);
        // Headers are not wrapped.
        let heading = column.title.width();
        (need.least, need.name) = (need.least.max(heading) + 1, need.name.max(heading) + 1);
        needs.push(need);
    }
    let fit = fit::fit(&needs, look.width);
    let shown = fit.shown.iter().filter_map(|(at, _)| columns.get(*at)).copied().collect();
    // The gap is always the wide one.
    let lacks = fit::GAP - fit.gap;
    let is_cut = |at: usize, width: usize| {
        needs.get(at).is_some_and(|need| !need.is_figure && width < need.whole + lacks)
    };
    let most =
        |&(at, width): &(usize, usize)| if is_cut(at, width) { width - lacks } else { usize::MAX };
    let widths = Widths { now: Vec::new(), most: fit.shown.iter().map(most).collect() };
    Ok((shown, widths, left_out(columns, &fit)))
}

/// A row of a live table, with the headers before the first one.
pub(super) fn next_row(
    columns: &[Column],
    record: &Record,
    look: Look,
    Widths { now: widths, most }: &mut Widths,
) -> Result<String, CliError> {
    let mut cells = Vec::with_capacity(columns.len());
    for (column, most) in columns.iter().zip(most) {
        cells.push(fit::cut_words(&cell_of(column, record, look)?.0, *most, false));
    }
    let is_first = widths.is_empty();
    widths.resize(columns.len(), 0);
    for ((width, column), cell) in widths.iter_mut().zip(columns).zip(&cells) {
        *width = (*width).max(column.title.width()).max(cell.width());
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(widths.iter()).zip(columns).map(|((cell, width), column)| {
            // Numbers are right-aligned.
            let is_right = numeric(column, std::slice::from_ref(record));
            wrap::padded(cell, *width, is_right)
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        look.width.map_or_else(|| line.to_owned(), |width| wrap::cut(line, width))
    };
    let row = line(&mut cells.iter().map(String::as_str));
    if !is_first {
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
                let text = escape::line(&text);
                let text = match look.width {
                    Some(width) => wrap::hanging(&text, width, widest + 2),
                    None => text.into_owned(),
                };
                out.push_str(&format!("{label} {text}\n"));
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
    let limit = if look.whole { bytes.len() } else { VIEW_LIMIT };
    let (shown, rest) = bytes.split_at_checked(limit).unwrap_or((bytes, &[]));
    let mut view = match look.encoding.text(shown)? {
        Some(text) => text,
        None => escape::bytes_view(shown),
    };
    if !view.is_empty() && !view.ends_with('\n') {
        view.push('\n');
    }
    if !rest.is_empty() {
        let note = format!("… {} bytes in total, use -o raw to see them", bytes.len());
        view.push_str(&Role::Faint.paint(&note, look.color));
        view.push('\n');
    }
    Ok(view)
}

/// The decoded content replaces the body, if it could be decoded.
fn cell_of(
    column: &Column,
    record: &Record,
    look: Look,
) -> Result<(String, Option<Role>), CliError> {
    let key = match record.get(ENVELOPE).filter(|_| column.key == BODY) {
        Some(Field::Value(envelope)) if envelope.get("why").is_none() => ENVELOPE,
        _ => column.key,
    };
    let text = match record.get(key) {
        None => String::new(),
        Some(Field::Value(value)) if key == ENVELOPE => escape::line(&short(value)).into_owned(),
        // A list can be wrapped between its words.
        Some(Field::Value(value @ Value::Array(_))) => {
            escape::line(&value_text(value).replace(',', ", ")).into_owned()
        }
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
    Ok((cut, role))
}

/// A value for people: text without quotes, nothing for null, commas between the words of a list, other structures as
/// JSON.
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

fn numeric(column: &Column, records: &[Record]) -> bool {
    let is_number = |record: &Record| {
        matches!(record.get(column.key), Some(Field::Value(Value::Number(_) | Value::Null)) | None)
    };
    !records.is_empty() && records.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: &[Column], records: &[Record], width: u16, color: bool) -> String {
        let look = Look {
            whole: false,
            color,
            width: Some(width.into()),
            encoding: Encoding::Auto,
            chosen: true,
            colors: &[],
        };
        rows(columns, records, "a", look).unwrap().0
    }

    #[test]
    fn wraps_headings_when_a_table_does_not_fit() {
        let columns = [Column::new("a", "A LONG HEADING"), Column::new("b", "ANOTHER HEADING")];
        let records = [Record::new().with("a", 1).with("b", 22)];
        let [wide, narrow] = [40, 15].map(|width| shown(&columns, &records, width, false));
        assert_eq!(wide, "A LONG HEADING  ANOTHER HEADING\n             1               22\n");
        assert_eq!(narrow, " A LONG ANOTHER\nHEADING HEADING\n      1      22\n");
    }

    /// Headings are styled cell by cell: padding of the last one must not exceed the terminal.
    #[test]
    fn styles_do_not_widen_lines() {
        let columns = [Column::new("a", "STEP"), Column::new("b", "OK"), Column::new("c", "NOTE")];
        let note = "what was put is reserved and then deleted by another connection";
        let records = [Record::new().with("a", "put").with("b", true).with("c", note)];
        for width in 20..90 {
            let styled = shown(&columns, &records, width, true);
            assert!(styled.contains("\x1b[1m"), "{styled:?}");
            for line in styled.lines() {
                let pieces = line.split("\x1b[").enumerate();
                let plain = pieces.map(|(nth, piece)| match piece.split_once('m') {
                    Some((_, text)) if nth > 0 => text,
                    _ => piece,
                });
                let plain: String = plain.collect();
                assert!(plain.chars().count() <= width.into(), "{width}: {line:?}");
            }
        }
    }
}
