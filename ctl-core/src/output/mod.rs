//! Results on stdout: formats, bodies, and the single writer for all results.
//!
//! stdout carries results only. `plain`, `json`, `ndjson`, `yaml`, `csv`, `name` and `raw` are a contract;
//! tables are for people and may change.

mod bodies;
mod body;
pub mod color;
mod csv;
mod destination;
pub mod escape;
mod fit;
mod handover;
mod list;
mod memory;
pub mod messages;
mod object;
pub mod progress;
mod record;
pub mod records;
mod table;
pub(crate) mod times;
pub mod units;
pub(crate) mod wrap;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

pub use bodies::BodiesArgs;
pub use body::{Encoding, Shown, base64, from_base64, from_hex, hex, is_text};
pub use destination::Destination;
pub use handover::{Handover, Leave};
pub use list::List;
pub(crate) use memory::Memory;
pub use record::{BODY, Column, ENVELOPE, Field, Layout, Record, Shape, Show};

use crate::envelope::Decode;
use crate::error::{CliError, Exit};
use crate::output::color::Role;
use crate::system::signals;
use list::Rows;
use object::Object;

/// The value of `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people: the default on a terminal.
    Table,
    /// A table with more columns.
    Wide,
    /// TAB-separated, one record per line, no heading: the default in pipes.
    Plain,
    /// One JSON document.
    Json,
    /// One JSON object per line, as results arrive.
    Ndjson,
    /// The same structure as JSON.
    Yaml,
    /// Comma-separated values under a heading of JSON's keys.
    Csv,
    /// Bare names or ids, one per line.
    #[value(alias = "id")]
    Name,
    /// Bodies only, byte for byte.
    Raw,
}

impl Format {
    /// Whether errors are a JSON object at the end of stderr.
    #[must_use]
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson)
    }

    /// Whether results are written as structured documents.
    #[must_use]
    pub fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson | Self::Yaml)
    }

    /// Whether a result is a record with all its fields, for programs.
    #[must_use]
    pub fn has_records(self) -> bool {
        self.is_structured() || self == Self::Csv
    }

    /// Whether a text that is itself the result is written as what it consists of, not as it reads.
    #[must_use]
    pub(crate) fn takes_apart(self) -> bool {
        self.has_records() || self == Self::Name
    }
}

/// How results look.
#[derive(Debug, Clone)]
pub struct Style {
    /// The format.
    pub format: Format,
    /// How bodies are rendered in text formats.
    pub encoding: Encoding,
    /// How to decode bodies; if unset, detected on a terminal, and not decoded elsewhere.
    pub decode: Option<Decode>,
    /// The columns to show, by key or title; the shape's own if unset.
    pub columns: Option<Vec<String>>,
    /// The column to sort lists by.
    pub sort_by: Option<String>,
    /// Whether tables have a header row.
    pub headers: bool,
    /// Whether stdout gets colours.
    pub color: bool,
    /// Whether stdout is a terminal.
    pub terminal: bool,
    /// Whether binary bodies may go to a terminal unmodified.
    pub force_raw: bool,
    /// Whether raw bodies end with NUL.
    pub null: bool,
    /// The directory for bodies as files, if any.
    pub dump: Option<PathBuf>,
    /// Whether tables have a line per value instead of a row per result.
    pub upright: bool,
    /// The tool's own coloured words in tables, in addition to the common ones.
    pub colors: &'static [(&'static str, Role)],
}

impl Style {
    /// The same style with these coloured words.
    #[must_use]
    pub fn with_colors(mut self, colors: &'static [(&'static str, Role)]) -> Self {
        self.colors = colors;
        self
    }

    /// How to decode bodies.
    #[must_use]
    pub fn decoding(&self) -> Decode {
        let usual = if self.terminal { Decode::Auto } else { Decode::None };
        self.decode.unwrap_or(usual)
    }

    /// The same style for a reader that is not a terminal.
    #[must_use]
    pub fn in_a_pipe(&self) -> Self {
        let format = match self.format {
            Format::Table | Format::Wide => Format::Plain,
            other => other,
        };
        Self { format, terminal: false, color: false, ..self.clone() }
    }

    /// Shows bare names or ids instead of a table: both people and scripts want the name of what a command has created,
    /// even on a terminal.
    pub fn prefer_names(&mut self) {
        if self.format == Format::Table && self.columns.is_none() {
            self.format = Format::Name;
        }
    }
}

