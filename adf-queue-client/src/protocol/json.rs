//! JSON text in the server's format.

use std::{borrow::Cow, fmt};

use bytes::{BufMut, BytesMut};
use queue_core::excerpt;
use serde_core::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap as _,
};

use super::{Action, Delivered, Refusal, Response, Success, request::RequestFields, response::OK};
use crate::{Error, RequestId, Result};

/// A request, and its body as text.
struct Text<'a>(&'a RequestFields<'a>, &'a str);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Text(asked, body) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("action", asked.action.name())?;
        map.serialize_entry("requestid", asked.id)?;
        map.serialize_entry("queue", asked.queue)?;
        if asked.action.is_push() {
            map.serialize_entry("body", body)?;
        }
        map.end()
    }
}

/// Fields that do not belong to an action, or to a failure, may be absent.
#[derive(Default)]
struct JsonAnswer<'a> {
    action: Cow<'a, str>,
    requestid: Cow<'a, str>,
    queue: Cow<'a, str>,
    result: Cow<'a, str>,
    messageid: Option<u64>,
    count: Option<u32>,
    duplications: Option<u16>,
    body: Option<String>,
}

impl<'de> Deserialize<'de> for JsonAnswer<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnswerVisitor)
    }
}

struct AnswerVisitor;

/// Fields that every answer has.
const FIELDS: [&str; 4] = ["action", "requestid", "queue", "result"];

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = JsonAnswer<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<JsonAnswer<'de>, M::Error> {
        let (mut answer, mut texts) = (JsonAnswer::default(), [const { None }; FIELDS.len()]);
        while let Some(Words(key)) = map.next_key()? {
            if let Some((field, text)) =
                FIELDS.iter().zip(&mut texts).find(|(known, _)| **known == key)
            {
                let Words(words) = map.next_value()?;
                if text.replace(words).is_some() {
                    return Err(M::Error::duplicate_field(field));
                }
                continue;
            }
            match &*key {
                "messageid" => answer.messageid = map.next_value()?,
                "count" => answer.count = map.next_value()?,
                "duplications" => answer.duplications = map.next_value()?,
                "body" => answer.body = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if let Some((field, _)) = FIELDS.iter().zip(&texts).find(|(_, text)| text.is_none()) {
            return Err(M::Error::missing_field(field));
        }
        [answer.action, answer.requestid, answer.queue, answer.result] =
            texts.map(Option::unwrap_or_default);
        Ok(answer)
    }
}

/// Text that is borrowed if it holds no escapes.
struct Words<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Words<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, words: &'de str) -> Result<Words<'de>, E> {
        Ok(Words(words.into()))
    }

    fn visit_str<E>(self, words: &str) -> Result<Words<'de>, E> {
        Ok(Words(words.to_owned().into()))
    }
}

pub(super) fn encode(asked: &RequestFields<'_>, frame: &mut BytesMut) -> Result<()> {
    let text = Text(asked, text(asked.body)?);
    let start = frame.len();
    // Characters beyond the basic plane stay UTF-8: the server closes the connection at an escaped surrogate.
    serde_json::to_writer(frame.writer(), &text).map_err(|error| {
        frame.truncate(start);
        Error::invalid("the request cannot be written as JSON").with_source(error)
    })
}

/// Whether text can carry it unchanged.
pub(super) fn check(asked: &RequestFields<'_>) -> Result<()> {
    text(asked.body).map(drop)
}

/// The body of a push as text. Other bytes would arrive with replacement characters.
pub(super) fn text(body: &[u8]) -> Result<&str> {
    std::str::from_utf8(body).map_err(|error| {
        Error::invalid(format!(
            "body is not UTF-8 at byte {}: JSON carries text only (use a binary transport)",
            error.valid_up_to()
        ))
    })
}

pub(super) fn decode(frame: &[u8]) -> Result<Response> {
    let bad = |why: Option<serde_json::Error>| {
        let error = Error::protocol("the text is not a reply of the protocol");
        let shown = excerpt(frame);
        error.with_detail(why.map_or(shown.clone(), |why| format!("{shown}: {why}")))
    };
    let valid = repaired(frame);
    let mut answered: JsonAnswer<'_> =
        serde_json::from_slice(&valid).map_err(|why| bad(Some(why)))?;
    let action = Action::from_name(&answered.action).ok_or_else(|| bad(None))?;
    let id = RequestId::checked(&answered.requestid).ok_or_else(|| bad(None))?;
    let outcome = match &*answered.result {
        OK => Ok(success(action, &mut answered).ok_or_else(|| bad(None))?),
        refusal => Err(Refusal::of(refusal)),
    };
    Ok(Response { action, id, queue: answered.queue.into_owned().into(), outcome })
}

fn success(action: Action, answered: &mut JsonAnswer<'_>) -> Option<Success> {
    Some(match action {
        Action::Lpush | Action::Rpush => Success::Pushed(answered.messageid?.into()),
        Action::Clear | Action::Count => Success::Counted(answered.count?),
        Action::Pull => Success::Delivered(Delivered {
            message_id: answered.messageid?.into(),
            duplications: answered.duplications?,
            body: answered.body.take()?.into(),
        }),
        Action::Delete
        | Action::Lcancel
        | Action::Rcancel
        | Action::CreateQueue
        | Action::DeleteQueue => Success::Done,
    })
}

/// The server does not escape most control characters in names and bodies, which is invalid JSON. It sends no white
/// space between tokens, so each of them is within a string.
pub(super) fn repaired(frame: &[u8]) -> Cow<'_, [u8]> {
    if frame.iter().all(|byte| *byte >= b' ') {
        return frame.into();
    }
    let mut valid = Vec::with_capacity(frame.len() + 64);
    for byte in frame {
        match byte {
            0..b' ' => valid.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => valid.push(*byte),
        }
    }
    valid.into()
}
