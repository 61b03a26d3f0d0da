//! Writing to stdout: documents, text, fields and bodies, with what acts on a terminal escaped.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::document::{self, EscapedJson};
use super::{Field, Format, Output, csv, is_text, table};
use crate::error::CliError;
use crate::system::signals;
use crate::text::escape;

impl Output {
    /// Writes a value as a whole document in JSON, NDJSON or YAML.
    ///
    /// # Errors
    /// Write failures.
    pub fn document(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        if self.style.format == Format::Yaml {
            let text = document::yaml(value)?;
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

    /// Text in its own format that contains names of servers: on a terminal, what acts on it is escaped.
    ///
    /// # Errors
    /// Write failures.
    pub(crate) fn foreign_text(&mut self, text: &str) -> Result<(), CliError> {
        if self.style.terminal { self.text(&escape::lines(text)) } else { self.text(text) }
    }

    /// One line of TAB-separated fields, whatever the format.
    ///
    /// # Errors
    /// Write failures.
    pub fn columns<'f>(
        &mut self,
        fields: impl IntoIterator<Item = &'f [u8]>,
    ) -> Result<(), CliError> {
        self.line(fields.into_iter().map(escape::field).collect::<Vec<_>>().join(&b'\t'))
    }

    /// A body, byte for byte, with the configured separator.
    ///
    /// # Errors
    /// A binary body on a terminal: exit 2; write failures.
    pub fn raw_body(&mut self, body: &[u8]) -> Result<(), CliError> {
        match self.style.encoding().text(body)? {
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

    /// Part of a body, unencoded whatever `--decode` says.
    ///
    /// # Errors
    /// Binary bytes on a terminal: exit 2; write failures.
    pub fn raw_bytes(&mut self, body: &[u8]) -> Result<(), CliError> {
        if self.style.terminal && !is_text(body) {
            return Err(CliError::usage(
                "binary body not shown on a terminal: use -o raw > file, --decode hex or --decode base64",
            )
            .hint("-o raw | cat shows it anyway"));
        }
        self.bytes(body)
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
    pub(super) fn flush_now_and_then(&mut self) -> Result<(), CliError> {
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
    pub(super) fn line(&mut self, mut line: Vec<u8>) -> Result<(), CliError> {
        if self.style.terminal {
            let keep_tabs = line.split(|&byte| byte == b'\t').map(escape::bytes_line);
            line = keep_tabs.collect::<Vec<_>>().join("\t").into_bytes();
        }
        line.push(b'\n');
        self.bytes(&line)
    }

    pub(super) fn plain_field(
        &self,
        field: Option<&Field>,
        is_escaped: bool,
    ) -> Result<Vec<u8>, CliError> {
        Ok(match field {
            None => Vec::new(),
            Some(Field::Value(value)) if is_escaped => table::value_text(value).into_bytes(),
            Some(Field::Value(value)) => escape::field(table::value_text(value).as_bytes()),
            Some(Field::Body(bytes)) => match self.style.encoding().text(bytes)? {
                Some(text) => text.into_bytes(),
                None => escape::field(bytes),
            },
        })
    }

    /// The header row of CSV, if enabled.
    pub(super) fn csv_heading(&mut self, keys: &[&str]) -> Result<(), CliError> {
        if self.style.headless { Ok(()) } else { self.csv_line(keys) }
    }

    /// A CSV line.
    pub(super) fn csv_line(
        &mut self,
        fields: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<(), CliError> {
        self.bytes(csv::line(fields).as_bytes())
    }

    /// A value as JSON, on one line for NDJSON. Large values are not copied.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let on_one_line = self.style.format == Format::Ndjson;
        let sink = EscapedJson { sink: &mut *self.sink, written: &mut self.written };
        let written = if on_one_line {
            serde_json::to_writer(sink, value)
        } else {
            serde_json::to_writer_pretty(sink, value)
        };
        written.map_err(|error| match error.is_io() {
            true => CliError::writing(self.destination.name(), &error.into()),
            false => document::not_json(error),
        })
    }
}
