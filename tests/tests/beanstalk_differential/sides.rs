//! The two servers side by side: the same steps, and the replies compared.

use std::{
    fmt::Write as _,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use fixtures::{beanstalkd::Server, real::RealServer};

use crate::beanstalk_differential::{
    release,
    sequence::{Command, Step},
};

/// How long the real server may take for a reply that the other one has given.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys whose values depend on the machine, and the command that this test waits with.
const MACHINE: [&str; 12] = [
    "cmd-list-tube-used",
    "pid",
    "rusage-utime",
    "rusage-stime",
    "uptime",
    "id",
    "hostname",
    "os",
    "platform",
    "binlog-oldest-index",
    "binlog-current-index",
    "age",
];
/// Keys whose values depend on the time, but for whether they are zero.
const TIME: [&str; 2] = ["time-left", "pause-time-left"];

/// One reply, with what may differ masked.
pub(crate) type Masked = String;

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    replies: Vec<Masked>,
    has_ended: bool,
    may_write: bool,
    /// Replies at the time when it began to wait in `reserve`.
    waits_since: Option<usize>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            received: vec![],
            replies: vec![],
            has_ended: false,
            may_write: true,
            waits_since: None,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The server may have closed this connection: then both have, and that is compared.
        if self.stream.write_all(bytes).is_err() {
            self.may_write = false;
        }
    }

    /// Takes what has arrived, without waiting.
    fn drain(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16384];
        while !self.has_ended {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.has_ended = true,
            }
        }
        self.stream.set_nonblocking(false).unwrap();
        while let Some((reply, length)) = first_reply(&self.received) {
            self.received.drain(..length);
            self.replies.push(reply);
        }
    }

    /// Ends the connection from this side, and waits until the server has ended it too.
    ///
    /// Closing it at once would leave it open how many of the commands after a `reserve` are still executed: that
    /// depends on when the reset arrives.
    fn close(&mut self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Write);
        while !self.has_ended {
            self.wait_for_more("the server does not close its side");
        }
    }

    /// Takes what has arrived, once there is something, or the end.
    fn wait_for_more(&mut self, wrong: &str) {
        while let Err(error) = self.stream.peek(&mut [0]) {
            match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => panic!("{wrong}"),
                _ => break,
            }
        }
        self.drain();
    }

    /// One command that is answered at once.
    fn ask(&mut self, command: &str) -> Masked {
        self.ask_all(&[command.to_owned()]).remove(0)
    }

    /// Several in one piece, so that a busy machine does not have to turn to the server for each.
    fn ask_all(&mut self, commands: &[String]) -> Vec<Masked> {
        let before = self.replies.len();
        self.send(format!("{}\r\n", commands.join("\r\n")).as_bytes());
        while self.replies.len() < before + commands.len() {
            self.wait_for_more("a command has no reply");
            assert!(!self.has_ended, "the server ends the connection after {commands:?}");
        }
        self.replies[before..].to_vec()
    }
}

/// Connects as the start of a real server does to see whether it is up, so that both servers
/// count the same connections.
pub(crate) fn probe(address: SocketAddr) {
    let mut probe = TcpStream::connect(address).unwrap();
    probe.write_all(b"quit\r\n").unwrap();
    assert_eq!(probe.read(&mut [0]).unwrap(), 0);
}

/// One server with its connections.
pub(crate) struct Side<'a> {
    address: SocketAddr,
    clients: Vec<Client>,
    /// A connection that is always there, to ask questions and to wait for the server.
    control: Client,
    in_memory: Option<&'a Server>,
}

impl<'a> Side<'a> {
    pub(crate) fn in_memory(server: &'a Server) -> Side<'a> {
        let address = server.socket_addr().unwrap();
        probe(address);
        Side::new(address, Some(server))
    }

    pub(crate) fn real(server: &RealServer) -> Side<'a> {
        Side::new(server.socket_addr().unwrap(), None)
    }

