//! Requests, answers and their two encodings. No sockets, clocks or locks.
//!
//! ```
//! use adf_queue_client::{MessageId, protocol::{Encoding, Request, Success}};
//!
//! let push = Request::rpush("1".parse()?, "/q".parse()?, "hi");
//! let mut frame = bytes::BytesMut::new();
//! Encoding::Binary.encode(&push, &mut frame)?;
//! assert_eq!(&frame[..], b"\x02\0\x011\0\x02/q\0\x02hi");
//!
//! let answer = Encoding::Binary.decode(b"\x02\0\x011\0\x02/q\0\x02ok\0\0\0\0\0\0\0\x01"[..].into())?;
//! assert!(answer.answers(&push));
//! assert_eq!(answer.outcome?, Success::Pushed(MessageId::from(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod action;
#[doc(hidden)]
pub mod between;
mod binary;
pub(crate) mod client;
mod frame;
mod head;
#[doc(hidden)]
pub mod http;
mod json;
pub(crate) mod producer;
#[cfg(test)]
mod producer_tests;
mod refusal;
mod request;
mod response;
pub(crate) mod session;
mod status_page;
#[cfg(test)]
mod vector_tests;
#[doc(hidden)]
pub mod websocket;
pub(crate) mod worker;

use bytes::{Bytes, BytesMut};

pub(crate) use self::request::RequestFields;
pub use self::{
    action::Action,
    refusal::Refusal,
    request::Request,
    response::{Delivered, Response, Success},
    status_page::{QueueStats, Stats},
};
use crate::Result;

/// Checks that a host can be sent in a request's head.
///
/// # Errors
///
/// `InvalidInput` when the server would not read it.
pub(crate) fn check_host(host: &str) -> Result<()> {
    let line = head::host_line(host)?;
    head::write(&[&line], &mut BytesMut::new())
}

/// The encoding of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Any body of up to 65,535 bytes; ASCII names. One message in each WebSocket binary frame, or HTTP body of `.bin`.
    Binary,
    /// Text of any length. One message in each WebSocket text frame, or HTTP body of `.json`.
    Json,
}

impl Encoding {
    /// Appends a request to `frame`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what this encoding cannot carry unchanged; `frame` is unchanged then.
    pub fn encode(self, request: &Request, frame: &mut BytesMut) -> Result<()> {
        self.check(&request.asked())?;
        self.write(&request.asked(), frame)
    }

    /// Appends a request that was [checked](Self::check).
    fn write(self, asked: &RequestFields<'_>, frame: &mut BytesMut) -> Result<()> {
        match self {
            Encoding::Binary => binary::write(asked, frame),
            Encoding::Json => json::encode(asked, frame)?,
        }
        Ok(())
    }

    /// Whether it can be carried unchanged.
    pub(crate) fn check(self, asked: &RequestFields<'_>) -> Result<()> {
        match self {
            Encoding::Binary => binary::check(asked),
            Encoding::Json => json::check(asked),
        }
    }

    /// Decodes a whole answer. The body of a message pulled in binary is a slice of `frame`, not a copy.
    ///
    /// # Errors
    ///
    /// `Protocol` for bytes that are not an answer.
    pub fn decode(self, frame: Bytes) -> Result<Response> {
        match self {
            Encoding::Binary => binary::decode(frame),
            Encoding::Json => json::decode(&frame),
        }
    }
}
