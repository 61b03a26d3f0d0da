//! The jobs of mod_gearman, a product that distributes the checks of Nagios and Naemon by Gearman: base64 of lines of
//! `key=value`, which may be encrypted. It is a format of one producer, not a part of Gearman.

use serde_json::{Map, Value};

use super::found::{Envelope, Why};
use crate::text::encoding::from_base64;

/// The first lines written by mod_gearman: of a check, of a result.
const FIRST: [&str; 3] = ["type", "host_name", "result_queue"];
/// The block size of the cipher, in bytes.
const BLOCK: usize = 16;

pub(super) fn read(body: &[u8]) -> Result<Envelope, Why> {
    let encoded = std::str::from_utf8(body).map_err(|_| Why::Foreign)?;
    // An encoder that breaks lines ends each with LF.
    let encoded: String = encoded.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let decoded = from_base64(&encoded).map_err(|_| Why::Foreign)?;
    match String::from_utf8(decoded) {
        Ok(text) => from_text(&text).ok_or(Why::Foreign),
        Err(error) if error.as_bytes().len().is_multiple_of(BLOCK) => Err(Why::Encrypted),
        Err(_) => Err(Why::Foreign),
    }
}

fn from_text(text: &str) -> Option<Envelope> {
    let lines = text.trim_end_matches(['\n', '\0']).lines();
    let lines = lines.filter(|line| !line.trim().is_empty());
    // A repeated key continues the value, as for long output.
    let mut all = Map::new();
    for line in lines {
        let (key, value) = line.split_once('=')?;
        all.insert(key.to_owned(), value.into());
    }
    let first = all.keys().next()?;
    if !FIRST.contains(&first.as_str()) {
        return None;
    }
    let kind = all.shift_remove("type").and_then(|kind| kind.as_str().map(str::to_owned));
    Some(Envelope {
        class: Some(kind.unwrap_or_else(|| "result".to_owned())),
        arguments: Some(Value::Object(all)),
        ..Envelope::of("mod-gearman")
    })
}
