//! The two shapes of beanstalkd's statistics: a list, and a flat map.
//!
//! The text looks like YAML but is not always: names are quoted by some versions only, a tube may be called `true` or
//! `1e5`, and version 1.12 prints `os: #1 SMP …`. So it is read line by line, values stay text until a number is asked
//! for, and whatever is neither of the two shapes is an error.

use std::collections::HashSet;

use crate::{Error, TubeName, error::excerpt};

/// The most lines that are read from one reply.
const MAX_LINES: usize = 1_000_000;

/// Reads `---`, then `- name` lines.
pub(crate) fn list(text: &[u8]) -> Result<Vec<TubeName>, Error> {
    lines(text)?
        .map(|(number, line)| {
            let name = line.strip_prefix("- ").ok_or_else(|| unexpected(number, line))?;
            TubeName::try_from(unquoted(name))
                .map_err(|error| unexpected(number, line).with_source(error))
        })
        .collect()
}

/// Reads `---`, then `key: value` lines, into pairs in the server's order.
pub(crate) fn map(text: &[u8]) -> Result<Vec<(String, String)>, Error> {
    let mut seen = HashSet::new();
    lines(text)?
        .map(|(number, line)| {
            let pair =
                line.split_once(": ").or_else(|| line.strip_suffix(':').map(|key| (key, "")));
            let (key, value) = pair
                .filter(|(key, _)| is_key(key) && seen.insert((*key).to_owned()))
                .ok_or_else(|| unexpected(number, line))?;
            Ok((key.to_owned(), unquoted(value).to_owned()))
        })
        .collect()
}

/// The numbered lines behind the `---`.
fn lines(text: &[u8]) -> Result<impl Iterator<Item = (usize, &str)>, Error> {
    let text = std::str::from_utf8(text)
        .map_err(|error| Error::protocol("the stats reply is not text").with_source(error))?;
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    match lines.next() {
        Some((_, "---")) => {}
        first => return Err(unexpected(1, first.map_or("", |(_, line)| line))),
    }
    if text.lines().nth(MAX_LINES).is_some() {
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
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("name", "true"), ("os", "#1 SMP: x @0"), ("empty", ""), ("bare", "")]);
    }

    #[test]
    fn anything_but_the_two_shapes_is_an_error_that_shows_the_line() {
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
