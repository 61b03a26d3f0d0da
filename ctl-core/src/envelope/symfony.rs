//! Symfony Messenger: JSON with a body and headers; the body is PHP's serialization of everything, or only of the
//! message, depending on the headers.

use serde_json::Value;

use super::found::{self, Envelope, Why, text};
use super::{json, php};
use crate::text::encoding::from_base64;

const STAMP: &str = "X-Message-Stamp-";
const REDELIVERY: &str = "Symfony\\Component\\Messenger\\Stamp\\RedeliveryStamp";
const BUS: &str = "Symfony\\Component\\Messenger\\Stamp\\BusNameStamp";
const ID: &str = "Symfony\\Component\\Messenger\\Stamp\\TransportMessageIdStamp";

pub(super) fn read(body: &[u8]) -> Result<Envelope, Why> {
    from_json(&json::parse(body)?)
}

pub(super) fn from_json(value: &Value) -> Result<Envelope, Why> {
    let (Some(body), Some(headers)) = (text(value, "body"), value.get("headers")) else {
        return Err(Why::Foreign);
    };
    match text(headers, "type") {
        Some(class) => Ok(by_headers(class, &body, headers)),
        None if headers.is_object() || headers.is_array() => by_php(&body),
        None => Err(Why::Foreign),
    }
}

/// The message as written by the serializer component, with a header for each kind of stamp.
fn by_headers(class: String, body: &str, headers: &Value) -> Envelope {
    let stamps = |name: &str| {
        let all = text(headers, &format!("{STAMP}{name}"))?;
        json::parse(all.as_bytes()).ok()
    };
    let arguments = json::parse(body.as_bytes()).unwrap_or_else(|_| body.into());
    let found =
        Envelope { class: Some(class), arguments: Some(arguments), ..Envelope::of("symfony") };
    with_stamps(found, stamps)
}

/// Everything as serialized by PHP, with slashes added, or in base64 if it is not UTF-8.
fn by_php(body: &str) -> Result<Envelope, Why> {
    let plain = match body.ends_with('}') {
        true => strip_slashes(body.as_bytes()),
        false => strip_slashes(&from_base64(body).map_err(|_| Why::Malformed)?),
    };
    let unread = |why| Envelope::unread("symfony", why);
    let envelope = match php::read(&plain) {
        Ok(envelope) => envelope,
        Err(why) => return Ok(unread(why)),
    };
    let Some(Value::Object(message)) = envelope.get("message") else {
        return Ok(unread(Why::Malformed));
    };
    let mut arguments = message.clone();
    let class = arguments.shift_remove(php::CLASS);
    let found = Envelope {
        class: class.and_then(|class| class.as_str().map(str::to_owned)),
        arguments: Some(arguments).filter(|all| !all.is_empty()).map(Value::Object),
        ..Envelope::of("symfony")
    };
    Ok(with_stamps(found, |name| envelope.get("stamps")?.get(name).cloned()))
}

fn with_stamps(mut found: Envelope, stamps: impl Fn(&str) -> Option<Value>) -> Envelope {
    let last = |name: &str| stamps(name).and_then(|all| all.as_array()?.last().cloned());
    let retries = last(REDELIVERY);
    found.attempts = retries.and_then(|stamp| stamp.get("retryCount")?.as_u64());
    found.id = last(ID).and_then(|stamp| found::id(&stamp, "id"));
    let bus = last(BUS);
    found.with_option("bus", bus.as_ref().and_then(|stamp| stamp.get("busName")));
    found
}

/// The inverse of PHP's `addslashes`.
fn strip_slashes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'0') => plain.push(0),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}
