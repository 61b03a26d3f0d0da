//! The jobs of mod_gearman, a product that distributes the checks of Nagios and Naemon by Gearman: base64 of lines of
//! `key=value`, which may be encrypted. It is a format of one producer, not a part of Gearman.

use std::fmt;
use std::fs::File;
use std::io::Read as _;

use serde_json::{Map, Value};

use super::MOD_GEARMAN;
use super::found::{Envelope, Why};
use crate::error::CliError;
use crate::text::encoding::from_base64;

/// The first lines written by mod_gearman: of a check, of a result.
const FIRST: [&str; 3] = ["type", "host_name", "result_queue"];
/// The members of every result.
const OF_RESULT: &str = "return_code";
/// How performance data begins.
const DATA: &str = "DATATYPE::";
/// The block size of the cipher, in bytes.
const BLOCK: usize = 16;

/// The key of encrypted jobs, as mod_gearman reads it from its `keyfile`: padded with NUL to 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// Reads the key in a file.
    ///
    /// # Errors
    /// The file cannot be read: exit 66, 74. It is empty: exit 65.
    pub(super) fn read(name: &str) -> Result<Self, CliError> {
        let mut text = Vec::new();
        File::open(name)
            .and_then(|file| file.take(32).read_to_end(&mut text))
            .map_err(|error| CliError::reading(name, &error))?;
        let text = text.trim_ascii_end();
        if text.is_empty() {
            return Err(CliError::bad_data(format!("the key file {name} is empty")));
        }
        let mut key = [0; 32];
        key.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Ok(Self(key))
    }

    /// AES-256 in ECB mode.
    #[cfg(feature = "aes")]
    fn decrypt(&self, bytes: &mut [u8]) {
        use aes::cipher::{Block, BlockCipherDecrypt as _, KeyInit as _};
        let cipher = aes::Aes256::new(&self.0.into());
        for block in bytes.chunks_exact_mut(BLOCK) {
            if let Ok(block) = <&mut Block<aes::Aes256>>::try_from(block) {
                cipher.decrypt_block(block);
            }
        }
    }

    #[cfg(not(feature = "aes"))]
    fn decrypt(&self, _: &mut [u8]) {}
}

pub(super) fn read(body: &[u8], key: Option<&Key>) -> Result<Envelope, Why> {
    let encoded = std::str::from_utf8(body).map_err(|_| Why::Foreign)?;
    // An encoder that breaks lines ends each with LF.
    let encoded: String = encoded.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let mut bytes = from_base64(&encoded).map_err(|_| Why::Foreign)?;
    if let Some(found) = from_text(&text(&bytes)) {
        return Ok(found);
    }
    if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK) || std::str::from_utf8(&bytes).is_ok()
    {
        return Err(Why::Foreign);
    }
    let Some(key) = key else { return Err(Why::Encrypted) };
    key.decrypt(&mut bytes);
    from_text(&text(&bytes)).ok_or(Why::Encrypted)
}

/// What is not UTF-8 is Latin-1, as old agents write it.
fn text(bytes: &[u8]) -> String {
    let latin = |_| bytes.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(bytes).map_or_else(latin, str::to_owned)
}

fn from_text(text: &str) -> Option<Envelope> {
    let text = text.trim_end_matches(['\n', '\0']);
    let mut all = Map::new();
    if text.starts_with(DATA) {
        let fields = text.split('\t').filter_map(|field| field.split_once("::"));
        all.extend(fields.map(|(key, value)| (key.to_owned(), value.into())));
        return Some(envelope(all.shift_remove("DATATYPE"), all));
    }
    let mut last = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match (line.split_once('='), all.get_mut(&last)) {
            (Some((key, value)), _) => {
                last = key.to_owned();
                all.insert(last.clone(), value.into());
            }
            // The rest of an output of several lines.
            (None, Some(Value::String(value))) => value.extend(["\n", line]),
            _ => return None,
        }
        if all.len() == 1 && !FIRST.contains(&last.as_str()) {
            return None;
        }
    }
    all.keys().next()?;
    let kind = if all.contains_key(OF_RESULT) { None } else { all.shift_remove("type") };
    Some(envelope(kind.or_else(|| Some("result".into())), all))
}

fn envelope(kind: Option<Value>, all: Map<String, Value>) -> Envelope {
    let class = kind.filter(Value::is_string);
    Envelope::of(MOD_GEARMAN).with("class", class).with("arguments", Some(all))
}
