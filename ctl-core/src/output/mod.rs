//! Results on stdout: formats, bodies, and the single writer for all results.
//!
//! stdout carries results only. `plain`, `json`, `ndjson`, `yaml`, `csv`, `name` and `raw` are a contract;
//! tables are for people and may change.

mod bodies;
pub(crate) mod body;
mod csv;
mod destination;
mod document;
mod fit;
mod handover;
mod list;
mod memory;
pub mod messages;
mod object;
pub mod progress;
mod record;
pub mod records;
mod style;
mod table;
pub(crate) mod times;
mod writing;
mod yaml;

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use serde_json::Value;

pub use bodies::BodiesArgs;
pub use body::{Encoding, Shown, is_text};
pub use destination::Destination;
pub use handover::{Handover, Leave};
pub use list::List;
pub(crate) use memory::Memory;
pub use record::{BODY, Column, Field, Layout, Record, Shape, Show};
pub use style::{Format, Style};

use crate::error::{CliError, Exit};
use crate::text::escape;
use list::Rows;
use object::Object;

/// The only writer to stdout.
///
/// Results are buffered. They are sent by [`List::finish`], by [`Output::flush`], and about every tenth of a second
/// while a list grows.
pub struct Output {
    sink: Box<dyn Write + Send>,
    destination: Destination,
    /// How results look; commands may change it, and a session sets it for each line.
    pub style: Style,
    flushed: Instant,
    /// Bytes passed to the sink.
    written: u64,
    /// Whether the last line is incomplete.
    in_line: bool,
    /// The server that sentences are about, if a command runs on several.
    server: Option<String>,
    /// The list filled by the servers so far.
    open: Option<Rows>,
    /// The work on the servers so far, for the combined document.
    done: Vec<serde_json::Value>,
    /// The titles of columns that were dropped for lack of space.
    left_out: Vec<&'static str>,
}

impl Output {
    /// Writes to the process's stdout.
    #[must_use]
    pub fn stdout(style: Style) -> Self {
        Self::to(Box::new(BufWriter::with_capacity(64 * 1024, io::stdout())), style)
            .at(Destination::stdout())
    }

