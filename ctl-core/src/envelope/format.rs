//! Formats of JSON bodies: where class, id, attempts and arguments stand in them.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use toml_edit::{Document, Item, TableLike};

use super::found::{Envelope, Why};
use crate::text::encoding::from_base64;
use crate::text::escape;

/// A format: pointers (RFC 6901) to the members of an envelope, of which the first one that leads to a value counts. A
/// pointer also leads into a text that is JSON or its base64, and `-` is the last item of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// Its value of `--decode`.
    pub(super) name: String,
    /// Pointers to what a body of this format has, each with the word for its type.
    when: Vec<(String, String)>,
    /// If there are any, the only members or items that it may have.
    only: Vec<String>,
    class: Vec<String>,
    id: Vec<String>,
    attempts: Vec<String>,
    queue: Vec<String>,
    /// Without any, the members that nothing else points to are the arguments.
    arguments: Vec<String>,
}

/// The rows of `formats.toml`.
pub(super) static BUILT_IN: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let rows = Document::parse(include_str!("formats.toml"));
    let rows = rows.iter().flat_map(|rows| rows.iter());
    rows.filter_map(|(name, row)| Format::read(name, row.as_table_like()?).ok()).collect()
});

/// The fault in a file, and its place.
pub(crate) type Wrong = (Option<usize>, String);

/// The types of values that `when` can name.
const TYPES: &str = "any, text, number, list or object";

fn is_of_type(value: &Value, word: &str) -> bool {
    match word {
        "text" => value.is_string(),
        "number" => value.is_number(),
        "list" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

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
    /// Reads a row.
    ///
    /// # Errors
    /// A key is unknown, has no such value, or `class` is missing.
    pub(crate) fn read(name: &str, row: &dyn TableLike) -> Result<Self, Wrong> {
        let mut format = Self { name: name.to_owned(), ..Self::default() };
        for (key, item) in row.iter() {
            let wrong = |what: &str| {
                let at = row.get_key_value(key).and_then(|(key, _)| key.span());
                (at.map(|at| at.start), format!("{name}.{}: {what}", escape::line(key)))
            };
            let pointers = match key {
                "when" => {
                    let what = format!("must be a table of pointers to types: {TYPES}");
                    format.when = types(item).ok_or_else(|| wrong(&what))?;
                    continue;
                }
                "only" => {
                    let what = "must be the names of members";
                    format.only = texts(item, |_| true).ok_or_else(|| wrong(what))?;
                    continue;
                }
                "class" => &mut format.class,
                "id" => &mut format.id,
                "attempts" => &mut format.attempts,
                "queue" => &mut format.queue,
                "arguments" => &mut format.arguments,
                _ => {
                    let known = "class, id, attempts, queue, arguments, when, only";
                    return Err(wrong(&format!("unknown (one of {known})")));
                }
            };
            let what = "must be a pointer such as \"/job/id\", or a list of pointers";
            *pointers = texts(item, is_pointer).ok_or_else(|| wrong(what))?;
        }
        match format.class.is_empty() {
            true => Err((None, format!("{name}: class is missing: a pointer such as \"/class\""))),
            false => Ok(format),
        }
    }

    /// The envelope of a body; `Foreign` if it names no class, or is of another format.
    pub(super) fn of(&self, body: &Value) -> Result<Envelope, Why> {
        let class = first(body, &self.class, |value| value.as_str().map(str::to_owned));
        let (Some(class), true) = (class, self.fits(body)) else { return Err(Why::Foreign) };
        let id = first(body, &self.id, |value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let attempts = first(body, &self.attempts, Value::as_u64);
        let queue = first(body, &self.queue, |value| value.as_str().map(str::to_owned));
        let arguments = first(body, &self.arguments, |value| Some(unpacked(value)));
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
        Ok(Envelope::of(&self.name)
            .with("class", Some(class.1))
            .with("id", id.map(|(_, id)| id))
            .with("attempts", attempts.map(|(_, attempts)| attempts))
            .with("queue", queue.map(|(_, queue)| queue))
            .with("arguments", arguments)
            .with("options", Some(options).filter(|options| !options.is_empty())))
    }

    fn fits(&self, body: &Value) -> bool {
        let may_have =
            |name: &str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        let has_no_others = match body {
            Value::Object(all) => all.keys().all(|name| may_have(name)),
            Value::Array(all) => (0..all.len()).all(|place| may_have(&place.to_string())),
            _ => true,
        };
        let has = |(pointer, word): &(String, String)| {
            at(body, pointer).is_some_and(|value| is_of_type(&value, word))
        };
        has_no_others && self.when.iter().all(has)
    }
}

/// A text or a list of texts, all of which are valid.
fn texts(item: &Item, is_valid: fn(&str) -> bool) -> Option<Vec<String>> {
    let one = |text: &str| Some(text.to_owned()).filter(|text| is_valid(text));
    match item.as_array() {
        Some(all) => all.iter().map(|text| one(text.as_str()?)).collect(),
        None => Some(vec![one(item.as_str()?)?]),
    }
}

fn types(item: &Item) -> Option<Vec<(String, String)>> {
    let pair = |(pointer, word): (&str, &Item)| {
        let word = word.as_str()?;
        let is_known = TYPES.split([',', ' ']).any(|known| known == word && known != "or");
        Some((pointer.to_owned(), word.to_owned())).filter(|_| is_pointer(pointer) && is_known)
    };
    item.as_table_like()?.iter().map(pair).collect()
}

fn is_pointer(text: &str) -> bool {
    text.starts_with('/')
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
fn of<'f, O>(found: &Option<(&'f str, O)>) -> &'f str {
    found.as_ref().map_or("", |(pointer, _)| pointer)
}

/// The first pointer that leads to such a value, and the value.
fn first<'f, O>(
    body: &Value,
    pointers: &'f [String],
    of: impl Fn(&Value) -> Option<O>,
) -> Option<(&'f str, O)> {
    pointers.iter().find_map(|pointer| Some((pointer.as_str(), of(&*at(body, pointer)?)?)))
}

fn at<'a>(body: &'a Value, pointer: &str) -> Option<Cow<'a, Value>> {
    pointer.split('/').skip(1).try_fold(Cow::Borrowed(body), |value, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        let value = match value.as_str() {
            Some(text) => Cow::Owned(inner(text)?),
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
    let inner = value.as_str().and_then(inner);
    inner.filter(|inner| inner.is_object() || inner.is_array()).unwrap_or_else(|| value.clone())
}

/// The value in a text of JSON, or in its base64.
fn inner(text: &str) -> Option<Value> {
    let plain = serde_json::from_str(text).ok();
    plain.or_else(|| serde_json::from_slice(&from_base64(text).ok()?).ok())
}