impl Default for Style {
    fn default() -> Self {
        Self {
            format: Format::Plain,
            encoding: Encoding::Auto,
            decode: None,
            columns: None,
            sort_by: None,
            headers: true,
            color: false,
            terminal: false,
            force_raw: false,
            null: false,
            dump: None,
            upright: false,
            colors: &[],
        }
    }
}

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
    rows: u64,
    /// Bytes passed to the sink.
    written: u64,
    /// Whether the last line is incomplete.
    in_line: bool,
    /// The server that sentences are about, if a command runs on several.
    server: Option<String>,
    /// The list filled by the servers so far.
    open: Option<Rows>,
    /// What was done on the servers so far, for the combined document.
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
            rows: 0,
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

    /// Whether the process's stdout is a terminal.
    #[must_use]
    pub fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
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
        let by_server = self.server.is_some();
        List::new(self, shape, by_server).map(drop)
    }

    /// A single result that is not a list: an object in JSON.
    ///
    /// # Errors
    /// As [`Output::list`], and write failures.
    pub fn object(&mut self, shape: &'static Shape, record: Record) -> Result<(), CliError> {
        let by_server = self.server.is_some();
        let mut list = List::new(self, shape, by_server)?.single();
        list.push(record)?;
        list.finish()
    }

    /// Names and values that form one result, such as statistics: lines of `key TAB value` in plain.
    ///
    /// # Errors
    /// `--columns` names an unknown key: exit 2; write failures.
    pub fn pairs(&mut self, mut record: Record) -> Result<(), CliError> {
        self.rows += 1;
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
                    let mut line = Vec::new();
                    escape::field(key.as_bytes(), &mut line);
                    line.push(b'\t');
                    self.plain_field(Some(field), &mut line)?;
                    self.line(line)?;
                }
            }
            Format::Name => {
                for (key, _) in record.fields() {
                    self.columns([key.as_bytes()])?;
                }
            }
            Format::Json | Format::Ndjson | Format::Yaml => {
                let document = Object::new(&record, self.style.encoding)?;
                self.document(&document)?;
            }
            Format::Csv => {
                self.csv_heading(&["key", "value"])?;
                let keys: Vec<&str> = record.fields().map(|(key, _)| key).collect();
                let values = csv::fields(&record, &keys, self.style.encoding)?;
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
            let done = self.done_by(&labelled, &plain, &format!("{server}: {sentence}"));
            self.server = Some(server);
            return done;
        }
        self.done_by(record, plain, sentence)
    }

    /// Attributes further results to this server.
    pub(crate) fn on_server(&mut self, server: String) {
        self.server = Some(server);
    }

    /// The current server, if the command runs on several.
    #[must_use]
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

    fn done_by(
        &mut self,
        record: &Record,
        plain: &[&str],
        sentence: &str,
    ) -> Result<Exit, CliError> {
        self.rows += 1;
        let is_part = record.has_server();
        match self.style.format {
            Format::Json | Format::Yaml if is_part => {
                let document = Object::new(record, self.style.encoding)?;
                let document = serde_json::to_value(&document);
                self.done.push(document.map_err(|error| CliError::internal(error.to_string()))?);
                return Ok(Exit::Done);
            }
            Format::Table | Format::Wide => {
                self.line(escape::line(sentence).into_owned().into_bytes())?;
            }
            // A bare number would look as if it had been done.
            Format::Plain | Format::Name | Format::Raw if record.get("dry_run").is_some() => {
                self.line(escape::line(sentence).into_owned().into_bytes())?;
            }
            Format::Plain | Format::Name | Format::Raw => {
                let mut line = Vec::new();
                for (at, key) in plain.iter().enumerate() {
                    if at > 0 {
                        line.push(b'\t');
                    }
                    self.plain_field(record.get(key), &mut line)?;
                }
                self.line(line)?;
            }
            Format::Csv => {
                let keys = record.fields().map(|(key, _)| key);
                let headings = csv::headings(keys, self.style.encoding);
                self.csv_heading(&headings)?;
                self.csv_line(csv::fields(record, &headings, self.style.encoding)?)?;
            }
            Format::Json | Format::Ndjson | Format::Yaml => {
                let document = Object::new(record, self.style.encoding)?;
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
            let object = Object::new(&record, self.style.encoding)?;
            serde_json::to_value(&object).map_err(not_json)
        };
        records.into_iter().map(value).collect()
    }

    /// Writes a value as a whole document in JSON, NDJSON or YAML.
    ///
    /// # Errors
    /// Write failures.
    pub fn document(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        if self.style.format == Format::Yaml {
            let text = Self::yaml(value)?;
            return self.text(&text);
        }
        self.json(value)?;
        self.text("\n")
    }

    /// Text that is itself the result, such as a completion script, already escaped by the caller.
    ///
    /// # Errors
    /// Write failures.
    pub fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// One line of TAB-separated fields, whatever the format.
    ///
    /// # Errors
    /// Write failures.
    pub fn columns<'f>(
        &mut self,
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) -> Result<(), CliError> {
        let mut line = Vec::new();
        for (at, field) in fields.into_iter().enumerate() {
            if at > 0 {
                line.push(b'\t');
            }
            escape::field(field, &mut line);
        }
        self.line(line)
    }

    /// A body, byte for byte, with the configured separator.
    ///
    /// # Errors
    /// A binary body on a terminal: exit 2; write failures.
    pub fn raw_body(&mut self, body: &[u8]) -> Result<(), CliError> {
        match self.style.encoding.text(body)? {
            Some(mut text) => {
                if !self.style.null {
                    text.push('\n');
                }
                self.text(&text)?;
            }
            None => self.raw_bytes(body)?,
        }
        if self.style.null { self.bytes(b"\0") } else { Ok(()) }
    }

    /// Part of a body, unencoded whatever `--encoding` says.
    ///
    /// # Errors
    /// Binary bytes on a terminal: exit 2; write failures.
    pub fn raw_bytes(&mut self, body: &[u8]) -> Result<(), CliError> {
        if self.style.terminal && !self.style.force_raw && !is_text(body) {
            return Err(CliError::usage(
                "binary body not shown on a terminal: use -o raw > file, --encoding hex or --encoding base64",
            )
            .hint("--force-raw shows it anyway"));
        }
        self.bytes(body)
    }

    /// The number of results shown since the last call.
    pub fn take_rows(&mut self) -> u64 {
        std::mem::take(&mut self.rows)
    }

    /// Ends an incomplete line on a terminal, which later output would hide. Elsewhere, results are unchanged.
    ///
    /// # Errors
    /// Write failures.
    pub fn end_line(&mut self) -> Result<(), CliError> {
        if !(self.style.terminal && self.in_line) {
            return Ok(());
        }
        self.text("\n")?;
        self.flush()
    }

    /// Sends what is buffered.
    ///
    /// # Errors
    /// Write failures: exit 74, or a closed pipe.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.flushed = Instant::now();
        self.sink.flush().map_err(|error| CliError::writing(self.destination.name(), &error))
    }

    /// Sends what is buffered, if the last time was long enough ago.
    fn flush_now_and_then(&mut self) -> Result<(), CliError> {
        if self.flushed.elapsed() >= Duration::from_millis(100) { self.flush() } else { Ok(()) }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.in_line = bytes.last().map_or(self.in_line, |last| *last != b'\n');
        let echo: &[u8] = if self.style.terminal && signals::take_echo() { b"\n" } else { b"" };
        self.sink
            .write_all(echo)
            .and_then(|()| self.sink.write_all(bytes))
            .map_err(|error| CliError::writing(self.destination.name(), &error))
    }

    /// One line of escaped fields; on a terminal, bytes that are not text are also escaped.
    fn line(&mut self, mut line: Vec<u8>) -> Result<(), CliError> {
        if self.style.terminal {
            let keep_tabs = line.split(|&byte| byte == b'\t').map(escape::bytes_line);
            line = keep_tabs.collect::<Vec<_>>().join("\t").into_bytes();
        }
        line.push(b'\n');
        self.bytes(&line)
    }

    fn plain_field(&self, field: Option<&Field>, out: &mut Vec<u8>) -> Result<(), CliError> {
        match field {
            None => {}
            Some(Field::Value(value)) => escape::field(table::value_text(value).as_bytes(), out),
            Some(Field::Body(bytes)) => match self.style.encoding.text(bytes)? {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => escape::field(bytes, out),
            },
        }
        Ok(())
    }

    /// The header row of CSV, if enabled.
    fn csv_heading(&mut self, keys: &[&str]) -> Result<(), CliError> {
        if self.style.headers { self.csv_line(keys) } else { Ok(()) }
    }

    /// A CSV line.
    fn csv_line(
        &mut self,
        fields: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<(), CliError> {
        let line = csv::line(fields)?;
        self.bytes(&line)
    }

    /// A value as JSON, on one line for NDJSON. Large values are not copied.
    fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let on_one_line = self.style.format == Format::Ndjson;
        let sink = EscapedJson { sink: &mut *self.sink, written: &mut self.written };
        let written = if on_one_line {
            serde_json::to_writer(sink, value)
        } else {
            serde_json::to_writer_pretty(sink, value)
        };
        written.map_err(|error| match error.is_io() {
            true => CliError::writing(self.destination.name(), &error.into()),
            false => not_json(error),
        })
    }

    /// A value as indented JSON.
    fn pretty(value: &impl Serialize) -> Result<String, CliError> {
        let text = serde_json::to_string_pretty(value).map_err(not_json)?;
        Ok(escape::json(&text).into_owned())
    }

    /// YAML; values that would act on a terminal are written as JSON, which is also YAML.
    fn yaml(value: &impl Serialize) -> Result<String, CliError> {
        let text = serde_yaml::to_string(value)
            .map_err(|error| CliError::internal(format!("cannot write YAML: {error}")))?;
        if text.chars().any(|c| c != '\n' && escape::acts(c)) {
            return Ok(format!("{}\n", Self::pretty(value)?));
        }
        Ok(text)
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
    pub fn take_left_out(&mut self) -> Option<String> {
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
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        let width = || terminal_size::terminal_size().map(|(width, _)| width.0);
        if self.style.terminal { width().map(usize::from) } else { None }
    }

    fn look(&self, chosen: bool) -> table::Look {
        table::Look {
            color: self.style.color,
            headers: self.style.headers,
            width: self.width().and_then(|width| u16::try_from(width).ok()),
            encoding: self.style.encoding,
            chosen,
            colors: self.style.colors,
        }
    }
}

fn not_json(error: serde_json::Error) -> CliError {
    CliError::internal(format!("cannot write JSON: {error}"))
}

/// Writes JSON to the sink in pieces of whole characters, escaping what would act on a terminal.
struct EscapedJson<'a> {
    sink: &'a mut (dyn Write + Send),
    written: &'a mut u64,
}

/// Maximum bytes to escape at once, since a body may have hundreds of megabytes.
const PIECE: usize = 64 << 10;

impl Write for EscapedJson<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        let whole = match std::str::from_utf8(piece) {
            Ok(text) => text,
            // The piece ends inside a character.
            Err(error) => piece
                .get(..error.valid_up_to())
                .and_then(|text| std::str::from_utf8(text).ok())
                .filter(|text| !text.is_empty())
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, error))?,
        };
        let escaped = escape::json(whole);
        self.sink.write_all(escaped.as_bytes())?;
        let written = u64::try_from(escaped.len()).unwrap_or(u64::MAX);
        *self.written = self.written.saturating_add(written);
        Ok(whole.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
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
