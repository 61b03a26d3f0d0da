//! One server with its connections, and two of them side by side.

use std::{
    fmt::Write as _,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use fixtures::gearmand::PacketType;

use crate::gearmand_differential::sequence::{Command, Step};

/// How long a server may take to reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections of each side, besides the one that asks about the state.
const CLIENTS: usize = 4;
/// Data of the packets that show how far a server has come.
const BARRIER: &[u8] = b"barrier";

/// A reply: a whole packet, or one line.
type Reply = Vec<u8>;

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    replies: Vec<Reply>,
    barriers: usize,
    has_ended: bool,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, received: vec![], replies: vec![], barriers: 0, has_ended: false }
    }

    fn send(&mut self, bytes: &[u8]) {
        // The server may have closed this connection: then both have, and that is compared.
        let _ = self.stream.write_all(bytes);
    }

    fn read(&mut self) {
        let mut buffer = [0; 16384];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no reply; received so far: {:?}", self.replies.last());
            }
            Err(_) => self.has_ended = true,
        }
        while let Some(length) = reply_length(&self.received) {
            let reply: Reply = self.received.drain(..length).collect();
            if reply == PacketType::EchoRes.response(&[BARRIER]) {
                self.barriers += 1;
            } else {
                self.replies.push(reply);
            }
        }
    }

    /// Makes the server show that it has processed everything that was sent here.
    fn raise_barrier(&mut self) {
        self.send(&PacketType::EchoReq.request(&[BARRIER]));
    }

    fn await_barrier(&mut self) {
        let awaited = self.barriers + 1;
        while self.barriers < awaited && !self.has_ended {
            self.read();
        }
    }

    /// The lines of the reply to a text command.
    fn ask(&mut self, command: &str) -> Vec<String> {
        let before = self.replies.len();
        self.send(format!("{command}\r\n").as_bytes());
        self.raise_barrier();
        self.await_barrier();
        assert!(!self.has_ended, "{command} has ended the connection");
        self.replies.drain(before..).map(|line| line.escape_ascii().to_string()).collect()
    }

    /// Handles of the jobs that this connection was given.
    fn jobs(&self) -> Vec<Vec<u8>> {
        let assigned = [PacketType::JobAssign, PacketType::JobAssignUniq, PacketType::JobAssignAll];
        let is_assignment =
            |reply: &&Reply| assigned.iter().any(|kind| number(reply) == Some(kind.number()));
        self.replies
            .iter()
            .filter(is_assignment)
            .filter_map(|reply| Some(reply[12..].split(|&byte| byte == 0).next()?.to_vec()))
            .collect()
    }
}

fn number(reply: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(reply.strip_prefix(b"\0RES")?.get(..4)?.try_into().ok()?))
}

/// Length of the first whole reply.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    if *bytes.first()? != 0 {
        return Some(bytes.iter().position(|&byte| byte == b'\n')? + 1);
    }
    let size = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
    let length = 12 + usize::try_from(size).ok()?;
    (bytes.len() >= length).then_some(length)
}

/// One server with its connections.
pub(crate) struct Side {
    address: SocketAddr,
    clients: Vec<Client>,
    control: Client,
}

impl Side {
    pub(crate) fn new(address: SocketAddr) -> Side {
        let control = Client::connect(address);
        let clients = (0..CLIENTS).map(|_| Client::connect(address)).collect();
        let mut side = Side { address, clients, control };
        side.settle(None);
        side
    }

    fn send(&mut self, connection: usize, bytes: &[u8], cut: Option<usize>) {
        let cut = cut.unwrap_or(0);
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        if !first.is_empty() {
            self.clients[connection].send(first);
            self.settle(Some(connection));
        }
        self.clients[connection].send(second);
        self.settle(None);
    }

    /// Sends something that may end the connection, and opens a new one if it has.
    fn send_breaking(&mut self, connection: usize, bytes: &[u8]) {
        self.clients[connection].send(bytes);
        self.settle(None);
        if self.clients[connection].has_ended {
            self.close(connection);
        }
    }

