//! Comma-separated values (RFC 4180, with LF line ends): a header row of keys, and a row per record.
//!
//! The keys are those of JSON, including a body's: `body` for text, else `body_base64`.

use serde_json::Value;

use super::record::{BODY, Field};
use super::{Encoding, Record, Shown, table};
use crate::error::CliError;
use crate::text::escape;

/// The headers of these fields: one for each key that JSON would use.
pub(super) fn headings<'a>(
    keys: impl Iterator<Item = &'a str>,
    encoding: Encoding,
) -> Vec<&'a str> {
    let keys = keys.flat_map(|key| match (key, encoding) {
        (BODY, Encoding::Auto) => vec![BODY, Shown::BASE64],
        (BODY, Encoding::Base64) => vec![Shown::BASE64],
        (BODY, Encoding::Hex) => vec![Shown::HEX],
        (key, _) => vec![key],
    });
    keys.collect()
}

/// The fields of a record for these headers.
///
/// # Errors
/// `--decode utf8`, and a body is not UTF-8: exit 65.
pub(super) fn fields(
    record: &Record,
    headings: &[&str],
    encoding: Encoding,
) -> Result<Vec<String>, CliError> {
    let body = record.body().map(|body| shown(body, encoding)).transpose()?;
    let field = |heading: &&str| match (&body, record.get(heading)) {
        (Some((key, text)), _) if key == heading => text.clone(),
        (_, Some(Field::Value(value))) => text(value),
        _ => String::new(),
    };
    Ok(headings.iter().map(field).collect())
}

/// A value. Terminal control characters are escaped, as in every format; this cannot be reversed.
pub(super) fn text(value: &Value) -> String {
    escape::bytes_view(table::value_text(value).as_bytes())
}

/// A body and its key. A body that a terminal would act on is base64, too: CSV has no escapes, and the body must be
/// recoverable.
fn shown(body: &[u8], encoding: Encoding) -> Result<(&'static str, String), CliError> {
    let mut shown = encoding.shown(body)?;
    let acts = |text: &str| text.chars().any(|c| escape::acts(c) && !matches!(c, '\n' | '\t'));
    if encoding != Encoding::Utf8 && acts(&shown.text()) {
        shown = Shown::Base64(body);
    }
    Ok((shown.key(), escape::bytes_view(shown.text().as_bytes())))
}

/// One line. What would end a field or a line, and a lone empty field, is quoted.
pub(super) fn line(fields: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted = |field: &str| match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    };
    let fields: Vec<String> = fields.into_iter().map(|field| quoted(field.as_ref())).collect();
    match fields.as_slice() {
        [only] if only.is_empty() => "\"\"\n".to_owned(),
        fields => format!("{}\n", fields.join(",")),
    }
}
