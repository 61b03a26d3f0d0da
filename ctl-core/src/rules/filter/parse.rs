//! Splits a filter into its parts.

use super::Operator;

/// Name, operator and value, verbatim.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The dot-separated parts of the name.
    pub(super) name: Vec<String>,
    pub(super) operator: Operator,
    pub(super) value: String,
}

/// The operators; of those with the same beginning, the longest comes first. `~=` and `=~` are both accepted, because
/// languages differ; a value that begins with `~` therefore needs quotes after `=`.
pub(super) const SIGNS: [(&str, Operator); 11] = [
    ("!~=", Operator::MatchesNot),
    ("!~", Operator::MatchesNot),
    ("!=", Operator::Different),
    ("~=", Operator::Matches),
    ("=~", Operator::Matches),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    ("<=", Operator::LessOrEqual),
    ("<", Operator::Less),
    (">=", Operator::GreaterOrEqual),
    (">", Operator::Greater),
];

impl Parsed {
    /// `None` if it is not `FIELD OP VALUE`.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut name = vec![String::new()];
        let mut rest = text.trim_start();
        loop {
            if let Some((sign, operator)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
                let value = rest.get(sign.len()..)?.trim();
                let is_whole = name.iter().all(|part| !part.is_empty()) && !value.is_empty();
                return is_whole.then(|| Self {
                    name,
                    operator: *operator,
                    value: value.to_owned(),
                });
            }
            let mut chars = rest.chars();
            let part = name.last_mut()?;
            match chars.next()? {
                '\\' => part.push(chars.next()?),
                '.' => name.push(String::new()),
                // A blank ends the name.
                ' ' | '\t' => {
                    let is_end =
                        SIGNS.iter().any(|(sign, _)| chars.as_str().trim_start().starts_with(sign));
                    if !is_end {
                        return None;
                    }
                    rest = chars.as_str().trim_start();
                    continue;
                }
                other => part.push(other),
            }
            rest = chars.as_str();
        }
    }
}
