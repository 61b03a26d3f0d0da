//! The two formats of beanstalkd's statistics: a list and a flat map.
//!
//! The text resembles YAML but is not always valid YAML: only some versions quote names, a tube may be called `true` or
//! `1e5`, and version 1.12 prints `os: #1 SMP …`. So it is read line by line, values stay text until a number is asked
//! for, and anything else is an error.

use std::{collections::HashSet, fmt, ops::Range, sync::Arc};

use crate::{Error, TubeName, error::excerpt};

/// Maximum number of lines read from one reply.
const MAX_LINES: usize = 1_000_000;

/// Reads `---`, then `- name` lines.
pub(crate) fn list(text: &[u8]) -> Result<Vec<TubeName>, Error> {
    lines(utf8(text)?)?
        .map(|(number, line)| {
            let name = line.strip_prefix("- ").ok_or_else(|| unexpected(number, line))?;
            TubeName::try_from(unquoted(name))
                .map_err(|error| unexpected(number, line).with_source(error))
        })
        .collect()
}

/// The pairs of a map, in the server's order. Cloning is cheap: a worker reads one for every job.
#[derive(Clone)]
pub(crate) struct Pairs {
    text: Arc<str>,
    /// The positions of each key and value in the text.
    spans: Arc<[[Range<usize>; 2]]>,
}

impl Pairs {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let part = |span: &Range<usize>| self.text.get(span.clone()).unwrap_or_default();
        self.spans.iter().map(move |[key, value]| (part(key), part(value)))
    }

    /// The same, with whether the value was quoted: then it is text, whatever it looks like.
    #[cfg(feature = "serde")]
    pub(crate) fn iter_quoted(&self) -> impl ExactSizeIterator<Item = (&str, &str, bool)> {
        let is_quoted = |value: &Range<usize>| {
            self.text.get(..value.start).is_some_and(|before| before.ends_with('"'))
        };
        let quoted = self.spans.iter().map(move |[_, value]| is_quoted(value));
        self.iter().zip(quoted).map(|((key, value), is_quoted)| (key, value, is_quoted))
    }
}

impl PartialEq for Pairs {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A map's text from a source other than a server: string values are quoted.
#[cfg(feature = "serde")]
pub(crate) struct StatsText(pub(crate) String);

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for StatsText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextWriter)
    }
}

#[cfg(feature = "serde")]
struct TextWriter;

#[cfg(feature = "serde")]
impl<'de> serde::de::Visitor<'de> for TextWriter {
    type Value = StatsText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of statistics")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<StatsText, A::Error> {
        let mut text = String::from("---\n");
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if !is_key(&key) || value.0.contains(['\n', '\r']) {
                let key = excerpt(key.as_bytes());
                return Err(serde::de::Error::custom(format!(
                    "{key} is no entry of statistics: it has one line"
                )));
            }
            text.extend([key.as_str(), ": ", value.0.as_str(), "\n"]);
        }
        Ok(StatsText(text))
    }
}

/// A value in the format of a server.
#[cfg(feature = "serde")]
struct Value(String);

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl serde::de::Visitor<'_> for Scalar {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a boolean or text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value(format!("\"{text}\"")))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

/// Below this number of pairs, a linear search is the fastest way to find a key.
const FEW: usize = 64;

/// Reads `---`, then `key: value` lines.
pub(crate) fn map(text: &[u8]) -> Result<Pairs, Error> {
    let text = utf8(text)?;
    let mut pairs: Vec<(&str, &str)> = Vec::with_capacity(16);
    let mut seen = HashSet::new();
    for (number, line) in lines(text)? {
        let bare = || line.strip_suffix(':').map(|key| (key, line.get(line.len()..).unwrap_or("")));
        let pair = line.split_once(": ").or_else(bare).filter(|(key, _)| is_key(key));
        let (key, value) = pair.ok_or_else(|| unexpected(number, line))?;
        if pairs.len() == FEW {
            seen.extend(pairs.iter().map(|(key, _)| *key));
        }
        let is_new = if pairs.len() < FEW {
            pairs.iter().all(|(known, _)| *known != key)
        } else {
            seen.insert(key)
        };
        if !is_new {
            return Err(unexpected(number, line));
        }
        pairs.push((key, unquoted(value)));
    }
    let span = |part: &str| {
        let start = part.as_ptr().addr() - text.as_ptr().addr();
        start..start + part.len()
    };
    let spans = pairs.into_iter().map(|(key, value)| [span(key), span(value)]).collect();
    Ok(Pairs { text: text.into(), spans })
}

