//! Commands with undecoded replies, for lines from a user and for mixed pipelines.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    Error, JobRef, TubeName,
    error::excerpt,
    protocol::{Command, Effect, Response, ServerWait},
};

/// Any encoded command, with its [`Response`] as the reply: the element type of a mixed pipeline.
///
/// ```
/// use beanstalk_client::protocol::{AnyCommand, Delete, PeekReady};
///
/// let batch = [AnyCommand::new(&PeekReady), AnyCommand::new(&Delete::new(7))];
/// ```
#[derive(Clone, Debug)]
pub struct AnyCommand {
    name: &'static str,
    frame: Bytes,
    effect: Effect,
    wait: ServerWait,
    job: Option<JobRef>,
}

impl AnyCommand {
    /// Encodes `command`. Its own `decode` can decode the response later.
    pub fn new<C: Command>(command: &C) -> Self {
        let mut frame = BytesMut::new();
        command.encode(&mut frame);
        AnyCommand {
            name: command.name(),
            frame: frame.freeze(),
            effect: command.effect(),
            wait: command.server_wait(),
            job: command.job(),
        }
    }
}

impl Command for AnyCommand {
    type Reply = Response;
    const NAME: &'static str = "command";

    fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.frame);
    }

    fn decode(&self, response: Response) -> Result<Response, Error> {
        Ok(response)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn effect(&self) -> Effect {
        self.effect.clone()
    }

    fn server_wait(&self) -> ServerWait {
        self.wait
    }

    fn job(&self) -> Option<JobRef> {
        self.job
    }
}

/// A command line as typed by a user, with the server's raw reply.
///
/// The line is sent unchanged. `use`, `watch` and `ignore` are recognized, so that a reconnect restores them.
#[derive(Clone, Debug)]
pub struct RawCommand {
    line: Bytes,
    body: Option<Bytes>,
    effect: Effect,
    wait: ServerWait,
}

impl RawCommand {
    /// The maximum length of a line, in bytes without CRLF, that servers 1.11 and later accept.
    pub const MAX_LINE: usize = 222;

    /// A command without a body.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the line is empty, over 222 bytes, contains CR, LF or NUL, or is a `put`, which needs a
    /// body.
    pub fn new(line: impl AsRef<[u8]>) -> Result<Self, Error> {
        let line = line.as_ref();
        if line.starts_with(b"put ") {
            return Err(Error::invalid(
                "a raw put needs a body: without one the server would wait for it",
            ));
        }
        Self::build(line, None)
    }

    /// A `put` line and its body. The last number of the line must be the length of the body.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and when the announced length differs from the body's.
    pub fn with_body(line: impl AsRef<[u8]>, body: impl Into<Bytes>) -> Result<Self, Error> {
        let (line, body) = (line.as_ref(), body.into());
        let numbers = line.strip_prefix(b"put ").and_then(|rest| std::str::from_utf8(rest).ok());
        let words: Vec<&str> = numbers.unwrap_or_default().split(' ').collect();
        let length = match words.as_slice() {
            [pri, delay, ttr, bytes]
                if [pri, delay, ttr].iter().all(|n| n.parse::<u32>().is_ok()) =>
            {
                bytes.parse::<usize>().ok()
            }
            _ => None,
        };
        if length != Some(body.len()) {
            return Err(Error::invalid(format!(
                "the line {} does not fit its body: it must be put <pri> <delay> <ttr> {}",
                excerpt(line),
                body.len()
            )));
        }
        Self::build(line, Some(body))
    }

    fn build(line: &[u8], body: Option<Bytes>) -> Result<Self, Error> {
        if line.is_empty() || line.len() > Self::MAX_LINE {
            return Err(Error::invalid(format!(
                "a command line of {} bytes is not valid: it has 1 to {} bytes",
                line.len(),
                Self::MAX_LINE
            )));
        }
        if let Some(at) = line.iter().position(|byte| b"\r\n\0".contains(byte)) {
            return Err(Error::invalid(format!(
                "the command line {} is not valid: CR, LF or NUL at position {at}",
                excerpt(line)
            )));
        }
        let (effect, wait) = meaning(line, body.is_some());
        Ok(RawCommand { line: Bytes::copy_from_slice(line), body, effect, wait })
    }
}

/// How the server will interpret the line: it matches the verb as a prefix.
fn meaning(line: &[u8], has_body: bool) -> (Effect, ServerWait) {
    let tube = |verb: &[u8]| line.strip_prefix(verb).and_then(|name| TubeName::try_from(name).ok());
    let effect = if has_body {
        Effect::Put
    } else if let Some(tube) = tube(b"use ") {
        Effect::Use(tube)
    } else if let Some(tube) = tube(b"watch ") {
        Effect::Watch(tube)
    } else if let Some(tube) = tube(b"ignore ") {
        Effect::Ignore(tube)
    } else if line.starts_with(b"reserve-job") {
        Effect::ReserveJob
    } else if line.starts_with(b"reserve") {
        Effect::Reserve
    } else if line.starts_with(b"quit") {
        Effect::Quit
    } else {
        Effect::None
    };
    let wait = if effect == Effect::Reserve { ServerWait::Forever } else { ServerWait::None };
    (effect, wait)
}

impl Command for RawCommand {
    type Reply = Response;
    const NAME: &'static str = "raw command";

    fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.line);
        out.put_slice(b"\r\n");
        if let Some(body) = &self.body {
            out.put_slice(body);
            out.put_slice(b"\r\n");
        }
    }

    fn decode(&self, response: Response) -> Result<Response, Error> {
        Ok(response)
    }

    fn effect(&self) -> Effect {
        self.effect.clone()
    }

    fn server_wait(&self) -> ServerWait {
        self.wait
    }
}
