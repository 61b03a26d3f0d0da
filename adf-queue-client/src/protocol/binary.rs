//! Binary frames: big-endian lengths of 16 bits in front of everything that has no fixed size.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use queue_core::excerpt;

use super::{Action, Delivered, Refusal, Request, Response, Success, response::OK};
use crate::{Error, MessageId, Result};

/// The longest body, by the width of its length.
const MAX_BODY: usize = u16::MAX as usize;
/// What follows the body of a delivery: duplications and message id.
const BEHIND_BODY: usize = 2 + 8;

pub(super) fn encode(request: &Request, frame: &mut BytesMut) -> Result<()> {
    let (id, queue, body) = (request.id().as_str(), request.queue().as_str(), request.body());
    check_name(queue)?;
    if body.len() > MAX_BODY {
        return Err(Error::invalid(format!(
            "body of {} bytes is too long: binary frames carry up to {MAX_BODY} (use JSON, or HTTP)",
            body.len()
        )));
    }
    frame.reserve(7 + id.len() + queue.len() + body.len());
    frame.put_u8(request.action().code());
    put(frame, id.as_bytes());
    put(frame, queue.as_bytes());
    if request.action().is_push() {
        put(frame, body);
    }
    Ok(())
}

/// The server takes each byte of a name that is not ASCII for a `?`.
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

pub(super) fn decode(mut frame: Bytes) -> Result<Response> {
    let whole = frame.clone();
    read(&mut frame).ok_or_else(|| {
        Error::protocol("the frame is no answer of the protocol").with_source(excerpt(&whole))
    })
}

fn read(frame: &mut Bytes) -> Option<Response> {
    let action = Action::from_code(frame.try_get_u8().ok()?)?;
    let (id, queue, result) = (text(frame)?, text(frame)?, text(frame)?);
    let outcome = match &*result {
        OK => Ok(success(action, frame)?),
        refusal => Err(Refusal::of(refusal.into())),
    };
    Some(Response { action, id, queue, outcome })
}

/// The server writes ASCII; anything else is kept readable.
fn text(frame: &mut Bytes) -> Option<Box<str>> {
    let len = usize::from(frame.try_get_u16().ok()?);
    let text = (len <= frame.len()).then(|| frame.split_to(len))?;
    Some(String::from_utf8_lossy(&text).into())
}

fn success(action: Action, frame: &mut Bytes) -> Option<Success> {
    Some(match action {
        Action::Lpush | Action::Rpush => Success::Pushed(frame.try_get_u64().ok()?.into()),
        Action::Clear | Action::Count => {
            Success::Counted(u32::try_from(frame.try_get_i32().ok()?).ok()?)
        }
        Action::Pull => Success::Delivered(delivered(frame)?),
        Action::Delete
        | Action::Lcancel
        | Action::Rcancel
        | Action::CreateQueue
        | Action::DeleteQueue => Success::Done,
    })
}

/// The length of a body that was pushed otherwise, and is longer than the field can say, is given modulo 65,536; the body
/// is all there.
fn delivered(frame: &mut Bytes) -> Option<Delivered> {
    let stated = usize::from(frame.try_get_u16().ok()?);
    let len = frame.len().checked_sub(BEHIND_BODY)?;
    if len % (MAX_BODY + 1) != stated {
        return None;
    }
    let body = frame.split_to(len);
    let duplications = frame.try_get_u16().ok()?;
    let message_id = MessageId::from(frame.try_get_u64().ok()?);
    Some(Delivered { message_id, duplications, body })
}
