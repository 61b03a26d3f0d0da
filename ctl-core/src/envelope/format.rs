//! Formats of JSON bodies: where class, id, attempts and arguments stand in them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::found::{Envelope, Why};

/// A format: a row of pointers (RFC 6901) to the members of an envelope, of which the first one that leads to a value
/// counts. A pointer also leads into a text that is JSON, and `-` is the last item of a list.
pub(super) struct Format {
    /// Its value of `--decode`.
    pub(super) name: &'static str,
    /// Whether a body with a class and arguments is of this format.
    is_one: fn(&Value) -> bool,
    class: &'static [&'static str],
    id: &'static [&'static str],
    attempts: &'static [&'static str],
    queue: &'static [&'static str],
    /// Without any, the members that nothing else points to are the arguments.
    arguments: &'static [&'static str],
}

/// Laravel and Lumen, around a command in PHP's serialization or around plain data.
pub(super) const LARAVEL: Format = Format {
    name: "laravel",
    is_one: |body| body.get("job").is_some_and(Value::is_string) && body.get("data").is_some(),
    class: &["/displayName", "/data/commandName", "/job"],
    id: &["/uuid", "/id"],
    attempts: &["/attempts"],
    queue: &[],
    arguments: &["/data"],
};

/// Symfony Messenger with the serializer that writes JSON and headers.
pub(super) const SYMFONY: Format = Format {
    name: "symfony",
    is_one: |body| body.get("body").is_some_and(Value::is_string),
    class: &["/headers/type"],
    id: &[
        "/headers/X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\TransportMessageIdStamp/-/id",
    ],
    attempts: &[
        "/headers/X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\RedeliveryStamp/-/retryCount",
    ],
    queue: &[],
    arguments: &["/body"],
};

/// `{"class":"Newsletter","args":[7]}`
pub(super) const BACKBURNER: Format = Format {
    name: "backburner",
    is_one: |body| {
        let has_no_others = |map: &Map<String, Value>| {
            map.keys().all(|key| ["class", "args", "ttr"].contains(&key.as_str()))
        };
        body.get("args").is_some_and(Value::is_array) && body.as_object().is_some_and(has_no_others)
    },
    class: &["/class"],
    id: &[],
    attempts: &[],
    queue: &[],
    arguments: &["/args"],
};

/// `["mail.send",{"to":"joe"}]`
pub(super) const STALKER: Format = Format {
    name: "stalker",
    is_one: |body| matches!(body.as_array().map(Vec::as_slice), Some([_, Value::Object(_)])),
    class: &["/0"],
    id: &[],
    attempts: &[],
    queue: &[],
    arguments: &["/1"],
};

/// Producers that use common member names.
pub(super) const JSON: Format = Format {
    name: "json",
    is_one: Value::is_object,
    class: &["/class", "/job", "/task"],
    id: &["/id", "/uuid", "/jid"],
    attempts: &["/attempts", "/retry_count", "/retries"],
    queue: &["/queue"],
    arguments: &["/args", "/arguments", "/data", "/payload", "/params"],
};

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

impl Format {
    /// The envelope of a body; `Foreign` if it names no class, or is of another format.
    pub(super) fn of(&self, body: &Value) -> Result<Envelope, Why> {
        let class = first(body, self.class, |value| value.as_str().map(str::to_owned));
        let (Some(class), true) = (class, (self.is_one)(body)) else { return Err(Why::Foreign) };
        let id = first(body, self.id, |value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let attempts = first(body, self.attempts, Value::as_u64);
        let queue = first(body, self.queue, |value| value.as_str().map(str::to_owned));
        let arguments = first(body, self.arguments, |value| Some(unpacked(value)));
        let taken = [class.0, of(&id), of(&attempts), of(&queue), of(&arguments)];
        let taken = taken.map(|pointer| pointer.split('/').nth(1).unwrap_or_default());
        let rest = body.as_object().into_iter().flatten();
        let rest = rest.filter(|(key, _)| !taken.contains(&key.as_str()));
        let rest: Map<_, _> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        let (arguments, mut options) = match arguments {
            Some((_, arguments)) => (Some(arguments), rest),
            None => (Some(rest).filter(|rest| !rest.is_empty()).map(Value::Object), Map::new()),
        };
        options.retain(|_, value| says(value));
        Ok(Envelope {
            class: Some(class.1),
            id: id.map(|(_, id)| id),
            attempts: attempts.map(|(_, attempts)| attempts),
            queue: queue.map(|(_, queue)| queue),
            arguments,
            options,
            ..Envelope::of(self.name)
        })
    }
}

/// Whether an option is set.
fn says(option: &Value) -> bool {
    match option {
        Value::Null | Value::Bool(false) => false,
        Value::Array(all) => !all.is_empty(),
        _ => true,
    }
}

/// The pointer of what was found.
fn of<O>(found: &Option<(&'static str, O)>) -> &'static str {
    found.as_ref().map_or("", |(pointer, _)| pointer)
}

/// The first pointer that leads to such a value, and the value.
fn first<O>(
    body: &Value,
    pointers: &[&'static str],
    of: impl Fn(&Value) -> Option<O>,
) -> Option<(&'static str, O)> {
    pointers.iter().find_map(|pointer| Some((*pointer, of(&*at(body, pointer)?)?)))
}

fn at<'a>(body: &'a Value, pointer: &str) -> Option<Cow<'a, Value>> {
    pointer.split('/').skip(1).try_fold(Cow::Borrowed(body), |value, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        let value = match value.as_str() {
            Some(text) => Cow::Owned(serde_json::from_str(text).ok()?),
            None => value,
        };
        match value {
            Cow::Borrowed(value) => member(value, &name).map(Cow::Borrowed),
            Cow::Owned(value) => member(&value, &name).cloned().map(Cow::Owned),
        }
    })
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(all) if name == "-" => all.last(),
        Value::Array(all) => all.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    }
}

/// The object or list in a text; any other value as it is.
fn unpacked(value: &Value) -> Value {
    let inner = value.as_str().filter(|text| text.starts_with(['{', '[']));
    inner.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone())
}
