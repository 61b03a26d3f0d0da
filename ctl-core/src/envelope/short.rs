//! An envelope in one line, for terminals.

use serde_json::Value;

use crate::text::escape;

/// Maximum length of the line, in bytes.
const MOST: usize = 400;

/// For example `laravel App\Jobs\SendMail(to: "joe", copies: 2) attempts=1 queue=mail`. Terminal controls are not
/// escaped.
pub fn short(envelope: &Value) -> String {
    let text = |key: &str| envelope.get(key).and_then(Value::as_str);
    let mut line = text("format").unwrap_or_default().to_owned();
    if let Some(class) = text("class") {
        line.push_str(&format!(" {class}"));
    }
    match (text("class"), envelope.get("arguments")) {
        (_, None) => {}
        (Some(_), Some(arguments)) => {
            line.push_str(&format!("({})", escape::clip(&list(arguments), MOST)));
        }
        (None, Some(arguments)) => {
            line.push_str(&format!(" {}", escape::clip(&arguments.to_string(), MOST)));
        }
    }
    if let Some(attempts) = envelope.get("attempts") {
        line.push_str(&format!(" attempts={attempts}"));
    }
    for key in ["queue", "id"] {
        if let Some(value) = text(key) {
            line.push_str(&format!(" {key}={value}"));
        }
    }
    if let Some(why) = text("why") {
        line.push_str(&format!(" ({why})"));
    }
    line
}

fn list(arguments: &Value) -> String {
    match arguments {
        Value::Array(all) => all.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
        Value::Object(all) => {
            let named = all.iter().map(|(name, value)| format!("{name}: {value}"));
            named.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