    /// Writes to `sink`, for sessions and tests.
    #[must_use]
    pub fn to(sink: Box<dyn Write + Send>, style: Style) -> Self {
        let destination = Destination::memory();
        Self {
            sink,
            destination,
            style,
            flushed: Instant::now(),
            written: 0,
            in_line: false,
            server: None,
            open: None,
            done: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Sets the destination of the sink.
    #[must_use]
    pub fn at(mut self, destination: Destination) -> Self {
        self.destination = destination;
        self
    }

    /// A list of results of one shape.
    ///
    /// # Errors
    /// `--columns` or `--sort-by` names no column, or `-o raw` for results without a body: exit 2.
    pub fn list(&mut self, shape: &'static Shape) -> Result<List<'_>, CliError> {
        if self.server.is_some() {
            List::joined(self, shape)
        } else {
            List::new(self, shape, false)
        }
    }

    /// A list of results with their own server column.
    pub(crate) fn list_by_server(&mut self, shape: &'static Shape) -> Result<List<'_>, CliError> {
        List::new(self, shape, true)
    }

    /// Refuses columns that results of this shape do not have, before anything is sent or changed.
    ///
    /// # Errors
    /// As [`Output::list`].
    pub fn expect(&mut self, shape: &'static Shape) -> Result<(), CliError> {
        List::new(self, shape, false).map(drop)
    }

    /// A single result that is not a list: an object in JSON.
    ///
    /// # Errors
    /// As [`Output::list`], and write failures.
    pub fn object(&mut self, shape: &'static Shape, record: Record) -> Result<(), CliError> {
        let mut list = List::new(self, shape, false)?.single();
        list.push(record)?;
        list.finish()
    }

    /// Names and values that form one result, such as statistics: lines of `key TAB value` in plain.
    ///
    /// # Errors
    /// `--columns` names an unknown key: exit 2; write failures.
    pub fn pairs(&mut self, mut record: Record) -> Result<(), CliError> {
        if let Some(names) = self.style.columns.clone() {
            if let Some(unknown) = names.iter().find(|name| record.get(name).is_none()) {
                let known: Vec<&str> = record.fields().map(|(key, _)| key).collect();
                return Err(unknown_column(unknown, &known));
            }
            record.select(&names);
        }
        match self.style.format {
            Format::Table | Format::Wide => {
                let block = table::block(&record, self.look(true))?;
                self.text(&block)?;
            }
            Format::Plain => {
                for (key, field) in record.fields() {
                    let field = self.plain_field(Some(field), false)?;
                    self.line([escape::field(key.as_bytes()), field].join(&b'\t'))?;
                }
            }
            Format::Name => {
                for (key, _) in record.fields() {
                    self.columns([key.as_bytes()])?;
                }
            }
            Format::Json | Format::Ndjson | Format::Yaml => {
                let document = Object::new(&record, self.style.encoding())?;
                self.document(&document)?;
            }
            Format::Csv => {
                self.csv_heading(&["key", "value"])?;
                let keys: Vec<&str> = record.fields().map(|(key, _)| key).collect();
                let values = csv::fields(&record, &keys, self.style.encoding())?;
                for (key, value) in keys.into_iter().zip(values) {
                    self.csv_line([key, &value])?;
                }
            }
            Format::Raw => return Err(no_body()),
        }
        self.flush()
    }

    /// The outcome of a command's action: `sentence` for people, the record's values for programs.
    ///
    /// # Errors
    /// Write failures.
    pub fn done(&mut self, record: &Record, sentence: &str) -> Result<Exit, CliError> {
        let keys: Vec<&str> = record.fields().map(|(key, _)| key).collect();
        self.done_with(record, &keys, sentence)
    }

    /// As [`Output::done`], but plain lines have only the named fields. A record with `dry_run` is a sentence in plain
    /// lines, too.
    ///
    /// # Errors
    /// Write failures.
    pub fn done_with(
        &mut self,
        record: &Record,
        plain: &[&str],
        sentence: &str,
    ) -> Result<Exit, CliError> {
        if let Some(server) = self.server.take() {
            let labelled = record.clone().of_server(Some(&server));
            let plain = [&[record::SERVER.key], plain].concat();
            let done = self.done_by(&labelled, &plain, &format!("{server}: {sentence}"), true);
            self.server = Some(server);
            return done;
        }
        self.done_by(record, plain, sentence, false)
    }

    /// Attributes further results to this server.
    pub(crate) fn on_server(&mut self, server: String) {
        self.server = Some(server);
    }

    /// The current server, if the command runs on several.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Ends a command on several servers: writes the combined documents. `is_done` if any succeeded; an empty list
    /// otherwise counts as failed.
    ///
    /// # Errors
    /// Write failures.
    pub(crate) fn after_servers(&mut self, is_done: bool) -> Result<(), CliError> {
        self.server = None;
        if let Some(rows) = self.open.take().filter(|rows| is_done || !rows.is_empty()) {
            List::end_of(self, rows)?;
        }
        if self.done.is_empty() {
            return Ok(());
        }
        let done = std::mem::take(&mut self.done);
        self.document(&serde_json::Value::Array(done))?;
        self.flush()
    }

    /// `is_part`: other servers have results, too, and documents are written together.
    fn done_by(
        &mut self,
        record: &Record,
        plain: &[&str],
        sentence: &str,
        is_part: bool,
    ) -> Result<Exit, CliError> {
        match self.style.format {
            Format::Json | Format::Yaml if is_part => {
                self.done.push(Object::new(record, self.style.encoding())?.into_value()?);
                return Ok(Exit::Done);
            }
            // A bare number would look as if it had been done.
            Format::Plain | Format::Name | Format::Raw if record.get("dry_run").is_none() => {
                let fields = plain.iter().map(|key| self.plain_field(record.get(key), false));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                self.line(fields.join(&b'\t'))?;
            }
            Format::Table | Format::Wide | Format::Plain | Format::Name | Format::Raw => {
                self.line(escape::line(sentence).into_owned().into_bytes())?;
            }
            Format::Csv => {
                let keys = record.fields().map(|(key, _)| key);
                let headings = csv::headings(keys, self.style.encoding());
                self.csv_heading(&headings)?;
                self.csv_line(csv::fields(record, &headings, self.style.encoding())?)?;
            }
            Format::Json | Format::Ndjson | Format::Yaml => {
                let document = Object::new(record, self.style.encoding())?;
                self.document(&document)?;
            }
        }
        self.flush().map(|()| Exit::Done)
    }

    /// The records as values, for embedding in a document; `--columns` and `--sort-by` apply as in a list.
    ///
    /// # Errors
    /// They name an unknown column: exit 2.
    pub fn values(
        &self,
        shape: &'static Shape,
        records: impl Iterator<Item = Record>,
    ) -> Result<Vec<Value>, CliError> {
        let (columns, sort_by) = shape.chosen(&self.style, None)?;
        let mut records: Vec<Record> = records.collect();
        if let Some(key) = sort_by {
            records.sort_by(|a, b| list::compare(a.get(key), b.get(key)));
        }
        let value = |mut record: Record| {
            if let Some(keys) = &columns {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                record.select(&keys);
            }
            Object::new(&record, self.style.encoding())?.into_value()
        };
        records.into_iter().map(value).collect()
    }

    /// Remembers the columns that were dropped for lack of space.
    fn leave_out(&mut self, titles: Vec<&'static str>) {
        for title in titles {
            if !self.left_out.contains(&title) {
                self.left_out.push(title);
            }
        }
    }

    /// A message about columns dropped since the last call.
    pub(crate) fn take_left_out(&mut self) -> Option<String> {
        let titles = std::mem::take(&mut self.left_out);
        if titles.is_empty() {
            return None;
        }
        Some(format!(
            "no room for {} (--columns chooses columns, -o json has all)",
            titles.join(", ")
        ))
    }

    /// The width of the terminal that shows the results; `None` if it is not a terminal.
    pub fn width(&self) -> Option<usize> {
        let width = || terminal_size::terminal_size().map(|(width, _)| width.0);
        if self.style.terminal { width().map(usize::from) } else { None }
    }

    fn look(&self, chosen: bool) -> table::Look {
        table::Look {
            color: self.style.color,
            width: self.width(),
            encoding: self.style.encoding(),
            whole: false,
            chosen,
            colors: self.style.colors,
        }
    }
}

fn no_body() -> CliError {
    CliError::usage("-o raw prints bodies, but this command has none")
        .hint("use -o plain, json, ndjson, yaml or name")
}

fn unknown_column(name: &str, known: &[&str]) -> CliError {
    CliError::usage(format!("there is no column `{name}`"))
        .hint(format!("columns: {}", known.join(", ")))
}

#[cfg(test)]
mod tests;
