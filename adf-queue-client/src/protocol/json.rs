//! JSON text in the server's format.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use queue_core::excerpt;
use serde::{Deserialize, Serialize};

use super::{Action, Delivered, Refusal, Response, Success, request::RequestFields, response::OK};
use crate::{Error, RequestId, Result};

#[derive(Serialize)]
struct Text<'a> {
    action: &'static str,
    requestid: &'a str,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
}

/// Fields that do not belong to an action, or to a failure, may be absent.
#[derive(Deserialize)]
struct JsonAnswer<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    requestid: Cow<'a, str>,
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    result: Cow<'a, str>,
    messageid: Option<u64>,
    count: Option<u32>,
    duplications: Option<u16>,
    body: Option<String>,
}

pub(super) fn encode(asked: &RequestFields<'_>, frame: &mut BytesMut) -> Result<()> {
    let body = text(asked.body)?;
    let asked = Text {
        action: asked.action.name(),
        requestid: asked.id,
        queue: asked.queue,
        body: asked.action.is_push().then_some(body),
    };
    let start = frame.len();
    // Characters beyond the basic plane stay UTF-8: the server closes the connection at an escaped surrogate.
    serde_json::to_writer(frame.writer(), &asked).map_err(|error| {
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