    fn new(address: SocketAddr, in_memory: Option<&'a Server>) -> Side<'a> {
        let control = Client::connect(address);
        let clients = (0..2).map(|_| Client::connect(address)).collect();
        let mut side = Side { address, clients, control, in_memory };
        side.wait();
        side
    }

    fn apply(&mut self, step: &Step) {
        let count = self.clients.len();
        match step {
            Step::Send { connection, commands, cut } => {
                let client = &mut self.clients[connection % count];
                if !client.may_write || client.has_ended {
                    return;
                }
                let bytes: Vec<u8> =
                    commands.iter().flat_map(|command| command.0.clone()).collect();
                let (first, second) = bytes.split_at(cut.unwrap_or(0).min(bytes.len()));
                if !first.is_empty() {
                    client.send(first);
                    self.wait();
                }
                self.clients[connection % count].send(second);
            }
            Step::Open if count < 4 => self.clients.push(Client::connect(self.address)),
            Step::Open => {}
            Step::Close(connection) => {
                let client = &mut self.clients[connection % count];
                client.close();
                *client = Client::connect(self.address);
            }
            Step::HalfClose(connection) => {
                let client = &mut self.clients[connection % count];
                client.may_write = false;
                // It may have ended already.
                let _ = client.stream.shutdown(Shutdown::Write);
            }
        }
        self.wait();
    }

    /// Returns once the server has processed everything that it was sent. Both servers handle their
    /// connections in turn, so an answer on another connection, given twice, shows that.
    fn wait(&mut self) {
        self.control.ask("list-tube-used");
        match self.in_memory {
            Some(server) => assert!(server.view().connections > 0),
            None => assert!(!self.control.ask("list-tube-used").is_empty()),
        }
        for client in &mut self.clients {
            client.drain();
        }
    }

    fn waiting(&self) -> usize {
        self.in_memory.map_or(0, |server| server.view().waiting)
    }

    fn is_waiting(&self, number: usize) -> bool {
        let client = &self.clients[number];
        client.waits_since.is_some_and(|replies| replies == client.replies.len())
    }

    fn known_to_wait(&self) -> usize {
        let numbers = 0..self.clients.len();
        numbers.filter(|&n| self.is_waiting(n) && !self.clients[n].has_ended).count()
    }

    fn replies(&self) -> Vec<(&[Masked], bool)> {
        self.clients.iter().map(|c| (c.replies.as_slice(), c.has_ended)).collect()
    }
}

/// The same steps on both sides.
pub(crate) struct Pair<'a> {
    memory: Side<'a>,
    real: Side<'a>,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(memory: Side<'a>, real: Side<'a>) -> Pair<'a> {
        Pair { memory, real }
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        let Step::Send { connection, commands, cut } = step else {
            self.memory.apply(step);
            return self.real.apply(step);
        };
        let number = connection % self.memory.clients.len();
        let mut commands = commands.clone();
        if self.memory.is_waiting(number) {
            commands.retain(Command::is_local);
        }
        let step = Step::Send { connection: number, commands, cut: *cut };
        self.memory.apply(&step);
        self.real.apply(&step);
        // It may have ended another's wait before its own began.
        if self.memory.waiting() > self.memory.known_to_wait() {
            let client = &mut self.memory.clients[number];
            client.waits_since = Some(client.replies.len());
        }
    }

    /// Compares all replies so far, and which connections have ended.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while self.memory.replies() != self.real.replies() {
            let wrong = self.first_difference();
            if wrong.is_some() || Instant::now() > deadline {
                return Err(wrong.unwrap_or_else(|| self.describe()));
            }
            std::thread::sleep(Duration::from_millis(1));
            self.real.wait();
            self.memory.wait();
        }
        Ok(())
    }

    /// Compares what both servers report about themselves, their tubes and their jobs.
    pub(crate) fn compare_state(&mut self) -> Result<(), String> {
        let mut questions = vec!["stats".to_owned(), "list-tubes".to_owned()];
        for tube in ["default", "a", "b", "c", "d"] {
            questions.push(format!("stats-tube {tube}"));
            for command in ["peek-ready", "peek-delayed", "peek-buried"] {
                questions.push(format!("use {tube}"));
                questions.push(command.to_owned());
            }
        }
        questions.push("use default".to_owned());
        for id in 1..=80 {
            questions.push(format!("stats-job {id}"));
        }
        let mut ask =
            || [&mut self.memory, &mut self.real].map(|side| side.control.ask_all(&questions));
        let [mut memory, mut real] = ask();
        // On a busy machine, what was sent without a reply to it may still be on its way to one of them.
        for _ in 0..20 {
            if memory != real {
                std::thread::sleep(Duration::from_millis(50));
                [memory, real] = ask();
            }
        }
        for (question, (memory, real)) in questions.iter().zip(memory.iter().zip(&real)) {
            if memory != real {
                return Err(format!("{question}:\nin memory: {memory}\nreal: {real}"));
            }
        }
        self.memory.wait();
        self.real.wait();
        self.compare()
    }

    /// A reply that has arrived on both sides and differs: waiting will not help.
    fn first_difference(&self) -> Option<String> {
        let sides = self.memory.replies().into_iter().zip(self.real.replies());
        for (number, ((memory, _), (real, _))) in sides.enumerate() {
            for (place, (memory, real)) in memory.iter().zip(real).enumerate() {
                if memory != real {
                    return Some(format!(
                        "connection {number}, reply {place}:\nin memory: {memory}\nreal: {real}"
                    ));
                }
            }
        }
        None
    }

    fn describe(&self) -> String {
        let mut text = String::from("one server has more replies, or has closed a connection");
        for (name, side) in [("in memory", &self.memory), ("real", &self.real)] {
            for (number, client) in side.clients.iter().enumerate() {
                let last = client.replies.last().map_or("none", String::as_str);
                let (count, ended) = (client.replies.len(), client.has_ended);
                let rest = String::from_utf8_lossy(&client.received);
                let _ = write!(
                    text,
                    "\n{name} {number}: {count} replies, ended: {ended}, last: {last:?}, \
                     unread: {rest:?}"
                );
            }
        }
        text
    }
}

