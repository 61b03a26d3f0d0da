//! Finds out what is listening at an address that is not the expected server. Sends an HTTP request, to which every
//! line, packet or TLS server replies in its own way, and which none executes. Only bytes are a verdict: a server
//! that says nothing, or not yet, is no server of another kind.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use queue_core::blocking::Canceller;
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

/// A server to look at.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its address, as people write it.
    pub address: String,
    /// Whether it is spoken to over TLS, so that it refuses a request without.
    pub is_tls: bool,
}

/// Maximum time for finding out about a server that was silent.
const PATIENCE: Duration = Duration::from_millis(800);

/// How often to check whether looking still makes sense.
const SLICE: Duration = Duration::from_millis(50);

/// Maximum time of a connection for looking.
const CONNECTING: Duration = Duration::from_secs(5);

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
    servers: &[Server],
    left: Option<Duration>,
) -> CliError {
    let is_of_peer = matches!(error.exit, Exit::Protocol | Exit::Timeout | Exit::Permission)
        || ["CONNECTION_LOST", "CONNECT_TIMEOUT"].contains(&error.code);
    if !is_of_peer || [WRONG_SERVER, "UNSUPPORTED"].contains(&error.code) {
        return error;
    }
    // A server that has just replied will reply again, also on a busy machine.
    let patience = if error.is_late() { PATIENCE } else { 6 * PATIENCE };
    let bound = left.map_or(patience, |left| left.min(patience));
    for server in servers {
        let end = Instant::now() + bound;
        // Over TLS, also by an address that does not say so.
        let is_tls = server.is_tls || error.exit == Exit::Permission;
        let server = Server { is_tls, ..server.clone() };
        if let Some(found) = server.stranger(program, &mut || Instant::now() >= end) {
            return found.error(&server.address, program);
        }
    }
    let meant = program.servers.kind;
    let question = format!(": is {meant} running there?");
    if error.exit != Exit::Protocol || error.message.contains(&question) {
        return error;
    }
    let addresses: Vec<&str> = servers.iter().map(|server| &*server.address).collect();
    let message = format!("{}{question}", error.at(&addresses.join(",")));
    let error = CliError { message, ..error };
    error.hint(program.servers.elsewhere())
}

/// Looks at servers while an attempt to connect to them waits.
pub(crate) struct Watch {
    verdict: Arc<OnceLock<CliError>>,
    /// Dropped by the end of the attempt.
    waits: Option<mpsc::Sender<()>>,
    /// Dropped by the end of the connections that look.
    looks: mpsc::Receiver<()>,
}

impl Watch {
    /// Looks at the servers if the attempt has not ended after this time. Ends it by its canceller once each of them
    /// has shown to be of another kind; otherwise calls `slow` after a while.
    pub(crate) fn begin(
        patience: Duration,
        servers: &[Server],
        program: &Program,
        attempt: Canceller,
        slow: impl FnOnce() + Send + 'static,
    ) -> Self {
        let ((waits, ended), (looking, looks)) = (mpsc::channel(), mpsc::channel());
        let verdict = Arc::new(OnceLock::new());
        let (servers, program, found) = (servers.to_vec(), *program, Arc::clone(&verdict));
        let look = move || {
            let _looking = looking;
            if ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let (asked, mut slow) = (Instant::now(), Some(slow));
            let mut is_over = || {
                let is_over = ended.try_recv() == Err(TryRecvError::Disconnected);
                if let Some(slow) = slow.take_if(|_| !is_over && asked.elapsed() >= PATIENCE) {
                    slow();
                }
                is_over
            };
            let strangers = servers.iter().map(|server| {
                let found = server.stranger(&program, &mut is_over)?;
                Some(found.error(&server.address, &program))
            });
            // One that may be the right one is waited for.
            match strangers.collect::<Option<Vec<_>>>().and_then(|found| found.into_iter().next()) {
                Some(error) => {
                    let _ = found.set(error);
                    attempt.cancel();
                }
                None if !is_over() => slow.into_iter().for_each(|slow| slow()),
                None => {}
            }
        };
        // Without a thread, the attempt ends by its own limits.
        let _ = thread::Builder::new().name("looking".to_owned()).spawn(look);
        Self { verdict, waits: Some(waits), looks }
    }

    /// What was found, if it ended the attempt.
    pub(crate) fn verdict(&self) -> Option<CliError> {
        self.verdict.get().cloned()
    }
}

impl Drop for Watch {
    /// The next command must not count connections that looked.
    fn drop(&mut self) {
        self.waits = None;
        let _ = self.looks.recv_timeout(PATIENCE);
    }
}

