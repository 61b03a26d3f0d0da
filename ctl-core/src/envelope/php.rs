//! PHP's serialization as data. It is only converted to values: no class is looked up, no object exists, and no method
//! can run.
//!
//! | PHP | JSON |
//! |---|---|
//! | null, bool, int, float, string | the same; `INF` and `NAN` as text; bytes that are not UTF-8 as `{"$base64": ..}` |
//! | an array with the keys 0, 1, 2, .. | an array |
//! | another array | an object |
//! | an object | an object with `$class`, then its properties by their bare names |
//! | an object that serializes itself | `$class` and `$data` |
//! | an enum | its name, such as `Suit::Hearts` |
//! | a reference to a value before it | `{"$ref": its number}` |
//!
//! A name that begins with `$` is written with one more.

use serde_json::{Map, Value};

use super::found::{DEEPEST, Envelope, MOST_VALUES, Why};
use super::json::{self, plain, real, string};
use crate::text::escape;

/// The key of an object's class.
pub(crate) const CLASS: &str = "$class";

/// Whether these bytes start like an object, an array or an enum.
#[must_use]
pub(crate) fn looks_like(body: &[u8]) -> bool {
    let Some((b'O' | b'a' | b'C' | b'E', rest)) = body.split_first() else { return false };
    let Some(rest) = rest.strip_prefix(b":") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign: &[u8] = if body.first() == Some(&b'a') { b":{" } else { b":\"" };
    digits > 0 && rest.get(digits..).is_some_and(|rest| rest.starts_with(sign))
}

/// A body that is one serialized value: for an object, its class and properties.
pub(super) fn read_body(body: &[u8]) -> Result<Envelope, Why> {
    let value = read(body)?;
    if let Value::Object(properties) = &value
        && let Some(class) = properties.get(CLASS).and_then(Value::as_str)
    {
        let class = Some(class.to_owned());
        let mut rest = properties.clone();
        rest.shift_remove(CLASS);
        let arguments = Some(rest).filter(|rest| !rest.is_empty()).map(Value::Object);
        return Ok(Envelope { class, arguments, ..Envelope::of("php") });
    }
    let named = json::of_members("php", &value);
    Ok(named.unwrap_or_else(|| Envelope { arguments: Some(value), ..Envelope::of("php") }))
}

/// Parses one serialized value.
///
/// # Errors
/// Why it cannot be parsed; values are bounded in depth and number.
pub fn read(bytes: &[u8]) -> Result<Value, Why> {
    let mut reader = Reader { rest: bytes, left: MOST_VALUES };
    let value = reader.value(DEEPEST).map_err(|why| match why {
        Why::Malformed if reader.rest.len() == bytes.len() => Why::Foreign,
        why => why,
    })?;
    if reader.rest.is_empty() { Ok(value) } else { Err(Why::Malformed) }
}

