//! The value of a filter, parsed according to its field's kind.

use std::borrow::Cow;
use std::time::Duration;

use regex_lite::{Regex, RegexBuilder};

use super::{Field, Kind, Value};
use crate::rules::comparison::Operator;
use crate::text::{escape, units};

/// Maximum size of a compiled regular expression.
const REGEX_MEMORY: usize = 1 << 20;

/// A comparison with a value.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Whole(Operator, u64),
    Time(Operator, Duration),
    Text(Operator, Vec<u8>),
    Free(Operator, String, Option<f64>),
    /// Whether a match is wanted.
    Regex(bool, Regex),
}

/// Why the comparison is invalid.
#[derive(Debug)]
pub(super) struct Why {
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl From<String> for Why {
    fn from(what: String) -> Self {
        Self { what, hint: None }
    }
}

impl Test {
    pub(super) fn new(field: &Field, operator: Operator, value: &str) -> Result<Self, Why> {
        let is_text = matches!(field.kind, Kind::Text | Kind::Word(_) | Kind::Free);
        if let Operator::Matches | Operator::MatchesNot = operator {
            if !is_text {
                return Err(unfit(field, "a number"));
            }
            return Ok(Self::Regex(operator == Operator::Matches, regex(value)?));
        }
        let is_ordered = !matches!(operator, Operator::Equal | Operator::Different);
        if is_ordered && matches!(field.kind, Kind::Text | Kind::Word(_)) {
            return Err(unfit(field, "a text"));
        }
        Ok(match field.kind {
            Kind::Whole => {
                let whole = value.parse().map_err(|_| {
                    format!("`{}` is not a non-negative whole number", escape::line(value))
                })?;
                Self::Whole(operator, whole)
            }
            Kind::Size => Self::Whole(operator, units::size(value).map_err(escaped)?),
            Kind::Time => Self::Time(operator, units::duration(value).map_err(escaped)?),
            Kind::Text => Self::Text(operator, unquoted(value)?.into_bytes()),
            Kind::Word(words) => {
                let word = unquoted(value)?;
                if !words.contains(&word.as_str()) {
                    let (name, word) = (field.name, escape::line(&word).into_owned());
                    return Err(Why {
                        what: format!("`{word}` is not a valid {name}"),
                        hint: Some(format!("the {name} is one of {}", words.join(", "))),
                    });
                }
                Self::Text(operator, word.into_bytes())
            }
            Kind::Free => {
                let number = if value.starts_with('"') { None } else { number(value.as_bytes()) };
                Self::Free(operator, unquoted(value)?, number)
            }
        })
    }

    /// The lowest and the highest whole number that holds.
    pub(super) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let Self::Whole(operator, wanted) = *self else { return (None, None) };
        match operator {
            Operator::Equal => (Some(wanted), Some(wanted)),
            Operator::Less => (None, Some(wanted.saturating_sub(1))),
            Operator::LessOrEqual => (None, Some(wanted)),
            Operator::Greater => (Some(wanted.saturating_add(1)), None),
            Operator::GreaterOrEqual => (Some(wanted), None),
            Operator::Different | Operator::Matches | Operator::MatchesNot => (None, None),
        }
    }

    pub(super) fn holds(&self, value: Option<Value<'_>>) -> bool {
        match (self, value) {
            (Self::Whole(operator, wanted), Some(Value::Whole(whole))) => {
                operator.accepts(whole.cmp(wanted))
            }
            (Self::Time(operator, wanted), Some(Value::Time(time))) => {
                operator.accepts(time.cmp(wanted))
            }
            (Self::Text(operator, wanted), Some(Value::Text(text))) => {
                operator.accepts(text.as_ref().cmp(wanted))
            }
            (Self::Free(operator, wanted, wanted_number), Some(Value::Text(text))) => {
                let numbers = wanted_number.zip(number(&text));
                let order = numbers.and_then(|(wanted, number)| number.partial_cmp(&wanted));
                operator.accepts(order.unwrap_or_else(|| text.as_ref().cmp(wanted.as_bytes())))
            }
            (Self::Regex(wanted, regex), Some(Value::Text(text))) => {
                regex.is_match(&as_text(&text)) == *wanted
            }
            (Self::Whole(operator, _), _)
            | (Self::Time(operator, _), _)
            | (Self::Text(operator, _), _)
            | (Self::Free(operator, ..), _) => *operator == Operator::Different,
            (Self::Regex(wanted, _), _) => !wanted,
        }
    }
}

fn unfit(field: &Field, what: &str) -> Why {
    let (name, operators) = (field.name, field.kind.operators().join(" "));
    let what = format!("`{name}` is {what}, which does not support that operator");
    Why { what, hint: Some(format!("the operators for `{name}` are {operators}")) }
}

fn escaped(why: String) -> Why {
    escape::line(&why).into_owned().into()
}

/// A literal value, or one in double quotes with the escapes of JSON.
fn unquoted(value: &str) -> Result<String, Why> {
    if !value.starts_with('"') {
        return Ok(value.to_owned());
    }
    serde_json::from_str(value).map_err(|_| Why {
        what: format!("{} is not a quoted string", escape::line(value)),
        hint: Some("use JSON quoting and escapes: \"a b\", \"\\n\", \"\\u00e9\"".to_owned()),
    })
}

/// What is not UTF-8 is matched byte by byte: `\xff` is the byte ff.
fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

fn number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

fn regex(text: &str) -> Result<Regex, Why> {
    RegexBuilder::new(text).size_limit(REGEX_MEMORY).build().map_err(|error| {
        let why = error.to_string();
        Why {
            what: format!("its regular expression is not valid: {}", escape::line(&why)),
            hint: Some("\\ escapes a character, as in \\( or \\.".to_owned()),
        }
    })
}
