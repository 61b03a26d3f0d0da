//! Job records that can be imported again: their formats, and their files.

use std::ffi::OsStr;
use std::io::BufWriter;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::CliError;
use crate::output::{Destination, Encoding, Format, Output, Shape, Style};
use crate::system::files;
use crate::text::encoding::{from_base64, from_hex};

/// The body in a record, in any encoding: flattened into the record's other fields.
#[derive(Debug, Default, Deserialize)]
pub struct Body {
    body: Option<String>,
    body_base64: Option<String>,
    body_hex: Option<String>,
}

impl Body {
    /// Decodes the body; `noun` is the kind of the record, such as `job`.
    ///
    /// # Errors
    /// The body is missing, given twice, or not in its encoding: exit 65.
    pub fn bytes(self, noun: &str) -> Result<Vec<u8>, CliError> {
        match (self.body, self.body_base64, self.body_hex) {
            (Some(text), None, None) => Ok(text.into_bytes()),
            (None, Some(text), None) => from_base64(&text).map_err(CliError::bad_data),
            (None, None, Some(text)) => from_hex(&text).map_err(CliError::bad_data),
            (None, None, None) => Err(CliError::bad_data(format!(
                "{noun} record without `body`, `body_base64` or `body_hex`"
            ))),
            _ => Err(CliError::bad_data(format!("{noun} record with more than one body"))),
        }
    }
}

/// Parses one line of NDJSON as a `noun`; `version_of` returns the version in the record.
///
/// # Errors
/// It is not such a record, or has another version: exit 65.
pub fn parse<R: DeserializeOwned>(
    line: &[u8],
    (noun, version): (&str, u64),
    version_of: impl FnOnce(&R) -> Option<u64>,
) -> Result<R, CliError> {
    let record = serde_json::from_slice(line).map_err(|error| {
        CliError::bad_data(format!("not a {noun} record: {error}")).hint(EXAMPLE)
    })?;
    match version_of(&record).filter(|said| *said != version) {
        Some(other) => Err(CliError::bad_data(format!(
            "{noun} record of version {other}: this tool knows version {version}"
        ))),
        None => Ok(record),
    }
}

/// An example of a record.
const EXAMPLE: &str = r#"a JSON object on each line, such as {"body":"hello"}"#;

/// Whether a line is blank.
pub fn is_blank(line: &Result<Vec<u8>, CliError>) -> bool {
    line.as_ref().is_ok_and(|bytes| bytes.trim_ascii().is_empty())
}

/// Prepares `out` for records of this shape to `to`, a file or - for stdout; as NDJSON unless another structured format
/// was requested.
///
/// # Errors
/// A format that cannot be imported, a lossy encoding, an unknown column: exit 2.
pub fn prepare(
    out: &mut Output,
    requested: Option<Format>,
    to: &OsStr,
    shape: &'static Shape,
) -> Result<(), CliError> {
    match requested.filter(|_| to == STDOUT) {
        None if to == STDOUT => out.style.format = Format::Ndjson,
        Some(format) if !format.is_structured() => {
            return Err(CliError::usage("records are written as ndjson, json or yaml")
                .hint("-o ndjson, which can be read back"));
        }
        _ => {}
    }
    if out.style.encoding() == Encoding::Utf8 {
        return Err(CliError::usage("--decode utf8 cannot be read back byte for byte")
            .hint("--decode none, base64 or hex"));
    }
    out.expect(shape)
}

/// Stands for stdout in place of a file.
pub const STDOUT: &str = "-";

/// Creates a new file for NDJSON records, readable only by its owner, since job bodies may be private. `None` for
/// stdout.
///
/// # Errors
/// The file exists or cannot be written: exit 74.
pub fn create(path: &OsStr, style: &Style) -> Result<Option<Output>, CliError> {
    if path == STDOUT {
        return Ok(None);
    }
    let file = files::new_file(Path::new(path))?;
    files::sync_entry(Path::new(path));
    let (decode, formats) = (style.decode.clone(), style.formats.clone());
    let style = Style { format: Format::Ndjson, decode, formats, ..Style::default() };
    let destination = Destination::file(path.to_string_lossy(), &file);
    Ok(Some(Output::to(Box::new(BufWriter::new(file)), style).at(destination)))
}
