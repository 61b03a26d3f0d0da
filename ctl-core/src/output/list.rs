//! A list of results: written as they arrive if the format allows it, else when the list is finished.

use serde_json::Value;

use super::object::Object;
use super::record::{Column, Field, Layout, Record, SERVER, Shape, Show};
use super::{BODY, Format, Output, Style, csv, document, no_body, table, unknown_column};
use crate::envelope::{self, Decode, ENVELOPE};
use crate::error::CliError;
use crate::text::color::Role;
use crate::text::escape;

/// Names that one server gives.
const IDS: [&str; 3] = ["id", "handle", "messageid"];

/// A list of results of one shape. Only [`List::finish`] completes it. If a command runs on several servers, their
/// lists are merged into one with a server column, which ends with the last server.
pub struct List<'a> {
    out: &'a mut Output,
    /// Whether the results of the next server belong to it, too.
    joins: bool,
    rows: Rows,
}

/// The content of a list.
pub(super) struct Rows {
    shape: &'static Shape,
    layout: Layout,
    /// The columns of tables and plain lines.
    columns: Vec<Column>,
    /// The keys that JSON is restricted to, if `--columns` is given.
    selected: Option<Vec<String>>,
    sort_by: Option<&'static str>,
    /// Records held back to the end: tables and sorted lists.
    kept: Vec<Record>,
    /// JSON text held back to the end, so that a failure leaves stdout empty.
    text: String,
    single: bool,
    /// Write documents incrementally instead of at the end.
    eager: bool,
    /// The results are deleted, so nothing of a body may be left out.
    whole: bool,
    /// Current column widths of a table that is written row by row.
    live: Option<table::Widths>,
    pushed: u64,
}

impl Rows {
    fn new(out: &Output, shape: &'static Shape, by_server: bool) -> Result<Self, CliError> {
        if out.style.format == Format::Raw && shape.key_of(BODY).is_none() {
            return Err(no_body());
        }
        if out.style.decodes()
            && matches!(out.style.format, Format::Raw | Format::Csv | Format::Name)
        {
            return Err(CliError::usage("--decode needs an output format that shows bodies")
                .hint("-o plain, json, ndjson, yaml or table"));
        }
        let server = by_server.then_some(&SERVER);
        let (selected, sort_by) = shape.chosen(&out.style, server)?;
        let all = || server.into_iter().chain(shape.columns);
        let find = |key: &&str| all().find(|column| column.key == *key);
        let columns: Vec<Column> = match &selected {
            Some(keys) => {
                keys.iter().filter_map(|key| find(key).or(shape.column_of(key))).copied().collect()
            }
            None => all().filter(|c| shown(c, out.style.format)).copied().collect(),
        };
        let selected = selected.map(|keys| keys.into_iter().map(str::to_owned).collect());
        let layout = if out.style.upright { Layout::Block } else { shape.layout };
        Ok(Self { layout, columns, selected, sort_by, ..Self::none(shape) })
    }

    /// Without results and columns.
    fn none(shape: &'static Shape) -> Self {
        Self {
            shape,
            layout: shape.layout,
            columns: Vec::new(),
            selected: None,
            sort_by: None,
            kept: Vec::new(),
            text: String::new(),
            single: false,
            eager: false,
            whole: false,
            live: None,
            pushed: 0,
        }
    }

    /// Whether there are no results.
    pub(super) fn is_empty(&self) -> bool {
        self.pushed == 0
            && self.kept.is_empty()
            && self.live.as_ref().is_none_or(table::Widths::is_unknown)
    }
}

impl<'a> List<'a> {
    /// A new list; with a server column if its results come from several servers.
    pub(super) fn new(
        out: &'a mut Output,
        shape: &'static Shape,
        by_server: bool,
    ) -> Result<Self, CliError> {
        let rows = Rows::new(out, shape, by_server || out.server.is_some())?;
        Ok(Self { out, joins: false, rows })
    }

    /// The list that earlier servers began, if any; the next server continues it.
    pub(super) fn joined(out: &'a mut Output, shape: &'static Shape) -> Result<Self, CliError> {
        let rows = match out.open.take() {
            Some(begun) if std::ptr::eq(begun.shape, shape) => begun,
            other => {
                other.map_or(Ok(()), |rows| Self::end_of(out, rows))?;
                Rows::new(out, shape, true)?
            }
        };
        Ok(Self { out, joins: true, rows })
    }

