//! What an Adf.QueueServer sends over WebSocket, once the connection is upgraded.

use adf_queue_client::protocol::{
    Encoding,
    websocket::{Frames, FrontFrame, Incoming},
};
use bytes::{Buf, BytesMut};

use super::pieces::{Cut, cuts};

/// The longest message that is read.
const MAX_MESSAGE: usize = 4096;

/// Frames, and the answers in them, are the same however the bytes are cut.
pub fn adf_frames(data: &[u8]) {
    for encoding in [Encoding::Binary, Encoding::Json] {
        let whole = outcomes(data, Cut::Whole, encoding);
        for cut in cuts(data) {
            assert_eq!(outcomes(data, cut, encoding), whole, "cut as {cut:?}");
        }
    }
}

/// What comes of these bytes, up to the first error.
fn outcomes(data: &[u8], cut: Cut, encoding: Encoding) -> Vec<String> {
    let mut frames = Frames::new(encoding, MAX_MESSAGE, 7);
    let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
    for piece in cut.pieces(data) {
        buffer.extend_from_slice(piece);
        loop {
            let frame = match frames.next(&buffer) {
                Ok(FrontFrame::Frame(frame)) => frame,
                Ok(FrontFrame::Missing(missing)) => {
                    assert!((1..=MAX_MESSAGE + 14).contains(&missing), "{missing} bytes");
                    break;
                }
                Err(error) => {
                    found.push(short(&error));
                    return found;
                }
            };
            match frames.read(&frame, buffer.copy_to_bytes(frame.len())) {
                Ok(incoming) => found.extend(incoming.map(|incoming| shown(incoming, encoding))),
                Err(error) => {
                    found.push(short(&error));
                    return found;
                }
            }
        }
    }
    found
}

/// An answer as it is read, and whatever else came.
fn shown(incoming: Incoming, encoding: Encoding) -> String {
    match incoming {
        Incoming::Message(message) => {
            assert!(message.len() <= MAX_MESSAGE, "a message of {} bytes", message.len());
            match encoding.decode(message) {
                Ok(response) => format!("{response:?}"),
                Err(error) => short(&error),
            }
        }
        other => format!("{other:?}"),
    }
}

fn short(error: &adf_queue_client::Error) -> String {
    let text = error.to_string();
    assert!(text.len() < 1024, "an error is short: {text}");
    text
}
