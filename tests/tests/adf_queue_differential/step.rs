//! Steps on a server, and their format in a file.

use std::{fmt, str::FromStr};

use fixtures::transcript::{quote, unquote};

/// Connections of WebSocket, each with what it is opened for. The last one is on a path that nothing listens to.
pub(crate) const PATHS: [&str; 5] =
    ["/queue/bin", "/queue/bin?x=1", "/queue/json", "/queue/json", "/nowhere"];

/// What stands in every name that belongs to a run. A server with other users is sent something of the same length.
pub(crate) const RUN: &str = "the-queue-of-run";

/// The queue that exists from the start and is never deleted.
pub(crate) const KEPT: &str = "h";

/// A queue's name on the wire.
pub(crate) fn queue(name: &str) -> String {
    format!("/{RUN}{name}")
}

/// A frame that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) is_last: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(opcode: u8, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { is_last: true, opcode, payload: payload.into() }
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both directions at once.
    Close,
    /// The sending side ends, and the server is left to close.
    HalfClose,
    Reset,
}

const ENDINGS: [(&str, Ending); 3] =
    [("close", Ending::Close), ("half-close", Ending::HalfClose), ("reset", Ending::Reset)];

/// One thing done to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Opens a WebSocket connection, instead of the one that was there.
    Open(usize),
    /// Frames in one write.
    Send(usize, Vec<Frame>),
    End(usize, Ending),
    /// A request over HTTP, on the connection of the one before if that is still open, or on one of its own.
    Request {
        is_another: bool,
        bytes: Vec<u8>,
    },
    /// Closes the connections of all requests that are not answered yet.
    GiveUp,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Open(connection) => write!(f, "{connection}! open"),
            Step::Send(connection, frames) => {
                for (place, frame) in frames.iter().enumerate() {
                    let sign = if place == 0 { ">" } else { "\n+" };
                    let more = if frame.is_last { "" } else { "-" };
                    let (opcode, payload) = (frame.opcode, quote(&frame.payload));
                    write!(f, "{sign}")?;
                    write!(f, " {connection} {opcode:x}{more} {payload}")?;
                }
                Ok(())
            }
            Step::End(connection, ending) => {
                let name = ENDINGS.iter().find(|(_, other)| other == ending).map(|(name, _)| name);
                write!(f, "{connection}! {}", name.ok_or(fmt::Error)?)
            }
            Step::Request { is_another, bytes } => {
                write!(f, "{} {}", if *is_another { "again>" } else { "http>" }, quote(bytes))
            }
            Step::GiveUp => f.write_str("http! give up"),
        }
    }
}

/// A line that continues the step before it.
pub(crate) fn continuation(line: &str) -> Option<Result<Frame, String>> {
    line.strip_prefix("+ ").map(|line| Ok(frame(line)?.1))
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Step, String> {
        if let Some(line) = line.strip_prefix("> ") {
            let (connection, frame) = frame(line)?;
            return Ok(Step::Send(connection, vec![frame]));
        }
        for (sign, is_another) in [("http> ", false), ("again> ", true)] {
            if let Some(text) = line.strip_prefix(sign) {
                return Ok(Step::Request { is_another, bytes: unquote(text)? });
            }
        }
        let (connection, what) = line.split_once("! ").ok_or_else(|| format!("no step: {line}"))?;
        if (connection, what) == ("http", "give up") {
            return Ok(Step::GiveUp);
        }
        let connection = number(connection)?;
        let ending = ENDINGS.iter().find(|(name, _)| *name == what);
        match ending {
            Some((_, ending)) => Ok(Step::End(connection, *ending)),
            None if what == "open" => Ok(Step::Open(connection)),
            None => Err(format!("no step: {line}")),
        }
    }
}

fn frame(line: &str) -> Result<(usize, Frame), String> {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().ok_or_else(|| format!("no frame: {line}"));
    let (connection, opcode, payload) = (number(word()?)?, word()?, unquote(word()?)?);
    let is_last = !opcode.ends_with('-');
    let opcode = u8::from_str_radix(opcode.trim_end_matches('-'), 16);
    let opcode = opcode.map_err(|_| format!("no opcode: {line}"))?;
    Ok((connection, Frame { is_last, opcode, payload }))
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number < PATHS.len());
    number.ok_or_else(|| format!("no connection: {text}"))
}
