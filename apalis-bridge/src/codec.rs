//! Bodies of jobs as arguments of tasks, and back.

use std::{error, fmt, string::FromUtf8Error};

use apalis_core::{backend::codec::Codec, error::BoxDynError};

/// A codec for bodies: any of apalis's whose compact form converts from and to bytes, such as `Vec<u8>`.
pub trait BodyCodec<T>: Clone + Send + Sync + 'static {
    /// The body of a job.
    ///
    /// # Errors
    ///
    /// The codec's.
    fn to_body(&self, value: &T) -> Result<Vec<u8>, BoxDynError>;

    /// The arguments in a body.
    ///
    /// # Errors
    ///
    /// The codec's.
    fn of_body(&self, body: Vec<u8>) -> Result<T, BoxDynError>;
}

impl<T, C> BodyCodec<T> for C
where
    C: Codec<T> + Clone + Send + Sync + 'static,
    C::Compact: From<Vec<u8>> + Into<Vec<u8>>,
    C::Error: Into<BoxDynError>,
{
    fn to_body(&self, value: &T) -> Result<Vec<u8>, BoxDynError> {
        self.encode(value).map(Into::into).map_err(Into::into)
    }

    fn of_body(&self, body: Vec<u8>) -> Result<T, BoxDynError> {
        self.decode(&body.into()).map_err(Into::into)
    }
}

/// Bodies that are JSON.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

#[cfg(feature = "json")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Json {
    type Error = serde_json::Error;
    type Compact = Vec<u8>;

    fn encode(&self, value: &T) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(value)
    }

    fn decode(&self, body: &Vec<u8>) -> Result<T, serde_json::Error> {
        serde_json::from_slice(body)
    }
}

/// Unchanged bodies: `Vec<u8>`, `String`, and `()` for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

/// Why a body does not have the expected type.
#[derive(Debug)]
#[non_exhaustive]
pub enum RawError {
    /// It is not UTF-8.
    NotText(FromUtf8Error),
    /// It should be empty, and has this number of bytes.
    NotEmpty(usize),
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawError::NotText(error) => write!(f, "it is not text: {error}"),
            RawError::NotEmpty(bytes) => write!(f, "it should be empty but has {bytes} bytes"),
        }
    }
}

impl error::Error for RawError {}

impl Codec<Vec<u8>> for Raw {
    type Error = RawError;
    type Compact = Vec<u8>;

    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, RawError> {
        Ok(value.clone())
    }

    fn decode(&self, body: &Vec<u8>) -> Result<Vec<u8>, RawError> {
        Ok(body.clone())
    }
}

impl Codec<String> for Raw {
    type Error = RawError;
    type Compact = Vec<u8>;

    fn encode(&self, value: &String) -> Result<Vec<u8>, RawError> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, body: &Vec<u8>) -> Result<String, RawError> {
        String::from_utf8(body.clone()).map_err(RawError::NotText)
    }
}

impl Codec<()> for Raw {
    type Error = RawError;
    type Compact = Vec<u8>;

    fn encode(&self, (): &()) -> Result<Vec<u8>, RawError> {
        Ok(Vec::new())
    }

    fn decode(&self, body: &Vec<u8>) -> Result<(), RawError> {
        if body.is_empty() { Ok(()) } else { Err(RawError::NotEmpty(body.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bodies_round_trip_and_invalid_ones_fail() {
        assert_eq!(BodyCodec::<Vec<u8>>::of_body(&Raw, vec![0, 255]).unwrap(), [0, 255]);
        assert_eq!(Raw.to_body(&"ann".to_owned()).unwrap(), b"ann");
        assert_eq!(BodyCodec::<String>::of_body(&Raw, b"ann".to_vec()).unwrap(), "ann");
        let error = BodyCodec::<String>::of_body(&Raw, vec![255]).unwrap_err();
        assert!(error.to_string().starts_with("it is not text: "), "{error}");
        BodyCodec::<()>::of_body(&Raw, Vec::new()).unwrap();
        let error = BodyCodec::<()>::of_body(&Raw, vec![1]).unwrap_err();
        assert_eq!(error.to_string(), "it should be empty but has 1 bytes");
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_errors_name_the_position() {
        assert_eq!(Json.to_body(&vec![1, 2]).unwrap(), b"[1,2]");
        assert_eq!(BodyCodec::<Vec<u32>>::of_body(&Json, b"[1,2]".to_vec()).unwrap(), [1, 2]);
        let error = BodyCodec::<Vec<u32>>::of_body(&Json, b"[1,".to_vec()).unwrap_err();
        assert!(error.to_string().contains("line 1 column 3"), "{error}");
    }
}