    /// Ends the list of all servers.
    pub(super) fn end_of(out: &mut Output, rows: Rows) -> Result<(), CliError> {
        List { out, joins: false, rows }.end()
    }

    /// Makes the list a single object, which JSON shows without brackets.
    pub(super) fn single(mut self) -> Self {
        self.rows.single = true;
        self
    }

    /// Writes documents incrementally, for lists that must reach the reader before something is deleted. A failure then
    /// leaves an incomplete document.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.rows.eager = true;
        self
    }

    /// For results that are deleted once they are written: bodies are shown whole, in every format.
    ///
    /// # Errors
    /// A format that would show something else in the place of the body: exit 2.
    pub(super) fn whole(mut self) -> Result<Self, CliError> {
        let replaces = self.out.style.format == Format::Plain && self.out.style.decodes();
        if replaces && self.rows.columns.iter().any(|column| column.key == BODY) {
            return Err(CliError::usage(
                "--decode shows what is in a body instead of the body, which is then deleted",
            )
            .hint("-o json, ndjson, yaml or table, which show both"));
        }
        let selected = self.rows.selected.as_ref();
        let is_chosen = selected.is_none_or(|keys| keys.iter().any(|key| key == BODY));
        if self.rows.shape.key_of(BODY).is_some()
            && !(is_chosen && self.out.style.format != Format::Name)
        {
            return Err(CliError::usage(
                "this output leaves out the bodies, which are then deleted",
            )
            .hint("add body to --columns, or use another format than -o name"));
        }
        self.rows.whole = true;
        Ok(self)
    }

    /// Without a column that says nothing new, unless columns were chosen; other formats keep it.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        if self.out.style.format == Format::Table && self.rows.selected.is_none() {
            self.rows.columns.retain(|column| column.key != key);
        }
        self
    }

    /// Writes table rows as they arrive, with columns at least as wide as their headers, for lists that are watched
    /// live.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.rows.live = Some(table::Widths::default());
        self
    }

    /// Adds a result.
    ///
    /// # Errors
    /// Write failures; a body that cannot be shown in the chosen encoding or on a terminal.
    pub fn push(&mut self, mut record: Record) -> Result<(), CliError> {
        record = record.of_server(self.out.server.as_deref());
        self.decode(&mut record);
        record.cut();
        let waits = self.out.style.format.is_for_people() && !self.rows.layout.is_block();
        if let (Some(widths), true, None) = (&mut self.rows.live, waits, self.rows.sort_by) {
            if widths.is_unknown() {
                let (all, name) = (&self.rows.columns, self.rows.shape.name);
                let (shown, known, left_out) = table::live_columns(
                    all,
                    &record,
                    name,
                    self.out.look(self.rows.selected.is_some()),
                )?;
                (self.rows.columns, *widths) = (shown, known);
                self.out.leave_out(left_out);
            }
            let text = table::next_row(&self.rows.columns, &record, self.out.look(true), widths)?;
            self.out.text(&text)?;
            return self.out.flush();
        }
        if waits || self.rows.sort_by.is_some() {
            self.rows.kept.push(record);
            return Ok(());
        }
        self.write(record)?;
        self.out.flush_now_and_then()
    }

    /// Adds the decoded content of the body, if it will be shown.
    fn decode(&self, record: &mut Record) {
        let asked_for = || match &self.rows.selected {
            Some(keys) => keys.iter().any(|key| key == ENVELOPE || key == BODY),
            None => true,
        };
        let has_place = !matches!(self.out.style.format, Format::Name | Format::Raw);
        let decoding = self.out.style.decoding();
        if *decoding == Decode::None || !has_place || !asked_for() {
            return;
        }
        let envelope = record.body().and_then(|body| self.out.style.formats.decode(decoding, body));
        if let Some(envelope) = envelope {
            record.insert_envelope(envelope.into_value());
        }
    }

    fn look(&self, chosen: bool) -> table::Look {
        table::Look { whole: self.rows.whole, ..self.out.look(chosen) }
    }

    /// The output of the results.
    pub(super) fn output(&mut self) -> &mut Output {
        self.out
    }

    /// Whether results are written as they are pushed, not in [`List::finish`].
    pub fn streams(&self) -> bool {
        let format = self.out.style.format;
        self.rows.sort_by.is_none()
            && match format {
                Format::Table | Format::Wide => {
                    self.rows.layout.is_block() || self.rows.live.is_some()
                }
                Format::Json | Format::Yaml => self.rows.eager,
                Format::Plain | Format::Ndjson | Format::Csv | Format::Name | Format::Raw => true,
            }
    }

    /// Whether the results go to a terminal.
    pub(crate) fn is_on_terminal(&self) -> bool {
        self.out.style.terminal
    }

    /// Sends what has been written, for results that are needed at once.
    ///
    /// # Errors
    /// Write failures.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush()
    }

    /// Adds all of these, and ends the list.
    ///
    /// # Errors
    /// Those of [`List::push`] and [`List::finish`].
    pub fn all(mut self, records: impl IntoIterator<Item = Record>) -> Result<(), CliError> {
        records.into_iter().try_for_each(|record| self.push(record))?;
        self.finish()
    }

    /// Writes the held-back results, and flushes.
    ///
    /// # Errors
    /// Write failures.
    pub fn finish(mut self) -> Result<(), CliError> {
        if self.joins { self.out.flush() } else { self.end() }
    }

    pub(super) fn end(&mut self) -> Result<(), CliError> {
        let is_empty = self.rows.is_empty();
        let mut kept = std::mem::take(&mut self.rows.kept);
        if let Some(key) = self.rows.sort_by {
            kept.sort_by(|a, b| compare(a.get(key), b.get(key)));
        }
        let look = self.look(self.rows.selected.is_some());
        if self.rows.layout == Layout::RowOrBlock {
            let has_room = table::has_room(&self.rows.columns, &kept, look);
            self.rows.layout = if has_room { Layout::Row } else { Layout::Block };
        }
        match (self.out.style.format, self.rows.layout) {
            (Format::Table | Format::Wide, _) if is_empty && self.out.style.terminal => {
                // Without this line, a user could not tell an empty result from a slow one.
                let nothing = Role::Faint.paint("(none)", self.out.style.color);
                self.out.text(&format!("{nothing}\n"))?;
            }
            (Format::Table | Format::Wide, Layout::Row) => {
                if !kept.is_empty() {
                    let name = self.rows.shape.name;
                    let (text, left_out) = table::rows(&self.rows.columns, &kept, name, look)?;
                    self.out.leave_out(left_out);
                    self.out.text(&text)?;
                }
            }
            _ => {
                for record in kept {
                    self.write(record)?;
                }
            }
        }
        self.end_document()?;
        self.out.flush()
    }

    fn write(&mut self, mut record: Record) -> Result<(), CliError> {
        self.rows.pushed += 1;
        match self.out.style.format {
            Format::Table | Format::Wide => {
                if self.rows.pushed > 1 {
                    self.out.text("\n")?;
                }
                // Fields that are no columns, such as a format version, are for programs.
                let all = || {
                    let is_brief =
                        self.rows.layout == Layout::Brief && self.out.style.format == Format::Table;
                    let is_shown = |column: &&Column| !is_brief || column.show == Show::Always;
                    let keys = self.rows.shape.columns.iter().filter(is_shown);
                    let keys = keys.map(|column| column.key);
                    let is_server = |column: &&Column| column.key == SERVER.key;
                    let server = self.rows.columns.iter().find(is_server);
                    let keys = server.map(|column| column.key).into_iter().chain(keys);
                    keys.chain([ENVELOPE]).map(str::to_owned).collect()
                };
                record.select(&self.rows.selected.clone().unwrap_or_else(all));
                let block = table::block(&record, self.look(true))?;
                self.out.text(&block)
            }
            Format::Plain => {
                let is_decoded = self.out.style.decode.is_some();
                let envelope = record.get(ENVELOPE).filter(|_| is_decoded);
                let field = |column: &Column| match envelope.filter(|_| column.key == BODY) {
                    // The decoded content replaces the body, if it could be decoded.
                    Some(Field::Value(what)) if what.get("why").is_none() => {
                        Ok(escape::field(envelope::short(what).as_bytes()))
                    }
                    _ => self.out.plain_field(record.get(column.key), column.is_escaped),
                };
                let fields = self.rows.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
                self.out.line(fields.join(&b'\t'))
            }
            Format::Csv => {
                let headings = self.headings();
                if self.rows.pushed == 1 {
                    self.out.csv_heading(&headings)?;
                }
                let fields = csv::fields(&record, &headings, self.out.style.encoding())?;
                self.out.csv_line(fields)
            }
            Format::Name => {
                let name = self.rows.shape.name;
                let is_escaped = self.rows.shape.column_of(name).is_some_and(|one| one.is_escaped);
                let field = self.out.plain_field(record.get(name), is_escaped)?;
                // The same id names another job elsewhere.
                let Some(server) = record.get(SERVER.key).filter(|_| IDS.contains(&name)) else {
                    return self.out.line(field);
                };
                let server = [self.out.plain_field(Some(server), false)?, b"//".to_vec()].concat();
                let is_named = field.starts_with(&server);
                self.out.line(if is_named { field } else { [server, field].concat() })
            }
            Format::Raw => match record.body() {
                Some(body) => self.out.raw_body(body),
                None => Err(no_body()),
            },
            Format::Json | Format::Ndjson | Format::Yaml => self.write_json(record),
        }
    }

    /// The header row of CSV.
    fn headings(&self) -> Vec<&'static str> {
        let keys = self.rows.columns.iter().map(|column| column.key);
        csv::headings(keys, self.out.style.encoding())
    }

    fn write_json(&mut self, mut record: Record) -> Result<(), CliError> {
        if let Some(keys) = &self.rows.selected {
            record.select(keys);
        }
        let value = Object::new(&record, self.out.style.encoding())?;
        match self.out.style.format {
            Format::Ndjson => {
                self.out.json(&value)?;
                self.out.text("\n")?;
            }
            // Nothing that follows can fail.
            Format::Json if self.rows.single => self.out.json(&value)?,
            Format::Json => {
                self.rows.text.push_str(if self.rows.pushed == 1 { "[\n" } else { ",\n" });
                let pretty = document::pretty(&value)?;
                for (at, line) in pretty.lines().enumerate() {
                    self.rows.text.push_str(if at == 0 { "  " } else { "\n  " });
                    self.rows.text.push_str(line);
                }
            }
            _ => {
                let text = if self.rows.single {
                    document::yaml(&value)?
                } else {
                    document::yaml(&[value])?
                };
                self.rows.text.push_str(&text);
            }
        }
        if self.rows.eager {
            let text = std::mem::take(&mut self.rows.text);
            self.out.text(&text)?;
        }
        Ok(())
    }

    fn end_document(&mut self) -> Result<(), CliError> {
        match self.out.style.format {
            Format::Json if self.rows.single => self.rows.text.push('\n'),
            Format::Json if self.rows.pushed == 0 => self.rows.text.push_str("[]\n"),
            Format::Json => self.rows.text.push_str("\n]\n"),
            Format::Yaml if self.rows.pushed == 0 && !self.rows.single => {
                self.rows.text.push_str("[]\n");
            }
            Format::Csv if self.rows.pushed == 0 => {
                let headings = self.headings();
                self.out.csv_heading(&headings)?;
            }
            _ => {}
        }
        let text = std::mem::take(&mut self.rows.text);
        self.out.text(&text)
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        if self.joins {
            let none = Rows::none(self.rows.shape);
            self.out.open = Some(std::mem::replace(&mut self.rows, none));
        }
    }
}

