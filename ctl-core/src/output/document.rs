//! JSON and YAML in which nothing acts on a terminal.

use std::io::{self, Write};

use serde::Serialize;

use crate::error::CliError;
use crate::output::yaml;
use crate::text::escape;

/// A value as indented JSON.
pub(super) fn pretty(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value).map_err(not_json)?;
    Ok(escape::json(&text).into_owned())
}

/// YAML: a document, or the items of a list, one behind the other.
pub(super) fn yaml(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_value(value).map(|value| yaml::text(&value)).map_err(not_json)
}

/// The error for a value without a form in JSON.
pub(super) fn not_json(error: serde_json::Error) -> CliError {
    CliError::internal(format!("cannot write JSON: {error}"))
}

/// Writes JSON to the sink in pieces of whole characters, escaping what would act on a terminal.
pub(super) struct EscapedJson<'a> {
    pub(super) sink: &'a mut (dyn Write + Send),
    /// The bytes that the sink was given.
    pub(super) written: &'a mut u64,
}

/// Maximum bytes to escape at once, since a body may have hundreds of megabytes.
pub(super) const PIECE: usize = 64 << 10;

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
