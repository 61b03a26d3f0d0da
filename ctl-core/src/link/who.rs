//! Finds out what is listening at an address that is not the expected server. Sends an HTTP request, to which every
//! line, packet or TLS server replies in its own way, and which none executes.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use queue_core::with_bare_zone;

use crate::error::{CliError, Exit};
use crate::program::Program;
use crate::text::escape;

/// A server of an unexpected kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// What it is, such as `an HTTP server`.
    what: &'static str,
    /// Its reply, if that is informative.
    said: Option<String>,
    /// How to use it properly.
    next: Option<&'static str>,
}

/// Maximum time for finding out.
const PATIENCE: Duration = Duration::from_millis(800);

/// Maximum bytes to read of a reply.
const ENOUGH: usize = 4096;

/// Maximum bytes to show of a reply.
const SHOWN: usize = 80;

/// How each kind of server replies: the beginning, what it is, and how to use it.
const KINDS: &[(&[u8], &str, Option<&str>)] = &[
    (b"UNKNOWN_COMMAND\r\n", "beanstalkd", Some("bsctl, for a beanstalkd")),
    (b"ERR UNKNOWN_COMMAND", "gearmand", Some("gearctl, for a gearmand")),
    (b"ERR unknown_command", "gearmand", Some("gearctl, for a gearmand")),
    (b"HTTP/", HTTP, None),
    (b"SSH-", "an SSH server", None),
    // An alert, or the start of a handshake.
    (b"\x15\x03", TLS, Some("--tls, for a server that wants TLS")),
    (b"\x16\x03", TLS, Some("--tls, for a server that wants TLS")),
    (b"-ERR", "a Redis server", None),
    (b"220 ", "a mail or FTP server", None),
];

const HTTP: &str = "an HTTP server";
const TLS: &str = "a server that wants TLS";

/// Part of the status page of an Adf.QueueServer.
const ADF: &str = "Adf.QueueServer";

/// Adds an explanation to a failure of the first request on a connection, if a server of another kind listens at one of
/// the addresses; any other error is unchanged.
#[must_use]
pub fn explain(
    error: CliError,
    program: &Program,
    addresses: &[String],
    left: Option<Duration>,
) -> CliError {
    let is_of_peer = matches!(error.exit, Exit::Protocol | Exit::Timeout | Exit::Permission)
        || ["CONNECTION_LOST", "CONNECT_TIMEOUT"].contains(&error.code);
    if !is_of_peer || [WRONG_SERVER, "UNSUPPORTED"].contains(&error.code) {
        return error;
    }
    // A server that has just replied will reply again, also on a busy machine.
    let patience = if error.exit == Exit::Protocol { 6 * PATIENCE } else { PATIENCE };
    let bound = left.map_or(patience, |left| left.min(patience));
    let (meant, encrypted) = (program.servers.kind, format!("{}://", program.tls.scheme));
    for address in addresses {
        let reply = reply(address, bound, "GET /", "Connection: close");
        match reply.and_then(|reply| kind(&reply)).filter(|found| found.what != meant) {
            // Over TLS, this reply is the expected one.
            Some(found)
                if found.what == TLS
                    && (error.exit == Exit::Permission || address.starts_with(&encrypted)) => {}
            // It breaks the protocol behind a correct handshake, which is what has to be said.
            Some(found) if found.what == HTTP && meant == ADF && upgrades(address, bound) => {}
            Some(found) => return found.error(address, program),
            None => {}
        }
    }
    let question = format!(": is {meant} running there?");
    if error.exit != Exit::Protocol || error.message.contains(&question) {
        return error;
    }
    let message = format!("{}{question}", error.at(&addresses.join(",")));
    let error = CliError { message, ..error };
    error.hint(program.servers.elsewhere())
}

