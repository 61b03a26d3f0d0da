//! A list of results: written as they arrive where the format allows it, else when the list is finished.

use serde_json::Value;

use super::object::Object;
use super::record::{Column, Field, Layout, Record, Shape, Show};
use super::{BODY, Format, Output, Style, bodies, csv, no_body, table, unknown_column};
use crate::color::Role;
use crate::envelope::{self, Decode, ENVELOPE};
use crate::error::CliError;

/// A list of results of one shape. Nothing but [`List::finish`] completes it.
pub struct List<'a> {
    out: &'a mut Output,
    shape: &'static Shape,
    layout: Layout,
    /// The columns of tables and plain lines.
    columns: Vec<Column>,
    /// Keys that JSON is restricted to, when `--columns` was given.
    selected: Option<Vec<String>>,
    sort_by: Option<&'static str>,
    /// Records that wait for the end: tables, sorted lists.
    kept: Vec<Record>,
    /// JSON text that waits for the end, so that a failure leaves stdout empty.
    text: String,
    single: bool,
    /// Documents are written as they grow, not at the end.
    eager: bool,
    /// The widths that the columns of a table have so far, which is written row by row.
    live: Option<Vec<usize>>,
    pushed: u64,
}

impl<'a> List<'a> {
    pub(super) fn new(out: &'a mut Output, shape: &'static Shape) -> Result<Self, CliError> {
        if out.style.format == Format::Raw && shape.key_of(BODY).is_none() {
            return Err(no_body());
        }
        let (mut selected, sort_by) = shape.chosen(&out.style)?;
        let mut columns: Vec<Column> = match &selected {
            Some(keys) => keys.iter().filter_map(|key| shape.column_of(key)).copied().collect(),
            None => shape.columns.iter().filter(|c| shown(c, out.style.format)).copied().collect(),
        };
        if out.style.dump.is_some() {
            let body = columns.iter_mut().filter(|column| column.key == BODY);
            body.for_each(|column| *column = bodies::FILE);
            let body = selected.iter_mut().flatten().filter(|key| **key == BODY);
            body.for_each(|key| *key = bodies::FILE.key);
        }
        let selected = selected.map(|keys| keys.into_iter().map(str::to_owned).collect());
        let layout = if out.style.upright { Layout::Block } else { shape.layout };
        Ok(Self {
            out,
            shape,
            layout,
            columns,
            selected,
            sort_by,
            kept: Vec::new(),
            text: String::new(),
            single: false,
            eager: false,
            live: None,
            pushed: 0,
        })
    }

    /// The list is one object: JSON shows it without brackets.
    pub(super) fn single(mut self) -> Self {
        self.single = true;
        self
    }

