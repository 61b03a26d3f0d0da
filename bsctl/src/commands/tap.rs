//! `tap`: shows what applications and beanstalkd send each other.

use beanstalk_client::protocol::Response;
use ctl_core::commands::tap::{Decoder, Look, Role, Said, Side};
use fixtures::beanstalkd::Version;
use fixtures::beanstalkd::command::{self, Command};

/// The end of `tap --help`.
pub const HELP: &str = "\
Protocol: any command.
A relay: applications connect to it instead of the server, and it prints a line for each command and each reply: time,
connection, sender, body size and, for replies, the server's response time, counted from the last byte of the command,
and (-o wide) which command it answers. No byte is changed or held back; closes and resets are passed on. Lines that
cannot be written fast enough are dropped and counted. The summary at the end goes to stderr.
--decode decodes bodies of up to 4 KiB, whatever --body says.
FILTER tests a line: verb==put, size>1k, took>50ms, connection==3 or body~=REGEX; also from, to, args and error.

Examples:
  bsctl tap --listen 127.0.0.1:11301 --to 127.0.0.1:11300
  bsctl tap --slow 50ms -o ndjson
  bsctl tap --listen :11301 --filter 'verb==put' --filter 'size>65535' --body 200";

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
}

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
    Said { role: Role::Answers(None), ..Said::new(word).of(rest).error_if(is_error) }
}
