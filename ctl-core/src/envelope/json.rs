//! JSON of Backburner, of Stalker, and of other producers that use common member names.

use serde_json::{Map, Number, Value};

use super::found::{Envelope, Why, id, text};
use crate::text::encoding::base64;
use crate::text::escape;

/// Members with the name of the job's class.
const CLASS: [&str; 3] = ["class", "job", "task"];
/// Members with its arguments.
const ARGUMENTS: [&str; 5] = ["args", "arguments", "data", "payload", "params"];
const ID: [&str; 3] = ["id", "uuid", "jid"];
const ATTEMPTS: [&str; 3] = ["attempts", "retry_count", "retries"];
const QUEUE: &str = "queue";

/// Parses a body as JSON.
pub(super) fn parse(body: &[u8]) -> Result<Value, Why> {
    use serde_json::error::Category;
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Eof => Why::Truncated,
        // Fails at the first byte.
        _ if error.line() == 1 && error.column() <= 1 => Why::Foreign,
        _ => Why::Malformed,
    })
}

/// Any JSON.
pub(super) fn read(body: &[u8]) -> Result<Envelope, Why> {
    let value = parse(body)?;
    let named = of_members("json", &value);
    Ok(named.unwrap_or_else(|| Envelope { arguments: Some(value), ..Envelope::of("json") }))
}

/// Tries each of these formats.
pub(super) fn from_json(value: &Value) -> Result<Envelope, Why> {
    backburner(value)
        .or_else(|_| stalker(value))
        .or_else(|_| of_members("json", value).ok_or(Why::Foreign))
}

pub(super) fn read_backburner(body: &[u8]) -> Result<Envelope, Why> {
    backburner(&parse(body)?)
}

pub(super) fn read_stalker(body: &[u8]) -> Result<Envelope, Why> {
    stalker(&parse(body)?)
}

/// `{"class":"Newsletter","args":[7]}`
fn backburner(value: &Value) -> Result<Envelope, Why> {
    let is_one = |map: &Map<String, Value>| {
        map.get("class").is_some_and(Value::is_string)
            && map.get("args").is_some_and(Value::is_array)
            && map.keys().all(|key| ["class", "args", "ttr"].contains(&key.as_str()))
    };
    value
        .as_object()
        .filter(|map| is_one(map))
        .and_then(|_| of_members("backburner", value))
        .ok_or(Why::Foreign)
}

/// `["mail.send",{"to":"joe"}]`
fn stalker(value: &Value) -> Result<Envelope, Why> {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(name), arguments @ Value::Object(_)]) => Ok(Envelope {
            class: Some(name.clone()),
            arguments: Some(arguments.clone()),
            ..Envelope::of("stalker")
        }),
        _ => Err(Why::Foreign),
    }
}

/// An object with common members; `Foreign` if it names no class.
pub(super) fn of_members(format: &'static str, value: &Value) -> Option<Envelope> {
    let map = value.as_object()?;
    let class_key = CLASS.into_iter().find(|key| map.get(*key).is_some_and(Value::is_string))?;
    let id_key = ID.into_iter().find(|key| id(value, key).is_some());
    let attempts_key = ATTEMPTS.into_iter().find(|key| map.get(*key).is_some_and(Value::is_u64));
    let arguments_key = ARGUMENTS.into_iter().find(|key| map.contains_key(*key));
    let queue = text(value, QUEUE);
    let taken =
        [Some(class_key), id_key, attempts_key, arguments_key, queue.is_some().then_some(QUEUE)];
    let rest = map.iter().filter(|(key, _)| !taken.contains(&Some(key.as_str())));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    // Without a member for arguments, all other members are arguments.
    let (arguments, options) = match arguments_key.and_then(|key| map.get(key)) {
        Some(arguments) => (Some(arguments.clone()), rest),
        None => (Some(rest).filter(|rest| !rest.is_empty()).map(Value::Object), Map::new()),
    };
    Some(Envelope {
        class: text(value, class_key),
        id: id_key.and_then(|key| id(value, key)),
        attempts: attempts_key.and_then(|key| map.get(key)).and_then(Value::as_u64),
        queue,
        arguments,
        options,
        ..Envelope::of(format)
    })
}

/// Text unchanged, other bytes in base64.
pub(super) fn string(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => Value::Object(Map::from_iter([("$base64".to_owned(), base64(bytes).into())])),
    }
}

/// JSON has no number for these.
pub(super) fn real(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
}

/// A name from the body, distinguished from those that this tool adds.
pub(super) fn plain(name: &[u8]) -> String {
    let shown = escape::bytes_line(name);
    if shown.starts_with('$') { format!("${shown}") } else { shown }
}
