//! Records as JSON and YAML. They are written without copying, since bodies may be large.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use super::body::{Encoding, Shown};
use super::document::not_json;
use super::record::{Field, Record};
use crate::error::CliError;

/// A record as an object.
pub(super) struct Object<'a>(Vec<(&'a str, Member<'a>)>);

enum Member<'a> {
    Value(&'a Value),
    Body(Shown<'a>),
}

impl<'a> Object<'a> {
    /// With bodies in this encoding.
    ///
    /// # Errors
    /// A body does not fit the encoding: exit 65.
    pub(super) fn new(record: &'a Record, encoding: Encoding) -> Result<Self, CliError> {
        let mut members = Vec::new();
        for (key, field) in record.fields() {
            match field {
                Field::Value(value) => members.push((key, Member::Value(value))),
                Field::Body(bytes) => {
                    let shown = encoding.shown(bytes)?;
                    members.push((shown.key(), Member::Body(shown)));
                }
            }
        }
        Ok(Self(members))
    }

    /// The same as a value.
    pub(super) fn into_value(self) -> Result<Value, CliError> {
        serde_json::to_value(self).map_err(not_json)
    }
}

impl Record {
    /// As a line of NDJSON.
    ///
    /// # Errors
    /// None that a record can have.
    pub(crate) fn line(&self) -> Result<Vec<u8>, CliError> {
        let object = Object::new(self, Encoding::Auto)?;
        let mut line = serde_json::to_vec(&object).map_err(not_json)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, member) in &self.0 {
            match member {
                Member::Value(value) => map.serialize_entry(key, value)?,
                Member::Body(shown) => map.serialize_entry(key, shown)?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(encoding: Encoding, body: &[u8]) -> Value {
        let record = Record::new().with_body(body);
        serde_json::to_value(Object::new(&record, encoding).unwrap()).unwrap()
    }

    #[test]
    fn each_encoding() {
        assert_eq!(shown(Encoding::Auto, b"hi"), json!({"body": "hi"}));
        assert_eq!(shown(Encoding::Auto, b"\xff"), json!({"body_base64": "/w=="}));
        assert_eq!(shown(Encoding::Base64, b"hi"), json!({"body_base64": "aGk="}));
        assert_eq!(shown(Encoding::Hex, b"\x00\xff"), json!({"body_hex": "00ff"}));
        let record = Record::new().with_body(*b"\xff");
        let error = Object::new(&record, Encoding::Utf8).err().unwrap();
        assert_eq!(error.exit.code(), 65);
    }
}