/// A connection that was accepted but not answered in time: the server is frozen, not away. Some protocols
/// and TLS count their first answer as a part of connecting.
#[must_use]
pub(crate) fn silent(error: CliError, servers: &[Server]) -> CliError {
    let accepts = |server: &Server| {
        let mut found = resolved(&server.address).into_iter().flatten();
        found.next().is_some_and(|place| TcpStream::connect_timeout(&place, PATIENCE).is_ok())
    };
    if error.code != "CONNECT_TIMEOUT" || !servers.iter().any(accepts) {
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
        next.into_iter().fold(error, CliError::hint)
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

impl Server {
    /// The server of another kind that is listening there, if it shows itself before `is_over`.
    fn stranger(&self, program: &Program, is_over: &mut dyn FnMut() -> bool) -> Option<Stranger> {
        let meant = program.servers.kind;
        let found = kind(&self.reply("GET /", "Connection: close", is_over)?)?;
        match found.what {
            what if what == meant => None,
            TLS if self.is_tls => None,
            // What it breaks behind a correct handshake has to be said instead.
            HTTP if meant == ADF => {
                let reply = self.reply("GET /queue/bin", UPGRADE, is_over)?;
                let answers = !reply.is_empty() && !reply.starts_with(b"HTTP/1.1 101 ");
                answers.then_some(found)
            }
            _ => Some(found),
        }
    }

    /// The beginning of what it replies to a request.
    fn reply(
        &self,
        request: &str,
        headers: &str,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<u8>> {
        let place = host_and_port(&self.address);
        let target = resolved(&self.address)?.next()?;
        let mut stream = TcpStream::connect_timeout(&target, CONNECTING).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        stream.set_read_timeout(Some(SLICE)).ok()?;
        let request = format!("{request} HTTP/1.1\r\nHost: {place}\r\n{headers}\r\n\r\n");
        // A server that greets first may have closed already, but its greeting can still be read.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let (mut chunk, mut begun) = ([0; 1024], None);
        while answer.len() < ENOUGH && !is_enough(&answer) && !is_over() {
            // A page gives its kind a name, if it comes.
            if begun.is_some_and(|begun: Instant| begun.elapsed() >= PATIENCE) {
                break;
            }
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(chunk.get(..read)?),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    _ => break,
                },
            }
            if answer.starts_with(b"HTTP/") {
                begun.get_or_insert_with(Instant::now);
            }
        }
        Some(answer)
    }
}

/// Asks for the WebSocket of an Adf.QueueServer.
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";

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
    fn says(answer: &'static [u8]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            }
        });
        Server { address, is_tls: false }
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
        let program = TOOL;
        let server = Server { is_tls: true, ..says(b"\x15\x03\x01\x00\x02\x02\x46") };
        assert_eq!(explain(lost(), &program, &[server], None).message, "gone");
    }

    #[test]
    fn shows_an_unknown_greeting_with_its_address() {
        let error = CliError::new(Exit::Protocol, "PROTOCOL", "unexpected reply: \"hello\"");
        let error = explained(b"hello\r\n", error);
        assert!(error.message.ends_with("is beanstalkd running there?"), "{error}");
        assert!(error.message.starts_with("127.0.0.1:"), "{error}");
    }

    /// Starts a server that reads its connections to their end and never replies.
    fn silent() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || drop(std::io::copy(&mut stream, &mut std::io::sink())));
            }
        });
        Server { address, is_tls: false }
    }

    /// What a watch finds out about servers, whose attempt waits until it is ended or known to be slow.
    fn watched(servers: &[Server]) -> Option<CliError> {
        let mut program = TOOL;
        program.servers.kind = "beanstalkd";
        let (attempt, (slow, waits)) = (Canceller::new(), mpsc::channel());
        let note = move || slow.send(()).unwrap();
        let watch = Watch::begin(Duration::ZERO, servers, &program, attempt.clone(), note);
        // Fails once the thread has ended without a note.
        let is_slow = waits.recv().is_ok();
        assert_eq!(
            (is_slow, watch.verdict().is_some()),
            (!attempt.is_cancelled(), attempt.is_cancelled())
        );
        watch.verdict()
    }

    #[test]
    fn an_attempt_ends_only_by_what_all_its_servers_have_said() {
        let tls = || says(b"\x15\x03\x01\x00\x02\x02\x46");
        let http = || says(b"HTTP/1.1 404 Not Found\r\n\r\n");
        for strangers in [vec![http()], vec![tls()], vec![http(), tls()]] {
            let found = watched(&strangers).unwrap();
            assert!(found.code == WRONG_SERVER && found.message.contains(&strangers[0].address));
        }
        let right = says(b"UNKNOWN_COMMAND\r\n");
        let expected = Server { is_tls: true, ..tls() };
        for servers in [vec![silent()], vec![expected], vec![http(), silent()], vec![http(), right]]
        {
            assert!(watched(&servers).is_none(), "{servers:?}");
        }
    }
}