    /// Documents are written piece by piece, for lists that must reach the reader before something is deleted.
    /// A failure then leaves a part of a document behind.
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.eager = true;
        self
    }

    /// The rows of a table are written as they come, under headings of their own width or more, for lists that somebody
    /// watches.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = Some(Vec::new());
        self
    }

    /// Adds a result.
    ///
    /// # Errors
    /// Failures of writing; a body that the chosen encoding or a terminal cannot show.
    pub fn push(&mut self, mut record: Record) -> Result<(), CliError> {
        self.out.rows += 1;
        self.decode(&mut record);
        if let Some(folder) = &self.out.style.dump {
            bodies::dump(&mut record, self.shape.name, folder)?;
        }
        let waits = matches!(self.out.style.format, Format::Table | Format::Wide)
            && self.layout == Layout::Row;
        if let (Some(widths), true, None) = (&mut self.live, waits, self.sort_by) {
            let text = table::next_row(&self.columns, &record, self.out.look(), widths)?;
            self.out.text(&text)?;
            return self.out.flush();
        }
        if waits || self.sort_by.is_some() {
            self.kept.push(record);
            return Ok(());
        }
        self.write(record)?;
        self.out.flush_now_and_then()
    }

    /// Adds what is in the body, if it is going to be shown.
    fn decode(&self, record: &mut Record) {
        let asked_for = || match &self.selected {
            Some(keys) => keys.iter().any(|key| key == ENVELOPE || key == BODY),
            None => true,
        };
        let has_place = !matches!(self.out.style.format, Format::Name | Format::Raw);
        let decoding = self.out.style.decoding();
        if decoding == Decode::None || !has_place || !asked_for() {
            return;
        }
        let envelope = record.body().and_then(|body| envelope::decode(decoding, body));
        if let Some(envelope) = envelope {
            record.insert_envelope(envelope.into_value());
        }
    }

    /// Where the results go.
    pub(super) fn output(&mut self) -> &mut Output {
        self.out
    }

    /// Whether results are written as they are pushed; else they all wait for [`List::finish`].
    #[must_use]
    pub fn streams(&self) -> bool {
        let format = self.out.style.format;
        self.sort_by.is_none()
            && match format {
                Format::Table | Format::Wide => self.layout == Layout::Block || self.live.is_some(),
                Format::Json | Format::Yaml => self.eager,
                Format::Plain | Format::Ndjson | Format::Csv | Format::Name | Format::Raw => true,
            }
    }

    /// Whether somebody sees the results on a terminal.
    #[must_use]
    pub fn is_on_terminal(&self) -> bool {
        self.out.style.terminal
    }

    /// Sends what has been written, for results that matter at once.
    ///
    /// # Errors
    /// Failures of writing.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush()
    }

    /// Writes what waited, and flushes.
    ///
    /// # Errors
    /// Failures of writing.
    pub fn finish(mut self) -> Result<(), CliError> {
        self.end()
    }

    pub(super) fn end(&mut self) -> Result<(), CliError> {
        let mut kept = std::mem::take(&mut self.kept);
        if let Some(key) = self.sort_by {
            kept.sort_by(|a, b| compare(a.get(key), b.get(key)));
        }
        let is_empty =
            self.pushed == 0 && kept.is_empty() && self.live.as_ref().is_none_or(Vec::is_empty);
        match (self.out.style.format, self.layout) {
            (Format::Table | Format::Wide, _) if is_empty && self.out.style.terminal => {
                // A person who sees nothing does not know whether something is still to come.
                let nothing = Role::Faint.paint("(none)", self.out.style.color);
                self.out.text(&format!("{nothing}\n"))?;
            }
            (Format::Table | Format::Wide, Layout::Row) => {
                if !kept.is_empty() {
                    let text = table::rows(&self.columns, &kept, self.out.look())?;
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
        self.pushed += 1;
        match self.out.style.format {
            Format::Table | Format::Wide => {
                if self.pushed > 1 {
                    self.out.text("\n")?;
                }
                // What is no column, such as a format version, is for programs.
                let all = || {
                    let keys = self.shape.columns.iter().map(|column| column.key);
                    keys.chain([ENVELOPE, bodies::FILE.key]).map(str::to_owned).collect()
                };
                record.select(&self.selected.clone().unwrap_or_else(all));
                let block = table::block(&record, self.out.look())?;
                self.out.text(&block)
            }
            Format::Plain => {
                let mut line = Vec::new();
                for (at, column) in self.columns.iter().enumerate() {
                    if at > 0 {
                        line.push(b'\t');
                    }
                    self.out.plain_field(record.get(column.key), &mut line)?;
                }
                self.out.line(line)
            }
            Format::Csv => {
                let headings = csv::headings(self.keys(), self.out.style.encoding);
                if self.pushed == 1 {
                    self.out.csv_heading(&headings)?;
                }
                let fields = csv::fields(&record, &headings, self.out.style.encoding)?;
                self.out.csv_line(fields)
            }
            Format::Name => {
                let mut line = Vec::new();
                self.out.plain_field(record.get(self.shape.name), &mut line)?;
                self.out.line(line)
            }
            Format::Raw => match record.body() {
                Some(body) => self.out.raw_body(body),
                None => Err(no_body()),
            },
            Format::Json | Format::Ndjson | Format::Yaml => self.write_json(record),
        }
    }

    /// The keys of the columns.
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|column| column.key)
    }

    fn write_json(&mut self, mut record: Record) -> Result<(), CliError> {
        if let Some(keys) = &self.selected {
            record.select(keys);
        }
        let value = Object::new(&record, self.out.style.encoding)?;
        match self.out.style.format {
            Format::Ndjson => {
                self.out.json(&value)?;
                self.out.text("\n")?;
            }
            // Nothing comes behind it that could fail.
            Format::Json if self.single => self.out.json(&value)?,
            Format::Json => {
                self.text.push_str(if self.pushed == 1 { "[\n" } else { ",\n" });
                let pretty = Output::pretty(&value)?;
                for (at, line) in pretty.lines().enumerate() {
                    self.text.push_str(if at == 0 { "  " } else { "\n  " });
                    self.text.push_str(line);
                }
            }
            _ => {
                let text =
                    if self.single { Output::yaml(&value)? } else { Output::yaml(&[value])? };
                self.text.push_str(&text);
            }
        }
        if self.eager {
            let text = std::mem::take(&mut self.text);
            self.out.text(&text)?;
        }
        Ok(())
    }

    fn end_document(&mut self) -> Result<(), CliError> {
        match self.out.style.format {
            Format::Json if self.single => self.text.push('\n'),
            Format::Json if self.pushed == 0 => self.text.push_str("[]\n"),
            Format::Json => self.text.push_str("\n]\n"),
            Format::Yaml if self.pushed == 0 && !self.single => self.text.push_str("[]\n"),
            Format::Csv if self.pushed == 0 => {
                let headings = csv::headings(self.keys(), self.out.style.encoding);
                self.out.csv_heading(&headings)?;
            }
            _ => {}
        }
        let text = std::mem::take(&mut self.text);
        self.out.text(&text)
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
    /// The keys that `--columns` names, and the one of `--sort-by`.
    pub(super) fn chosen(
        &self,
        style: &Style,
    ) -> Result<(Option<Vec<&'static str>>, Option<&'static str>), CliError> {
        let known: Vec<&str> = self.columns.iter().map(|column| column.key).collect();
        let find = |name: &String| self.key_of(name).ok_or_else(|| unknown_column(name, &known));
        let columns = style.columns.as_ref().map(|names| names.iter().map(find).collect());
        Ok((columns.transpose()?, style.sort_by.as_ref().map(find).transpose()?))
    }
}

/// Numbers by value, everything else as text; what is missing comes first.
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
