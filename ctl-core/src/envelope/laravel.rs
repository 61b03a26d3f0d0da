//! Laravel and Lumen: JSON around a command in PHP's serialization, which may be encrypted, or around plain data.

use serde_json::{Map, Value};

use super::found::{Envelope, Why, id, text};
use super::{json, php};
use crate::text::encoding::from_base64;

/// What precedes the `@` when a command is to be handled.
const HANDLER: &str = "Illuminate\\Queue\\CallQueuedHandler@call";
/// Members of the payload that control how the job is run.
const PAYLOAD: [&str; 8] = [
    "maxTries",
    "maxExceptions",
    "failOnTimeout",
    "backoff",
    "timeout",
    "retryUntil",
    "delay",
    "createdAt",
];
/// Properties that the payload repeats.
const REPEATED: [&str; 6] =
    ["tries", "maxExceptions", "failOnTimeout", "backoff", "timeout", "retryUntil"];
/// Properties of every queueable command.
const FRAMEWORK: [&str; 12] = [
    "job",
    "connection",
    "delay",
    "afterCommit",
    "middleware",
    "chained",
    "chainConnection",
    "chainQueue",
    "chainCatchCallbacks",
    "messageGroup",
    "deduplicator",
    "batchId",
];

pub(super) fn read(body: &[u8]) -> Result<Envelope, Why> {
    from_json(&json::parse(body)?)
}

pub(super) fn from_json(value: &Value) -> Result<Envelope, Why> {
    let (Some(job), Some(data)) = (text(value, "job"), value.get("data")) else {
        return Err(Why::Foreign);
    };
    let command_name = text(data, "commandName");
    let shown = text(value, "displayName").or_else(|| command_name.clone());
    let mut found = Envelope {
        class: Some(shown.unwrap_or_else(|| job.clone())),
        id: id(value, "uuid").or_else(|| id(value, "id")),
        attempts: value.get("attempts").and_then(Value::as_u64),
        ..Envelope::of("laravel")
    };
    for key in PAYLOAD {
        found.with_option(key, value.get(key));
    }
    let is_command = job == HANDLER;
    if !is_command && found.class.as_ref() != Some(&job) {
        found.options.insert("handler".to_owned(), job.into());
    }
    // Other jobs have data of their own, in which `command` means what they like.
    match text(data, "command").filter(|_| is_command) {
        Some(command) => read_command(&command, command_name, &mut found),
        None => found.arguments = Some(data.clone()),
    }
    Ok(found)
}

/// Whether this is the output of Laravel's encrypter: base64 of JSON with the initialization vector, the value and its
/// authentication.
fn is_encrypted(command: &str) -> bool {
    let Ok(decoded) = from_base64(command) else { return false };
    let Ok(parts) = json::parse(&decoded) else { return false };
    ["iv", "value", "mac"].into_iter().all(|part| parts.get(part).is_some_and(Value::is_string))
}

fn read_command(command: &str, name: Option<String>, found: &mut Envelope) {
    if !php::looks_like(command.as_bytes()) {
        let is_encrypted = is_encrypted(command);
        found.why = Some(if is_encrypted { Why::Encrypted } else { Why::Malformed });
        return;
    }
    let mut properties = match php::read(command.as_bytes()) {
        Ok(Value::Object(properties)) => properties,
        Ok(_) => return found.why = Some(Why::Malformed),
        Err(why) => return found.why = Some(why),
    };
    let class = properties.shift_remove(php::CLASS);
    if name.as_ref().is_some_and(|name| found.class.as_ref() != Some(name)) {
        // The display name may be that of a listener, for example, which this command calls.
        found.with_option("command", class.as_ref());
    }
    found.queue =
        properties.shift_remove("queue").and_then(|queue| queue.as_str().map(str::to_owned));
    // Including null ones, since commands have all of them.
    for key in FRAMEWORK {
        if let Some(value) = properties.shift_remove(key) {
            found.with_option(key, Some(&value));
        }
    }
    properties.retain(|key, _| !REPEATED.contains(&key.as_str()));
    found.arguments = Some(properties).filter(|all: &Map<_, _>| !all.is_empty()).map(Value::Object);
}