fn shown(column: &Column, format: Format) -> bool {
    match column.show {
        Show::Always => true,
        Show::Wide => matches!(format, Format::Wide | Format::Csv),
        Show::OnRequest => false,
    }
}

impl Shape {
    /// The keys of `--columns`, and that of `--sort-by`; includes the server column if there are several servers.
    pub(super) fn chosen(
        &self,
        style: &Style,
        server: Option<&'static Column>,
    ) -> Result<(Option<Vec<&'static str>>, Option<&'static str>), CliError> {
        let all = server.into_iter().chain(self.columns);
        let known: Vec<&str> = all.map(|column| column.key).collect();
        let of_server =
            |name: &str| server.filter(|column| column.is(name)).map(|column| column.key);
        let find = |name: &String| {
            let key = of_server(name).or_else(|| self.key_of(name));
            key.ok_or_else(|| unknown_column(name, &known))
        };
        let columns = style.columns.as_ref().map(|names| names.iter().map(find).collect());
        Ok((columns.transpose()?, style.sort_by.as_ref().map(find).transpose()?))
    }
}

/// Compares numbers by value, and everything else as text; missing values come first.
pub(super) fn compare(a: Option<&Field>, b: Option<&Field>) -> std::cmp::Ordering {
    let number = |field: Option<&Field>| match field {
        Some(Field::Value(Value::Number(number))) => number.as_f64(),
        _ => None,
    };
    let text = |field: Option<&Field>| match field {
        None => Vec::new(),
        Some(Field::Value(value)) => table::value_text(value).into_bytes(),
        Some(Field::Body(bytes)) => bytes.clone(),
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => text(a).cmp(&text(b)),
    }
}