fn utf8(text: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(text)
        .map_err(|error| Error::protocol("the stats reply is not text").with_source(error))
}

/// The numbered lines after the `---`.
fn lines(text: &str) -> Result<impl Iterator<Item = (usize, &str)>, Error> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    match lines.next() {
        Some((_, "---")) => {}
        first => return Err(unexpected(1, first.map_or("", |(_, line)| line))),
    }
    if text.len() > MAX_LINES && text.lines().nth(MAX_LINES).is_some() {
        return Err(Error::protocol(format!("the stats reply has more than {MAX_LINES} lines")));
    }
    Ok(lines)
}

fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

fn unexpected(number: usize, line: &str) -> Error {
    Error::protocol(format!(
        "the stats reply has an unexpected line {number}: {}",
        excerpt(line.as_bytes())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_items_are_names_never_typed() {
        let tubes = list(b"---\n- default\n- 123\n- true\n- 1e5\n- \"quoted\"\n").unwrap();
        assert_eq!(tubes, ["default", "123", "true", "1e5", "quoted"]);
        assert_eq!(list(b"---\n").unwrap(), Vec::<TubeName>::new());
    }

    #[test]
    fn map_values_keep_every_colon_and_hash() {
        let pairs = map(b"---\nname: \"true\"\nos: #1 SMP: x @0\nempty: \nbare:\n").unwrap();
        let pairs: Vec<_> = pairs.iter().collect();
        assert_eq!(pairs, [("name", "true"), ("os", "#1 SMP: x @0"), ("empty", ""), ("bare", "")]);
    }

    #[test]
    fn a_key_that_comes_again_is_noticed_however_many_there_are() {
        for others in [1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            for again in [0, others / 2, others - 1] {
                let mut text: String = (0..others).map(|n| format!("key{n}: {n}\n")).collect();
                text.insert_str(0, "---\n");
                assert_eq!(map(text.as_bytes()).unwrap().iter().len(), others);
                text += &format!("key{again}: x\n");
                assert!(map(text.as_bytes()).is_err(), "{again} of {others}");
            }
        }
    }

    #[test]
    fn lines_are_limited_however_short_and_bytes_are_not() {
        let text = |lines: usize| format!("---\n{}", "\n".repeat(lines - 1));
        assert!(lines(&text(MAX_LINES)).is_ok());
        assert!(lines(&text(MAX_LINES + 1)).is_err());
        assert!(lines(&format!("---\nos: {}\n", "x".repeat(MAX_LINES))).is_ok());
    }

    #[test]
    fn maps_are_equal_if_their_pairs_are() {
        let [one, same, other] = ["---\na: 1\n", "---\na: \"1\"\n", "---\na: 2\n"]
            .map(|text| map(text.as_bytes()).unwrap());
        assert!(one == same && one != other);
        assert_eq!(format!("{other:?}"), r#"[("a", "2")]"#);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_map_from_elsewhere_has_keys_and_values_of_one_line() {
        let read = |json: &str| serde_json::from_str::<StatsText>(json).map(|written| written.0);
        assert_eq!(read(r#"{"a": 1, "b": "x"}"#).unwrap(), "---\na: 1\nb: \"x\"\n");
        for bad in [r#"{"a b": 1}"#, r#"{"": 1}"#, r#"{"a": "x\ny"}"#, r#"{"a\nb": "x"}"#] {
            assert!(read(bad).unwrap_err().to_string().contains("it has one line"), "{bad}");
        }
        for (bad, expected) in
            [("1", "a map of statistics"), (r#"{"a": []}"#, "a number, a boolean or text")]
        {
            assert!(read(bad).unwrap_err().to_string().contains(expected), "{bad}");
        }
    }

    #[test]
    fn any_other_shape_is_an_error_with_the_line() {
        for bad in
            ["", "a: 1\n", "---\n&a [*a,*a]\n", "---\n  a: 1\n", "---\na: 1\na: 2\n", "---\n- x\n"]
        {
            assert!(map(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(list(b"---\n- a b\n").is_err());
        assert!(list(b"---\na: 1\n").is_err());
        assert!(map(b"---\n\xff: 1\n").is_err());
        assert_eq!(
            map(b"---\nid: 1\n&a [*a,*a]\n").unwrap_err().to_string(),
            "the stats reply has an unexpected line 3: \"&a [*a,*a]\""
        );
    }
}
