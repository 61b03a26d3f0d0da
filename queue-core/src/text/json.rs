//! JSON bodies.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The error for a body that is not the expected JSON.
///
/// Its text has the position and the reason, and may quote the body.
#[derive(Debug)]
pub struct JsonError {
    bytes: usize,
    cause: serde_json::Error,
}

impl JsonError {
    /// Whether the body is not valid JSON, or is truncated; otherwise it is JSON of another shape.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        !self.cause.is_data()
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what =
            if self.is_malformed() { "no JSON" } else { "JSON of another shape than expected" };
        write!(f, "the body of {} bytes is {what}: {}", self.bytes, self.cause)
    }
}

impl std::error::Error for JsonError {}

/// Parses a body.
///
/// # Errors
///
/// If the body is not valid JSON for a `T`.
pub fn from_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, JsonError> {
    serde_json::from_slice(body).map_err(|cause| JsonError { bytes: body.len(), cause })
}

/// Encodes a body.
///
/// # Errors
///
/// `InvalidInput` for a value that JSON cannot carry, such as a map with keys other than text.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value)
        .map_err(|error| Error::invalid(format!("the value cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn errors_state_size_problem_and_position() {
        let error = from_json::<u8>(b"hello").unwrap_err();
        assert!(error.is_malformed());
        assert_eq!(
            error.to_string(),
            "the body of 5 bytes is no JSON: expected value at line 1 column 1"
        );
        assert!(from_json::<u8>(b"").unwrap_err().is_malformed());
        let error = from_json::<BTreeMap<String, u8>>(br#"{"a": 256}"#).unwrap_err();
        assert!(!error.is_malformed());
        assert_eq!(
            error.to_string(),
            "the body of 10 bytes is JSON of another shape than expected: invalid value: integer `256`, expected u8 \
             at line 1 column 9"
        );
    }

    #[test]
    fn refuses_values_json_cannot_carry() {
        let error = to_json(&BTreeMap::from([(vec![1], 2)])).unwrap_err();
        assert_eq!(error.to_string(), "the value cannot be written as JSON: key must be a string");
        assert_eq!(from_json::<String>(&to_json("é\n").unwrap()).unwrap(), "é\n");
    }
}