/// A connection that was accepted but not answered in time: the server is frozen, not away. Some protocols
/// and TLS count their first answer as a part of connecting.
#[must_use]
pub(crate) fn silent(error: CliError, addresses: &[String]) -> CliError {
    let accepts = |address: &String| {
        let mut found = resolved(address).into_iter().flatten();
        found.next().is_some_and(|place| TcpStream::connect_timeout(&place, PATIENCE).is_ok())
    };
    if error.code != "CONNECT_TIMEOUT" || !addresses.iter().any(accepts) {
        return error;
    }
    let hints = vec!["a longer --timeout".to_owned()];
    CliError { exit: Exit::Timeout, code: "TIMEOUT", hints, ..error }
}

/// The stable error name for a server of another kind.
pub const WRONG_SERVER: &str = "WRONG_SERVER";

impl Stranger {
    fn error(self, address: &str, program: &Program) -> CliError {
        let Self { what, said, next } = self;
        let said = said.map_or_else(String::new, |said| format!(" (\"{said}\")"));
        let meant = program.servers.kind;
        let message = format!("{what} answers at {address}{said}, not {meant}");
        let error =
            CliError::new(Exit::Protocol, WRONG_SERVER, message).hint(program.servers.elsewhere());
        match next {
            Some(next) => error.hint(next),
            None => error,
        }
    }
}

/// All known names of the servers at these addresses (separated by commas), and what the names resolve to here.
pub(crate) fn places(addresses: &str) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for address in addresses.split(',') {
        places.insert(address.to_owned());
        if let Some(path) = address.strip_prefix("unix:") {
            let path = std::fs::canonicalize(path.trim_start_matches("//"));
            places.extend(path.map(|path| path.to_string_lossy().into_owned()));
        } else {
            let found = resolved(address).into_iter().flatten();
            places.extend(found.map(|found| found.to_string()));
        }
    }
    places
}

