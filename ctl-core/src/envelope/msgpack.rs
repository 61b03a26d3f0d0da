//! MessagePack.

use rmpv::ValueRef;
use serde_json::{Map, Value};

use super::found::{DEEPEST, Envelope, MOST_VALUES, Why};
use super::json::{self, plain, real, string};
use crate::text::encoding::base64;

pub(super) fn read(body: &[u8]) -> Result<Envelope, Why> {
    let value = parse(body)?;
    let named = json::of_members("msgpack", &value);
    Ok(named.unwrap_or_else(|| Envelope { arguments: Some(value), ..Envelope::of("msgpack") }))
}

/// A body that is almost certainly MessagePack: a map or array in bytes that are not text.
pub(super) fn read_sure(body: &[u8]) -> Result<Envelope, Why> {
    let begins = body.first().is_some_and(|first| matches!(first, 0x80..=0x9f | 0xdc..=0xdf));
    if !begins || std::str::from_utf8(body).is_ok() {
        return Err(Why::Foreign);
    }
    read(body)
}

fn parse(body: &[u8]) -> Result<Value, Why> {
    let mut rest = body;
    let packed =
        rmpv::decode::read_value_ref_with_max_depth(&mut rest, 2 * DEEPEST).map_err(|error| {
            match error {
                rmpv::decode::Error::DepthLimitExceeded => Why::Deep,
                other if other.kind() == std::io::ErrorKind::UnexpectedEof => Why::Truncated,
                _ => Why::Malformed,
            }
        })?;
    if !rest.is_empty() {
        return Err(Why::Foreign);
    }
    let mut left = MOST_VALUES;
    value(&packed, &mut left)
}

fn value(packed: &ValueRef<'_>, left: &mut usize) -> Result<Value, Why> {
    *left = left.checked_sub(1).ok_or(Why::Many)?;
    Ok(match packed {
        ValueRef::Nil => Value::Null,
        ValueRef::Boolean(is) => Value::Bool(*is),
        ValueRef::Integer(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into(),
            (None, number) => number.into(),
        },
        ValueRef::F32(number) => real(f64::from(*number)),
        ValueRef::F64(number) => real(*number),
        ValueRef::String(text) => string(text.as_bytes()),
        ValueRef::Binary(bytes) => string(bytes),
        ValueRef::Array(all) => {
            all.iter().map(|one| value(one, left)).collect::<Result<Vec<_>, _>>()?.into()
        }
        ValueRef::Map(pairs) => {
            let mut map = Map::new();
            for (name, member) in pairs {
                map.insert(plain(&key(name)), value(member, left)?);
            }
            Value::Object(map)
        }
        ValueRef::Ext(kind, bytes) => {
            let mut map = Map::new();
            map.insert("$ext".to_owned(), (*kind).into());
            map.insert("$base64".to_owned(), base64(bytes).into());
            Value::Object(map)
        }
    })
}

fn key(packed: &ValueRef<'_>) -> Vec<u8> {
    match packed {
        ValueRef::String(text) => text.as_bytes().to_vec(),
        other => other.to_string().into_bytes(),
    }
}
