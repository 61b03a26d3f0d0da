//! The fields of an envelope in filters: `envelope.class`, `envelope.attempts`, `envelope.arguments.to`.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Decode, Formats};
use crate::envelope::ENVELOPE;
use crate::rules::filter::{Field, Kind, Value};

/// The field for jobs whose body may have an envelope.
pub const FIELD: Field = Field::new(ENVELOPE, Kind::Free).of_body().open().known(&[
    "class",
    "attempts",
    "queue",
    "format",
    "arguments.",
]);

impl Formats {
    /// The member of a body's envelope at this path; list items count from 0. `None` if it does not exist.
    pub fn value(&self, body: &[u8], path: &[String]) -> Option<Value<'static>> {
        let envelope = self.decode(&Decode::Auto, body)?.into_value();
        let found = path.iter().try_fold(&envelope, |value, name| match value {
            Json::Array(all) => all.get(name.parse::<usize>().ok()?),
            value => value.get(name),
        })?;
        let text = match found {
            Json::Null => return None,
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(Value::Text(Cow::Owned(text.into_bytes())))
    }
}
