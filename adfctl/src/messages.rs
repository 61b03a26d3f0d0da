//! Message records: what `pull`, `pop` and `export` write, and what `push` and `import` read.

use adf_queue_client::{Delivery, QueueName, Transport};
use ctl_core::envelope::{self, ENVELOPE, Formats};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::records::{self, Body};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::rules::filter::{Field, Fields, Kind, Value};
use serde::Deserialize;

use crate::names;

/// Messages that were pulled, body in full.
pub static BODIES: Shape = Shape::blocks(
    "messageid",
    &[
        Column::new("messageid", "ID"),
        Column::new("queue", "QUEUE"),
        Column::on_request("duplications", "DUPLICATIONS"),
        Column::on_request("requestid", "REQUEST ID"),
        Column::new("body", "BODY"),
    ],
);

/// The help of `--filter`.
pub const FILTER: &str = "Keep only items that match, e.g. 'size>1k', 'duplications>=2' or 'body~=REGEX'; \
                          repeated filters must all match";

/// The text of `help filters`.
pub(crate) const FILTERS: &str = "\
Filters: KEY OP VALUE with id, queue, duplications, size, body and, for decoded bodies, envelope.class,
envelope.attempts, envelope.arguments.NAME, ..; == != < <= > >=, and ~= !~ with a regular expression. Sizes as 64k.";

/// A message as filters see it.
pub struct Candidate<'a>(pub &'a Delivery, pub &'a Formats);

impl Fields for Candidate<'_> {
    const NOUN: &'static str = "message";

    const FIELDS: &'static [Field] = &[
        Field::new("id", Kind::Whole),
        Field::new("queue", Kind::Text),
        Field::new("duplications", Kind::Whole),
        Field::new("size", Kind::Size),
        Field::new("body", Kind::Text),
        envelope::FIELD,
    ];

    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>> {
        Some(match field {
            "id" => Value::Whole(self.0.message_id().get()),
            "queue" => Value::text(self.0.queue().as_str()),
            "duplications" => Value::Whole(self.0.duplications().into()),
            "size" => Value::size(self.0.body()),
            "body" => Value::text(self.0.body()),
            ENVELOPE => return self.1.value(self.0.body(), beneath),
            _ => return None,
        })
    }
}

/// The version of the record that [`record`] writes.
const VERSION: u64 = 1;

/// A message's record with its body.
pub fn record(message: &Delivery) -> Record {
    head(message).with_body(message.body().to_vec())
}

/// The same with the id of its pull, by which it is settled later.
pub fn record_with_request(message: &Delivery) -> Record {
    head(message)
        .with("requestid", message.request_id().as_str())
        .with_body(message.body().to_vec())
}

fn head(message: &Delivery) -> Record {
    Record::new()
        .with("v", VERSION)
        .with("messageid", message.message_id().get())
        .with("queue", message.queue().as_str())
        .with("duplications", message.duplications())
}

/// How messages to people refer to it.
pub fn label(message: &Delivery) -> String {
    format!("message {} of {}", message.message_id(), message.queue())
}

/// Refuses to keep a body that may not be what was pushed: over JSON the server replaces bytes that are not UTF-8.
///
/// # Errors
/// It may have had such bytes: exit 65.
pub fn check_whole(message: &Delivery, transport: Transport) -> Result<(), CliError> {
    let is_json = matches!(transport, Transport::WsJson | Transport::HttpJson);
    let replaced = char::REPLACEMENT_CHARACTER.to_string();
    let mut windows = message.body().windows(replaced.len());
    if !is_json || !windows.any(|bytes| bytes == replaced.as_bytes()) {
        return Ok(());
    }
    let why = "its body has U+FFFD, which over JSON replaces bytes that are not UTF-8";
    Err(CliError::new(Exit::BadData, "NOT_WHOLE", why)
        .hint("an address without json, which carries every byte"))
}

#[derive(Deserialize)]
struct Wire {
    v: Option<u64>,
    queue: Option<String>,
    #[serde(flatten)]
    body: Body,
}

/// Reads one line of NDJSON: the queue that the message was in, and its body. The server numbers messages itself and
/// counts their deliveries, so these fields of a record are ignored.
///
/// # Errors
/// The problem of the record: exit 65.
pub fn parse(line: &[u8]) -> Result<(Option<QueueName>, Vec<u8>), CliError> {
    let wire: Wire = records::parse(line, ("message", VERSION), |wire: &Wire| wire.v)?;
    let queue = wire.queue.as_deref().map(names::queue).transpose()?;
    Ok((queue, wire.body.bytes("message")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let line = br#"{"v":1,"messageid":7,"queue":"/q","duplications":2,"more":[],"body_base64":"/w=="}"#;
        let queue = Some(names::queue("/q").unwrap());
        assert_eq!(parse(line).unwrap(), (queue, vec![255]));
        assert_eq!(parse(br#"{"body":""}"#).unwrap().1, b"");
    }

    #[test]
    fn bad_records_name_the_problem() {
        for (line, why) in [
            (&br#"{"#[..], "not a message record"),
            (br#"{"v":2,"body":""}"#, "version 2"),
            (br#"{"queue":"/q"}"#, "message record without `body`"),
            (br#"{"body":"x","body_hex":"00"}"#, "more than one body"),
            (br#"{"body":"x","queue":""}"#, "queue name"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit.code(), 65);
            assert!(error.message.contains(why), "{error}");
        }
    }
}
