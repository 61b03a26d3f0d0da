//! Conditions on a command's result, for scripts: `ready==3`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// A condition such as `ready==3`, `state!=buried`, `count>=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    key: String,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Different,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer ones first, so that `<=` is not read as `<`.
const OPERATORS: [(&str, Operator); 7] = [
    ("==", Operator::Equal),
    ("!=", Operator::Different),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("=", Operator::Equal),
];

/// Whether a condition holds, and the value found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it holds.
    pub holds: bool,
    /// The value, as text.
    pub found: String,
}

impl Condition {
    /// Reads `KEY OP VALUE`; the operators are `==` (or `=`), `!=`, `<`, `<=`, `>`, `>=`.
    ///
    /// # Errors
    /// A message with the rule and an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = OPERATORS
            .iter()
            .filter_map(|(sign, operator)| Some((text.find(sign)?, sign.len(), *operator)))
            .min_by_key(|(at, len, _)| (*at, std::cmp::Reverse(*len)));
        let invalid = || {
            format!(
                "the condition `{text}` is not valid: it must be KEY OP VALUE with one of == != < <= > >=, such as 'count==3'"
            )
        };
        let (at, len, operator) = found.ok_or_else(invalid)?;
        let key = text.get(..at).unwrap_or_default().trim();
        let value = text.get(at + len..).unwrap_or_default().trim();
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        if key.is_empty() {
            return Err(invalid());
        }
        Ok(Self { key: key.to_owned(), operator, value: value.to_owned() })
    }

    /// The key that is compared.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Looks the key up in `result` and compares. Numbers are compared as numbers, everything else as
    /// text. `count` is the length of a list; other keys of a list are those of its only element.
    ///
    /// # Errors
    /// A message that names the available keys.
    pub fn check(&self, result: &Value) -> Result<Verdict, String> {
        let found = self.look_up(result)?;
        let text = match &found {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let order = match (text.parse::<f64>(), self.value.parse::<f64>()) {
            (Ok(found), Ok(wanted)) => found.partial_cmp(&wanted),
            _ => Some(text.as_str().cmp(&self.value)),
        };
        let holds = match self.operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::Different => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        };
        Ok(Verdict { holds, found: text })
    }

    fn look_up(&self, result: &Value) -> Result<Value, String> {
        match result {
            Value::Array(items) if self.key == "count" => Ok(items.len().into()),
            Value::Array(items) => match items.as_slice() {
                [only] => self.look_up(only),
                _ => Err(format!(
                    "the result is a list of {}: only `count` can be compared",
                    items.len()
                )),
            },
            Value::Object(map) => {
                let wanted = self.key.replace('_', "-");
                if let Some(value) = map.get(&self.key).or_else(|| map.get(&wanted)) {
                    return Ok(value.clone());
                }
                // `ready` stands for `current-jobs-ready` if no other key ends like that.
                let ending = format!("-{wanted}");
                let mut fitting = map.iter().filter(|(key, _)| key.ends_with(&ending));
                match (fitting.next(), fitting.next()) {
                    (Some((_, value)), None) => Ok(value.clone()),
                    (Some((one, _)), Some((other, _))) => {
                        Err(format!("`{}` could be {one} or {other}", self.key))
                    }
                    _ => {
                        let keys: Vec<&str> = map.keys().map(String::as_str).collect();
                        Err(format!(
                            "the result has no `{}` (it has: {})",
                            self.key,
                            keys.join(", ")
                        ))
                    }
                }
            }
            _ => Err(format!("the result has no `{}`", self.key)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = OPERATORS.iter().find(|(_, o)| *o == self.operator).map_or("", |(s, _)| s);
        write!(f, "{}{sign}{}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(condition: &str, result: &Value) -> bool {
        Condition::parse(condition).unwrap().check(result).unwrap().holds
    }

    #[test]
    fn numbers_and_texts_are_compared_by_every_operator() {
        let stats = json!({"name": "mail", "current-jobs-ready": 3, "pause": 0});
        for (condition, expected) in [
            ("ready==3", true),
            ("ready=3.0", true),
            ("current-jobs-ready != 3", false),
            ("current_jobs_ready<10", true),
            ("ready<=3", true),
            ("ready>3", false),
            ("ready >= 3", true),
            ("name==mail", true),
            ("name == \"mail\"", true),
            ("name!=sms", true),
        ] {
            assert_eq!(holds(condition, &stats), expected, "{condition}");
        }
    }

    #[test]
    fn lists_have_a_count_and_their_only_element() {
        assert!(holds("count==2", &json!([{"id": 1}, {"id": 2}])));
        assert!(holds("id==1", &json!([{"id": 1}])));
        let error = Condition::parse("id==1").unwrap().check(&json!([])).unwrap_err();
        assert!(error.contains("a list of 0"), "{error}");
    }

    #[test]
    fn unknown_and_ambiguous_keys_are_explained() {
        let stats = json!({"cmd-use": 1, "a-use": 2, "b": 3});
        let check = |text| Condition::parse(text).unwrap().check(&stats).unwrap_err();
        assert!(check("use==1").contains("cmd-use or a-use"));
        assert!(check("x==1").contains("it has: cmd-use, a-use, b"));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["ready", "==3", ""] {
            assert!(Condition::parse(text).unwrap_err().contains("KEY OP VALUE"), "{text}");
        }
        assert_eq!(Condition::parse("a>=b").unwrap().to_string(), "a>=b");
    }
}
