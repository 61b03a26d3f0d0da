//! `tap`: shows what applications and beanstalkd send each other.

use beanstalk_client::protocol::Response;
use ctl_core::commands::tap::{Decoder, Id, Look, Said, Side};
use fixtures::beanstalkd::Version;
use fixtures::beanstalkd::command::{self, Command};

/// The end of `tap --help`.
pub const HELP: &str = "\
A relay: applications connect to it instead of the server, and it prints a line for each command and each reply: time,
connection, sender, body size and, for replies, the server's response time, counted from the last byte of the command,
and (-o wide) which command it answers. No byte is changed or held back; closes and resets are passed on. Lines that
cannot be written fast enough are dropped and counted. The summary at the end goes to stderr.
--record writes a transcript with full bodies, readable by its owner only; --replay sends the client's part again and
fails where the replies differ. Job ids may differ: those that the server gives now replace the recorded ones in later
commands. So may counters and ages in statistics. With --exact, replies have to be the same byte for byte.
--decode decodes bodies of up to 4 KiB, whatever --body says.
FILTER tests a line: verb==put, size>1k, took>50ms, connection==3 or body~=REGEX; also from, to, args and error.

Examples:
  bsctl tap --listen 127.0.0.1:11301 --to 127.0.0.1:11300
  bsctl tap --slow 50ms -o ndjson
  bsctl tap --listen :11301 --filter 'verb==put' --filter 'size>65535' --body 200
  bsctl tap --record mail.txt
  bsctl --embedded tap --replay mail.txt";

/// The decoder of one connection.
#[derive(Debug, Default)]
pub struct Lines;

/// The end of a line.
const CRLF: &[u8] = b"\r\n";

impl Decoder for Lines {
    fn look(&mut self, side: Side, data: &[u8]) -> Look {
        if data.first().is_some_and(|byte| byte.is_ascii_control() && *byte != b'\r') {
            return Look::Stranger("no beanstalkd command starts like this");
        }
        let Some(line) = line(data) else { return Look::More };
        let body = match side {
            Side::Client => command_body(line),
            Side::Server => match Response::body_after(line) {
                Ok(body) => body,
                Err(_) => return Look::Stranger("no beanstalkd reply starts like this"),
            },
        };
        let body = body.map_or(0, |body| body.saturating_add(CRLF.len() as u64));
        Look::Unit(body.saturating_add((line.len() + CRLF.len()) as u64))
    }

    fn read(&mut self, side: Side, unit: &[u8], _: u64) -> Option<Said> {
        let line = line(unit).unwrap_or(unit);
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let rest = line.get(word.len() + 1..).unwrap_or_default();
        let (said, body) = match side {
            Side::Client => (asked(line, rest), command_body(line)),
            Side::Server => (answered(word, rest), Response::body_after(line).ok().flatten()),
        };
        Some(match body {
            Some(size) => {
                let body = unit.get(line.len() + CRLF.len()..).unwrap_or_default();
                said.with_body(body, size)
            }
            None => said,
        })
    }

    fn ids(&self, side: Side, unit: &[u8]) -> Vec<Id> {
        let line = line(unit).unwrap_or(unit);
        let mut words = line.split(|byte| *byte == b' ');
        let (verb, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if side == Side::Server && verb == b"OK" {
            return figures(unit, line.len() + CRLF.len());
        }
        let known: &[&str] = match side {
            Side::Client => &ABOUT_A_JOB,
            Side::Server => &WITH_A_JOB,
        };
        let has_id = known.iter().any(|word| word.as_bytes() == verb);
        if !has_id || id.is_empty() || !id.iter().all(u8::is_ascii_digit) {
            return Vec::new();
        }
        let start = verb.len() + 1;
        vec![Id { at: start..start + id.len(), space: Some(Vec::new()) }]
    }

    fn mend(&self, side: Side, unit: &mut Vec<u8>, change: i64) {
        let Some(line) = line(unit).filter(|_| side == Side::Server) else { return };
        let len = line.len();
        let size = line.strip_prefix(b"OK ").and_then(|size| std::str::from_utf8(size).ok());
        if let Some(size) = size.and_then(|size| size.parse::<i64>().ok()) {
            unit.splice(..len, format!("OK {}", size + change).into_bytes());
        }
    }
}

/// The statistics that differ each time, and the id of the job that they belong to.
fn figures(unit: &[u8], body: usize) -> Vec<Id> {
    /// The statistics that do not change.
    const FIXED: [&[u8]; 6] = [b"name", b"tube", b"state", b"pri", b"delay", b"ttr"];
    /// Length of the server's id in `stats`.
    const SERVER_ID: usize = 16;
    let mut at = body;
    let mut figures = Vec::new();
    for line in unit.get(body..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
        let start = at;
        at += line.len();
        let text = line.trim_ascii_end();
        let Some(colon) = text.windows(2).position(|two| two == b": ") else { continue };
        let key = text.get(..colon).unwrap_or_default();
        let at = start + colon + 2..start + text.len();
        if key == b"id" && at.len() < SERVER_ID {
            figures.push(Id { at, space: Some(Vec::new()) });
        } else if !FIXED.contains(&key) {
            figures.push(Id { at, space: None });
        }
    }
    figures
}

/// Commands whose first argument is a job's id.
const ABOUT_A_JOB: [&str; 8] =
    ["delete", "release", "bury", "touch", "peek", "kick-job", "reserve-job", "stats-job"];

/// Replies whose first argument is a job's id.
const WITH_A_JOB: [&str; 4] = ["INSERTED", "RESERVED", "FOUND", "BURIED"];

fn line(data: &[u8]) -> Option<&[u8]> {
    data.windows(CRLF.len()).position(|two| two == CRLF).and_then(|end| data.get(..end))
}

/// The length of the body that follows a command. A put that the server cannot parse has none: what follows is the next
/// command.
fn command_body(line: &[u8]) -> Option<u64> {
    match command::parse(line, Version::default()) {
        Ok(Command::Put(put)) if !put.trailing_garbage => Some(put.bytes.into()),
        _ => None,
    }
}

fn asked(line: &[u8], rest: &[u8]) -> Said {
    let verb = match command::parse(line, Version::default()) {
        Ok(Command::Quit) => return Said::new("quit").of(rest),
        Ok(command) => Some(command.verb()),
        Err((verb, _)) => verb,
    };
    match verb {
        Some(verb) => Said::new(verb.as_str()).of(rest).asks(""),
        None => Said::new("(unknown)").of(line).asks(""),
    }
}

/// Replies that are not refusals.
const GOOD: [&str; 13] = [
    "INSERTED",
    "USING",
    "RESERVED",
    "FOUND",
    "OK",
    "DELETED",
    "RELEASED",
    "TOUCHED",
    "BURIED",
    "WATCHING",
    "KICKED",
    "PAUSED",
    "TIMED_OUT",
];

fn answered(word: &[u8], rest: &[u8]) -> Said {
    let word = String::from_utf8_lossy(word.get(..64).unwrap_or(word)).into_owned();
    let is_error = !GOOD.contains(&word.as_str());
    Said::new(word).of(rest).error_if(is_error).answers_first()
}