    fn close(&mut self, connection: usize) {
        let replies = std::mem::take(&mut self.clients[connection].replies);
        let client = Client::connect(self.address);
        // The old connection closes as the new one takes its place; the replies stay.
        self.clients[connection] = Client { replies, ..client };
        self.settle(None);
        let deadline = Instant::now() + PATIENCE;
        // One line for each connection, one for the end.
        while self.control.ask("workers").len() != CLIENTS + 2 {
            assert!(Instant::now() < deadline, "the server does not see that a connection is gone");
            std::thread::yield_now();
        }
        // The processing thread learns of it a little later than the list.
        for _ in 0..3 {
            self.control.ask("verbose");
        }
        self.settle(None);
    }

    /// Waits until the server has processed everything, on all connections but the one that has
    /// sent a part of something.
    fn settle(&mut self, partial: Option<usize>) {
        // What one connection has sent may cause data for another, so that one goes second.
        for _ in 0..2 {
            let clients = self.clients.iter_mut().enumerate();
            let mut whole: Vec<&mut Client> = clients
                .filter(|(number, _)| Some(*number) != partial)
                .map(|(_, client)| client)
                .filter(|client| !client.has_ended)
                .collect();
            whole.iter_mut().for_each(|client| client.raise_barrier());
            whole.iter_mut().for_each(|client| client.await_barrier());
        }
    }

    /// Who is connected and can do what, without numbers and in a fixed order.
    fn workers(&mut self) -> Vec<String> {
        let lines = self.control.ask("workers");
        let mut lines: Vec<String> =
            lines.iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect();
        lines.sort();
        lines
    }
}

/// The same steps on both sides.
pub(crate) struct Pair {
    memory: Side,
    real: Side,
    /// Replies that have been compared, by connection.
    compared: Vec<usize>,
}

impl Pair {
    pub(crate) fn new(memory: Side, real: Side) -> Pair {
        Pair { memory, real, compared: vec![0; CLIENTS] }
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::Send { connection, commands, cut } => {
                let bytes: Vec<u8> =
                    commands.iter().flat_map(|command| self.encode(*connection, command)).collect();
                self.memory.send(*connection, &bytes, *cut);
                self.real.send(*connection, &bytes, *cut);
            }
            Step::Break(connection, command) => {
                let bytes = self.encode(*connection, command);
                self.memory.send_breaking(*connection, &bytes);
                self.real.send_breaking(*connection, &bytes);
            }
            Step::Close(connection) => {
                self.memory.close(*connection);
                self.real.close(*connection);
            }
        }
    }

    fn encode(&self, connection: usize, command: &Command) -> Vec<u8> {
        match command {
            Command::Packet(kind, parts) => kind.request(parts),
            Command::Line(line) => format!("{line}\r\n").into_bytes(),
            Command::Bytes(bytes) => bytes.clone(),
            Command::Work(kind, pick, parts) => {
                let jobs = self.memory.clients[connection].jobs();
                // Mostly the latest ones: the others have ended long ago.
                let place = jobs.len().checked_sub(1 + pick % 3);
                let known = place.and_then(|place| jobs.get(place).cloned());
                let handle = known.unwrap_or_else(|| format!("H:x:{pick}").into_bytes());
                let parts = parts.iter().map(|part| part.as_bytes().to_vec());
                kind.request(&std::iter::once(handle).chain(parts).collect::<Vec<_>>())
            }
        }
    }

    /// Compares the replies that are new.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
        for (number, compared) in self.compared.iter_mut().enumerate() {
            let memory = &self.memory.clients[number].replies[*compared..];
            let real = &self.real.clients[number].replies[*compared..];
            if memory != real {
                let show = |replies: &[Reply]| {
                    replies.iter().fold(String::new(), |mut text, reply| {
                        let _ = write!(text, "\n  {}", reply.escape_ascii());
                        text
                    })
                };
                let (memory, real) = (show(memory), show(real));
                return Err(format!("connection {number}:\nin memory:{memory}\nreal:{real}"));
            }
            *compared += memory.len();
        }
        Ok(())
    }

    /// Compares what both servers report about themselves.
    pub(crate) fn compare_state(&mut self) -> Result<(), String> {
        for question in ["status", "prioritystatus", "show jobs", "show unique jobs"] {
            let memory = self.memory.control.ask(question);
            let real = self.real.control.ask(question);
            if memory != real {
                return Err(format!("{question}:\nin memory: {memory:?}\nreal: {real:?}"));
            }
        }
        let (memory, real) = (self.memory.workers(), self.real.workers());
        if memory != real {
            return Err(format!("workers:\nin memory: {memory:?}\nreal: {real:?}"));
        }
        Ok(())
    }
}