fn host_and_port(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The system's resolution of an address. It takes the zone of an IPv6 address only without brackets.
fn resolved(address: &str) -> Option<std::vec::IntoIter<SocketAddr>> {
    let (host, port) = host_and_port(address).rsplit_once(':')?;
    let host = with_bare_zone(host.trim_matches(['[', ']']));
    (&*host, port.parse().ok()?).to_socket_addrs().ok()
}

/// Whether it is a WebSocket server, as the one of an Adf.QueueServer.
fn upgrades(address: &str, bound: Duration) -> bool {
    let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
    let reply = reply(address, bound, "GET /queue/bin", headers);
    reply.is_some_and(|reply| reply.starts_with(b"HTTP/1.1 101 "))
}

/// The beginning of what it replies to a request.
fn reply(address: &str, bound: Duration, request: &str, headers: &str) -> Option<Vec<u8>> {
    let end = Instant::now() + bound;
    let left =
        || Some(end.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let place = host_and_port(address);
    let target = resolved(address)?.next()?;
    let mut stream = TcpStream::connect_timeout(&target, left()?).ok()?;
    stream.set_write_timeout(left()).ok()?;
    let request = format!("{request} HTTP/1.1\r\nHost: {place}\r\n{headers}\r\n\r\n");
    // A server that greets first may have closed already, but its greeting can still be read.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while answer.len() < ENOUGH && !is_enough(&answer) {
        let Some(left) = left() else { break };
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(chunk.get(..read)?),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Some(answer)
}

/// Only an HTTP page needs more than its first line.
fn is_enough(answer: &[u8]) -> bool {
    let line = answer.iter().position(|&byte| byte == b'\n').is_some();
    let is_known = KINDS.iter().any(|(start, ..)| answer.starts_with(start));
    (line || is_known) && !answer.starts_with(b"HTTP/")
}

fn kind(answer: &[u8]) -> Option<Stranger> {
    let text = String::from_utf8_lossy(answer);
    if answer.starts_with(b"HTTP/") && text.contains(ADF) {
        let next = Some("adfctl, for an Adf.QueueServer");
        return Some(Stranger { what: ADF, said: None, next });
    }
    let (_, what, next) = KINDS.iter().find(|(start, ..)| answer.starts_with(start))?;
    let first = text.lines().next().unwrap_or_default();
    let shows = *what != TLS && next.is_none();
    let said = shows.then(|| escape::clip(&escape::line(first), SHOWN).into_owned());
    Some(Stranger { what, said, next: *next })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::program::TOOL;

    /// Starts a server that sends one reply per connection.
    fn says(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            }
        });
        address
    }

    fn explained(answer: &'static [u8], error: CliError) -> CliError {
        let mut program = TOOL;
        program.servers.kind = "beanstalkd";
        program.servers.variables = &["TOOL_ADDR"];
        explain(error, &program, &[says(answer)], None)
    }

    fn lost() -> CliError {
        CliError::new(Exit::Unavailable, "CONNECTION_LOST", "gone")
    }

    #[test]
    fn reports_the_wrong_server_type_and_the_right_tool() {
        for (answer, what, next) in [
            (
                &b"HTTP/1.1 404 Not\x1b[31m Found\r\nServer: x\r\n\r\n"[..],
                "an HTTP server",
                "--addr",
            ),
            (b"HTTP/1.1 200 OK\r\n\r\n<title>Adf.QueueServer</title>", "Adf.QueueServer", "adfctl"),
            (b"ERR UNKNOWN_COMMAND Unknown+server+commandGET\r\n", "gearmand", "gearctl"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "an SSH server", "TOOL_ADDR"),
            (b"\x15\x03\x01\x00\x02\x02\x46", "wants TLS", "--tls"),
        ] {
            let error = explained(answer, lost());
            assert_eq!((error.exit, error.code), (Exit::Protocol, WRONG_SERVER), "{error}");
            assert!(
                error.message.contains(what) && error.message.contains("127.0.0.1:"),
                "{error}"
            );
            assert!(error.hints.iter().any(|hint| hint.contains(next)), "{:?}", error.hints);
            assert!(!error.message.contains('\x1b'), "{error}");
        }
    }

    #[test]
    fn reports_a_violation_after_a_good_handshake() {
        let mut program = TOOL;
        program.servers.kind = ADF;
        for (answer, code) in [
            (&b"HTTP/1.1 101 Switching Protocols\r\n\r\n"[..], "PROTOCOL"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", WRONG_SERVER),
        ] {
            let error = CliError::new(Exit::Protocol, "PROTOCOL", "a masked frame");
            let error = explain(error, &program, &[says(answer)], None);
            assert_eq!(error.code, code, "{error}");
        }
    }

    #[test]
    fn explains_a_failure_once() {
        let refused = || CliError::new(Exit::Protocol, "PROTOCOL", "no such command");
        let once = explained(b"UNKNOWN_COMMAND\r\n", refused());
        assert!(once.message.ends_with(": is beanstalkd running there?"), "{once}");
        let message = once.message.clone();
        let twice = explained(b"UNKNOWN_COMMAND\r\n", once);
        assert_eq!((twice.message, twice.hints.len()), (message, 1));
    }

    #[test]
    fn a_long_answer_is_cut() {
        static LONG: [u8; 5000] = {
            let mut answer = [b'x'; 5000];
            let start = b"HTTP/";
            let mut at = 0;
            while at < start.len() {
                answer[at] = start[at];
                at += 1;
            }
            answer
        };
        let error = explained(&LONG, lost());
        assert!(error.message.len() < 300, "{error}");
    }

    #[test]
    fn leaves_errors_of_the_right_or_a_silent_server_unchanged() {
        assert_eq!(explained(b"UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n", lost()).message, "gone");
        assert_eq!(explained(b"", lost()).message, "gone");
        let negative = CliError::not_found("no such job");
        assert_eq!(explained(b"HTTP/1.1 200 OK\r\n\r\n", negative).code, "NOT_FOUND");
        let mut program = TOOL;
        program.tls.scheme = "tools";
        let address = format!("tools://{}", says(b"\x15\x03\x01\x00\x02\x02\x46"));
        assert_eq!(explain(lost(), &program, &[address], None).message, "gone");
    }

    #[test]
    fn shows_an_unknown_greeting_with_its_address() {
        let error = CliError::new(Exit::Protocol, "PROTOCOL", "unexpected reply: \"hello\"");
        let error = explained(b"hello\r\n", error);
        assert!(error.message.ends_with("is beanstalkd running there?"), "{error}");
        assert!(error.message.starts_with("127.0.0.1:"), "{error}");
    }
}
