//! `KEY OP VALUE`, which filters, thresholds, conditions of `wait` and limits of `bench` are written in: `pri<100`,
//! `ready>=1`, `p99>20%`.

use std::cmp::Ordering;

use crate::text::{escape, units};

/// Key, operator and value, verbatim.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The dot-separated parts of the key.
    pub(crate) key: Vec<String>,
    /// The operator as written, for those of the same meaning.
    pub(crate) sign: &'static str,
    pub(crate) operator: Operator,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Matches,
    MatchesNot,
}

/// The operators of numbers.
pub(crate) const OF_NUMBERS: &str = "== != < <= > >=";

/// The operators; of those with the same beginning, the longest comes first. `~=` and `=~` are both accepted, because
/// languages differ; a value that begins with `~` therefore needs quotes after `=`.
pub(crate) const SIGNS: [(&str, Operator); 11] = [
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

/// The error of a text that is not valid, and why.
pub(crate) fn invalid(what: &str, text: &str, why: &str) -> String {
    format!("the {what} `{}` is not valid: {why}", escape::line(text))
}

impl Comparison {
    /// Parses one. Blanks around key and value are ignored; in the key, a backslash makes the next character literal.
    ///
    /// # Errors
    /// What `what` is not: `KEY OP VALUE`.
    pub(crate) fn parse(what: &str, text: &str) -> Result<Self, String> {
        Self::of(text).ok_or_else(|| invalid(what, text, "it must be KEY OP VALUE"))
    }

    fn of(text: &str) -> Option<Self> {
        let mut key = vec![String::new()];
        let mut rest = text.trim_start();
        loop {
            if let Some((sign, operator)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
                let value = rest.get(sign.len()..)?.trim();
                let is_whole = key.iter().all(|part| !part.is_empty()) && !value.is_empty();
                return is_whole.then(|| Self {
                    key,
                    sign,
                    operator: *operator,
                    value: value.to_owned(),
                });
            }
            let mut chars = rest.chars();
            let part = key.last_mut()?;
            match chars.next()? {
                '\\' => part.push(chars.next()?),
                '.' => key.push(String::new()),
                // A blank ends the key.
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

impl Operator {
    /// Whether it accepts a value in this order to the one that is written.
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal | Self::Matches => order.is_eq(),
            Self::Different | Self::MatchesNot => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A finite number.
///
/// # Errors
/// A message with the value.
pub(crate) fn number(value: &str) -> Result<f64, String> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("`{}` is not a number", escape::line(value)))
}

/// A duration, in seconds.
///
/// # Errors
/// A message with the value and the rule.
pub(crate) fn seconds(value: &str) -> Result<f64, String> {
    units::duration(value)
        .map(|time| time.as_secs_f64())
        .map_err(|why| escape::line(&why).into_owned())
}