/// Connections to one server, for scripts.
pub(crate) struct Conversation {
    clients: Vec<Client>,
    control: Client,
    heard: Vec<usize>,
}

impl Conversation {
    pub(crate) fn new(address: SocketAddr) -> Conversation {
        let clients: Vec<Client> = (0..5).map(|_| Client::connect(address)).collect();
        let heard = vec![0; clients.len()];
        Conversation { clients, control: Client::connect(address), heard }
    }

    /// Sends text in which `;` stands for CRLF.
    pub(crate) fn say(&mut self, connection: usize, text: &str) {
        self.clients[connection].send(text.replace(';', "\r\n").as_bytes());
    }

    /// Waits for further replies of one connection; for none, until the server has read what it
    /// was sent. Meanwhile another one may ask for something now and then.
    pub(crate) fn hear(&mut self, connection: usize, count: usize, nudging: Option<usize>) {
        if count == 0 {
            self.settle();
        }
        self.heard[connection] += count;
        let deadline = Instant::now() + PATIENCE;
        while self.clients[connection].replies.len() < self.heard[connection] {
            let client = &mut self.clients[connection];
            client.drain();
            assert!(
                Instant::now() < deadline,
                "connection {connection} heard only {:?}",
                client.replies
            );
            std::thread::sleep(Duration::from_millis(2));
            if let Some(other) = nudging.map(|number| &mut self.clients[number]) {
                other.ask("list-tube-used");
                other.replies.pop();
            }
        }
    }

    pub(crate) fn half_close(&mut self, connection: usize) {
        self.clients[connection].stream.shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn close(&mut self, connection: usize) {
        self.clients[connection].close();
    }

    /// All replies of all connections.
    pub(crate) fn finish(mut self) -> Vec<Vec<Masked>> {
        self.settle();
        for client in &mut self.clients {
            client.drain();
        }
        self.clients.into_iter().map(|client| client.replies).collect()
    }

    fn settle(&mut self) {
        for _ in 0..3 {
            self.control.ask("list-tube-used");
        }
    }
}

/// The first whole reply in `received`, masked, and its length in bytes.
fn first_reply(received: &[u8]) -> Option<(Masked, usize)> {
    let end = received.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&received[..end]).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    let has_body = matches!(words[0], "RESERVED" | "FOUND" | "OK");
    if !has_body {
        return Some((line, end + 2));
    }
    let length: usize = words.last()?.parse().ok()?;
    let body = received.get(end + 2..end + 2 + length + 2)?;
    let whole = end + 2 + length + 2;
    if words[0] == "OK" {
        return Some((mask(&String::from_utf8_lossy(&body[..length])), whole));
    }
    Some((format!("{line} {}", body.escape_ascii()), whole))
}

/// A table or list with the values masked that may differ.
fn mask(text: &str) -> Masked {
    let is_job = text.contains("\nttr: ");
    text.lines().fold(String::new(), |mut masked, line| {
        match line.split_once(": ") {
            // `id` is the job's number in stats-job, and random in stats.
            Some(("id", _)) if is_job => masked.push_str(line),
            // One between releases stands for the release before it.
            Some(("version", value)) => {
                let version = value.trim_matches('"');
                let _ = write!(masked, "version: {}", value.replace(version, release(version)));
            }
            Some((key, _)) if MACHINE.contains(&key) => masked.push_str(key),
            Some((key, value)) if TIME.contains(&key) => {
                let _ = write!(masked, "{key}: {}", if value == "0" { "0" } else { "not 0" });
            }
            _ => masked.push_str(line),
        }
        masked.push('\n');
        masked
    })
}