struct Reader<'a> {
    rest: &'a [u8],
    /// How many more values are allowed.
    left: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Why> {
        let depth = depth.checked_sub(1).ok_or(Why::Deep)?;
        self.left = self.left.checked_sub(1).ok_or(Why::Many)?;
        match self.rest {
            [b'N', b';', ..] => {
                self.take(2)?;
                Ok(Value::Null)
            }
            [kind, b':', ..] => {
                let kind = *kind;
                if !b"bidsaOCErR".contains(&kind) {
                    return Err(Why::Malformed);
                }
                self.take(2)?;
                self.of_kind(kind, depth)
            }
            [] | [b'N' | b'b' | b'i' | b'd' | b's' | b'a' | b'O' | b'C' | b'E' | b'r' | b'R'] => {
                Err(Why::Truncated)
            }
            _ => Err(Why::Malformed),
        }
    }

    fn of_kind(&mut self, kind: u8, depth: usize) -> Result<Value, Why> {
        match kind {
            b'b' => match self.until(b';')? {
                b"0" => Ok(Value::Bool(false)),
                b"1" => Ok(Value::Bool(true)),
                _ => Err(Why::Malformed),
            },
            b'i' => Ok(self.integer()?.into()),
            b'd' => self.float(),
            b's' => {
                let text = self.text()?;
                self.expect(b";")?;
                Ok(string(text))
            }
            b'a' => self.array(depth),
            b'O' => self.object(depth),
            b'C' => self.custom(),
            b'E' => {
                let name = escape::bytes_line(self.text()?);
                self.expect(b";")?;
                Ok(name.replacen(':', "::", 1).into())
            }
            _ => {
                let number = self.until(b';')?;
                let number: u32 = parse(number)?;
                Ok(Value::Object(Map::from_iter([("$ref".to_owned(), number.into())])))
            }
        }
    }

    fn integer(&mut self) -> Result<i64, Why> {
        parse(self.until(b';')?)
    }

    fn float(&mut self) -> Result<Value, Why> {
        Ok(match self.until(b';')? {
            b"INF" => "INF".into(),
            b"-INF" => "-INF".into(),
            b"NAN" => "NAN".into(),
            digits => real(parse(digits)?),
        })
    }

    /// `2:{key value key value}`, after the kind.
    fn array(&mut self, depth: usize) -> Result<Value, Why> {
        let count = self.count()?;
        let mut map = Map::new();
        let mut is_list = true;
        for at in 0..count {
            let (name, number) = self.key(plain)?;
            is_list &= number == i64::try_from(at).ok();
            let value = self.value(depth)?;
            map.insert(name, value);
        }
        self.expect(b"}")?;
        Ok(match is_list {
            true => Value::Array(map.into_iter().map(|(_, value)| value).collect()),
            false => Value::Object(map),
        })
    }

    /// `5:"Class":2:{key value key value}`, after the kind.
    fn object(&mut self, depth: usize) -> Result<Value, Why> {
        let class = escape::bytes_line(self.text()?);
        self.expect(b":")?;
        let count = self.count()?;
        let mut map = Map::from_iter([(CLASS.to_owned(), class.into())]);
        for _ in 0..count {
            let (name, _) = self.key(bare)?;
            let value = self.value(depth)?;
            map.insert(name, value);
        }
        self.expect(b"}")?;
        Ok(Value::Object(map))
    }

    /// `5:"Class":4:{data}`, after the kind.
    fn custom(&mut self) -> Result<Value, Why> {
        let class = escape::bytes_line(self.text()?);
        self.expect(b":")?;
        let length = self.count()?;
        let data = self.take(length)?;
        self.expect(b"}")?;
        let members = [(CLASS.to_owned(), class.into()), ("$data".to_owned(), string(data))];
        Ok(Value::Object(Map::from_iter(members)))
    }

    /// A key as text, and as a number if it is one.
    fn key(&mut self, show: fn(&[u8]) -> String) -> Result<(String, Option<i64>), Why> {
        self.left = self.left.checked_sub(1).ok_or(Why::Many)?;
        match self.rest {
            [b'i', b':', ..] => {
                self.take(2)?;
                let number = self.integer()?;
                Ok((number.to_string(), Some(number)))
            }
            [b's', b':', ..] => {
                self.take(2)?;
                let name = show(self.text()?);
                self.expect(b";")?;
                Ok((name, None))
            }
            [] | [b'i' | b's'] => Err(Why::Truncated),
            _ => Err(Why::Malformed),
        }
    }

    /// `3:"abc"`
    fn text(&mut self) -> Result<&'a [u8], Why> {
        let length: usize = parse(self.until(b':')?)?;
        self.expect(b"\"")?;
        let text = self.take(length)?;
        self.expect(b"\"")?;
        Ok(text)
    }

    /// `3:{`
    fn count(&mut self) -> Result<usize, Why> {
        let count = parse(self.until(b':')?)?;
        self.expect(b"{")?;
        Ok(count)
    }

    /// A number's digits up to this byte, which is also consumed.
    fn until(&mut self, end: u8) -> Result<&'a [u8], Why> {
        // No number is longer.
        let window = self.rest.get(..64).unwrap_or(self.rest);
        let Some(length) = window.iter().position(|byte| *byte == end) else {
            let is_cut = window.len() == self.rest.len();
            return Err(if is_cut { Why::Truncated } else { Why::Malformed });
        };
        let digits = self.take(length)?;
        self.take(1)?;
        Ok(digits)
    }

    fn expect(&mut self, sign: &[u8]) -> Result<(), Why> {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None if sign.starts_with(self.rest) => Err(Why::Truncated),
            None => Err(Why::Malformed),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Why> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Why::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn parse<N: std::str::FromStr>(digits: &[u8]) -> Result<N, Why> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Why::Malformed)
}

/// A property's name without the class that it is private to, or the `*` of a protected one.
fn bare(name: &[u8]) -> String {
    let bare = match name.strip_prefix(b"\0") {
        Some(rest) => rest.splitn(2, |byte| *byte == 0).nth(1).unwrap_or(rest),
        None => name,
    };
    plain(bare)
}
