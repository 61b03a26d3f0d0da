//! Binary frames: every field without a fixed size is preceded by its length as a 16-bit big-endian number.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use queue_core::excerpt;

use super::{Action, Delivered, Refusal, Response, Success, request::RequestFields, response::OK};
use crate::{Error, MessageId, RequestId, Result};

/// Maximum length of a body, given by the width of its length field.
const MAX_BODY: usize = u16::MAX as usize;
/// The fields after the body of a delivery: duplications and message id.
const BEHIND_BODY: usize = 2 + 8;

/// Appends a request that was [checked](check).
pub(super) fn write(asked: &RequestFields<'_>, frame: &mut BytesMut) {
    let RequestFields { action, id, queue, body } = *asked;
    frame.reserve(7 + id.len() + queue.len() + body.len());
    frame.put_u8(action.code());
    put(frame, id.as_bytes());
    put(frame, queue.as_bytes());
    if action.is_push() {
        put(frame, body);
    }
}

/// Whether a frame can carry it unchanged.
pub(super) fn check(asked: &RequestFields<'_>) -> Result<()> {
    check_name(asked.queue)?;
    if asked.body.len() > MAX_BODY {
        return Err(Error::invalid(format!(
            "body of {} bytes is too long: binary frames carry up to {MAX_BODY} (use JSON, or HTTP)",
            asked.body.len()
        )));
    }
    Ok(())
}

/// The server reads each non-ASCII byte of a name as `?`.
pub(super) fn check_name(queue: &str) -> Result<()> {
    if queue.is_ascii() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "queue name {} is not ASCII: in binary the server would act on another queue (use JSON)",
        excerpt(queue.as_bytes())
    )))
}

/// Names and bodies were checked: none is longer than 65,535 bytes.
fn put(frame: &mut BytesMut, bytes: &[u8]) {
    frame.put_u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    frame.put_slice(bytes);
}

pub(super) fn decode(frame: Bytes) -> Result<Response> {
    read(&frame).ok_or_else(|| {
        Error::protocol("the frame is not a reply of the protocol").with_detail(excerpt(&frame))
    })
}

/// The parts of an answer.
struct BinaryAnswer<'a> {
    action: Action,
    id: &'a [u8],
    queue: &'a [u8],
    result: &'a [u8],
    rest: &'a [u8],
}

fn split(frame: &[u8]) -> Option<BinaryAnswer<'_>> {
    let mut rest = frame;
    Some(BinaryAnswer {
        action: Action::from_code(rest.try_get_u8().ok()?)?,
        id: field(&mut rest)?,
        queue: field(&mut rest)?,
        result: field(&mut rest)?,
        rest,
    })
}

fn read(frame: &Bytes) -> Option<Response> {
    let BinaryAnswer { action, id, queue, result, rest } = split(frame)?;
    let id = RequestId::checked(str::from_utf8(id).ok()?)?;
    let queue = frame.slice_ref(queue);
    let outcome = if result != OK.as_bytes() {
        // The server sends ASCII; anything else is kept readable.
        Err(Refusal::of(&String::from_utf8_lossy(result)))
    } else if action == Action::Pull {
        Ok(Success::Delivered(delivered(rest, frame)?))
    } else {
        Ok(without_body(action, rest)?)
    };
    Some(Response { action, id, queue, outcome })
}

/// Parses the answer to a request that has succeeded without copying, unless it carries a body: its action, its id, and
/// the outcome.
pub(super) fn success_without_body(frame: &[u8]) -> Option<(Action, &str, Success)> {
    let BinaryAnswer { action, id, result, rest, .. } = split(frame)?;
    if result != OK.as_bytes() {
        return None;
    }
    Some((action, str::from_utf8(id).ok()?, without_body(action, rest)?))
}

pub(super) fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from(rest.try_get_u16().ok()?);
    rest.split_off(..len)
}

/// The outcome of any action but a pull.
fn without_body(action: Action, mut rest: &[u8]) -> Option<Success> {
    Some(match action {
        Action::Lpush | Action::Rpush => Success::Pushed(rest.try_get_u64().ok()?.into()),
        Action::Clear | Action::Count => {
            Success::Counted(u32::try_from(rest.try_get_i32().ok()?).ok()?)
        }
        Action::Pull => return None,
        Action::Delete
        | Action::Lcancel
        | Action::Rcancel
        | Action::CreateQueue
        | Action::DeleteQueue => Success::Done,
    })
}

/// If a body was pushed over another transport and is too long for the length field, the field has the length modulo
/// 65,536, and the body is complete.
fn delivered(mut rest: &[u8], frame: &Bytes) -> Option<Delivered> {
    let stated = usize::from(rest.try_get_u16().ok()?);
    let (body, mut behind) = rest.split_at(rest.len().checked_sub(BEHIND_BODY)?);
    if body.len() % (MAX_BODY + 1) != stated {
        return None;
    }
    let duplications = behind.try_get_u16().ok()?;
    let message_id = MessageId::from(behind.try_get_u64().ok()?);
    Some(Delivered { message_id, duplications, body: frame.slice_ref(body) })
}
