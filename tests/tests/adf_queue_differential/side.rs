//! One server with its connections.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use fixtures::transcript::quote;

use crate::adf_queue_differential::{
    exchange::Exchange,
    socket::Socket,
    step::{Ending, Frame, KEPT, PATHS, RUN, Step, queue},
    wire::contains,
};

/// How long a server may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What has been sent to each connection, by its name.
pub(crate) type Heard = BTreeMap<String, Vec<String>>;

/// Puts a run's own name in the place of the one that is written in steps and transcripts: a server may have other
/// users.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    own: String,
}

impl Names {
    pub(crate) fn new(own: String) -> Names {
        assert_eq!(own.len(), RUN.len());
        Names { own }
    }

    pub(crate) fn to_server(&self, bytes: &[u8]) -> Vec<u8> {
        replace(bytes, RUN.as_bytes(), self.own.as_bytes())
    }

    pub(crate) fn to_steps(&self, bytes: &[u8]) -> Vec<u8> {
        replace(bytes, self.own.as_bytes(), RUN.as_bytes())
    }
}

/// Both have the same length.
fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|part| part == from) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to);
        at += to.len();
    }
    bytes
}

pub(crate) struct Side {
    address: SocketAddr,
    names: Names,
    /// A connection that is always there, and has no part in what is compared.
    control: Socket,
    sockets: Vec<Option<Opened>>,
    exchanges: Vec<Exchange>,
    /// Number of sentinels so far.
    opened: usize,
    heard: Heard,
}

/// A connection, and the queue to which the one message goes back that it holds all the time.
struct Opened {
    socket: Socket,
    sentinel: String,
}

impl Side {
    pub(crate) fn new(address: SocketAddr, own_name: String) -> Result<Side, String> {
        let names = Names::new(own_name);
        let mut control = Socket::open(address, PATHS[0], &names)?;
        control.replies.clear();
        control.ask(9, "setup", &queue(KEPT), None)?;
        Ok(Side {
            address,
            names,
            control,
            sockets: PATHS.iter().map(|_| None).collect(),
            exchanges: Vec::new(),
            opened: 0,
            heard: Heard::new(),
        })
    }

    pub(crate) fn apply(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Open(number) => {
                self.end(*number, Ending::Close)?;
                let opened = self.open(PATHS[*number])?;
                self.sockets[*number] = Some(opened);
            }
            Step::Send(number, frames) => {
                if let Some(Opened { socket, .. }) = &mut self.sockets[*number] {
                    socket.send(frames);
                }
            }
            Step::End(number, ending) => self.end(*number, *ending)?,
            Step::Request { is_another, bytes } => self.request(*is_another, bytes)?,
            Step::GiveUp => {
                self.exchanges
                    .iter_mut()
                    .filter(|one| !one.is_settled())
                    .for_each(Exchange::hang_up);
            }
        }
        self.settle()?;
        if matches!(step, Step::Send(_, frames) if frames.len() > 1) {
            let opened = self.sockets.iter_mut().flatten();
            opened.for_each(|opened| opened.socket.sort_replies());
        }
        Ok(())
    }

    fn open(&mut self, path: &str) -> Result<Opened, String> {
        let mut socket = Socket::open(self.address, path, &self.names)?;
        let sentinel = queue(&format!("sentinel{}", self.opened));
        self.opened += 1;
        if !socket.is_deaf() {
            self.control.ask(9, "sentinel", &sentinel, None)?;
            self.control.ask(2, "sentinel", &sentinel, Some(b""))?;
            socket.pull_sentinel(&sentinel)?;
        }
        Ok(Opened { socket, sentinel })
    }

    fn end(&mut self, number: usize, ending: Ending) -> Result<(), String> {
        let Some(mut opened) = self.sockets[number].take() else { return Ok(()) };
        opened.socket.end(ending)?;
        self.keep(number, &mut opened.socket);
        let Opened { socket, sentinel } = opened;
        let is_deaf = socket.is_deaf();
        drop(socket);
        if is_deaf { Ok(()) } else { self.await_return(&sentinel) }
    }

    /// Waits until the server has taken back what an ended connection held.
    fn await_return(&mut self, sentinel: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.control.ask(6, "sentinel", sentinel, None)?.ends_with("\\x01") {
            if Instant::now() > deadline {
                return Err("the server does not see that a connection has ended".to_owned());
            }
            std::thread::yield_now();
        }
        self.control.ask(10, "sentinel", sentinel, None)?;
        Ok(())
    }

    fn request(&mut self, is_another: bool, bytes: &[u8]) -> Result<(), String> {
        let kept = queue(KEPT);
        let is_pull = contains(bytes, b"/queue/pull") && contains(bytes, kept.as_bytes());
        let before = if is_pull { self.row(KEPT)? } else { String::new() };
        let address = self.address;
        match self.exchanges.last_mut() {
            Some(last) if is_another && last.is_open() && last.is_settled() => {}
            last => {
                if let Some(last) = last.filter(|last| last.is_settled()) {
                    last.hang_up();
                }
                self.exchanges.push(Exchange::open(address, &self.names)?);
            }
        }
        let number = self.exchanges.len() - 1;
        self.exchanges[number].send(bytes);
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.exchanges[number].poll();
            // A pull that waits has no answer, but it shows in the page's row. So does one that is served.
            if self.exchanges[number].is_settled() || is_pull && self.row(KEPT)? != before {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("no answer to {}", quote(bytes)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The status page's row of a queue.
    fn row(&self, name: &str) -> Result<String, String> {
        let request = format!(
            "GET /?queue={} HTTP/1.1\r\nHost: tests\r\nConnection: close\r\n\r\n",
            queue(name)
        );
        let mut exchange = Exchange::open(self.address, &self.names)?;
        exchange.send(request.as_bytes());
        let deadline = Instant::now() + PATIENCE;
        while !exchange.is_settled() {
            exchange.poll();
            if Instant::now() > deadline {
                return Err("the status page does not come".to_owned());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(exchange.replies.get(1).cloned().unwrap_or_default())
    }

    /// Waits until the server has processed everything that was sent over WebSocket, and its consequences.
    fn settle(&mut self) -> Result<(), String> {
        let mut rounds = 2;
        while rounds > 0 {
            rounds -= 1;
            let mut all: Vec<&mut Socket> =
                self.sockets.iter_mut().flatten().map(|opened| &mut opened.socket).collect();
            all.push(&mut self.control);
            all.iter_mut().for_each(|socket| socket.raise_barrier());
            for socket in all {
                socket.await_barrier()?;
            }
            for number in 0..self.sockets.len() {
                let opened = self.sockets[number].as_mut().filter(|opened| opened.socket.has_ended);
                if let Some(Opened { socket, .. }) = opened {
                    socket.replies.push("end".to_owned());
                    self.end(number, Ending::Close)?;
                    rounds = 2;
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, number: usize, socket: &mut Socket) {
        if !socket.replies.is_empty() {
            let heard = self.heard.entry(number.to_string()).or_default();
            heard.append(&mut socket.replies);
        }
    }

    /// What was received since this was last cleared.
    pub(crate) fn heard(&mut self) -> &Heard {
        for number in 0..self.sockets.len() {
            if let Some(mut opened) = self.sockets[number].take() {
                self.keep(number, &mut opened.socket);
                self.sockets[number] = Some(opened);
            }
        }
        for (number, exchange) in self.exchanges.iter_mut().enumerate() {
            exchange.poll();
            if !exchange.replies.is_empty() {
                let heard = self.heard.entry(format!("h{number}")).or_default();
                heard.append(&mut exchange.replies);
            }
        }
        &self.heard
    }

    pub(crate) fn clear(&mut self) {
        self.heard.clear();
    }

    /// Requests over HTTP are not answered yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.exchanges.iter().any(|exchange| !exchange.is_settled())
    }

    /// Ends all connections, has waiting pulls answered, and empties the queues.
    pub(crate) fn finish(
        &mut self,
        queues: &[&str],
        odd: &[&str],
        ids: &[&str],
    ) -> Result<(), String> {
        for number in 0..self.sockets.len() {
            self.end(number, Ending::Close)?;
        }
        self.settle()?;
        for name in queues {
            let row = self.row(name)?;
            self.tell(format!("{name}: {row}"));
        }
        // A remaining pull over HTTP would hold one of the server's threads forever.
        let waiting = |row: String| row.split(' ').nth(3).and_then(|text| text.parse().ok());
        while waiting(self.row(KEPT)?).unwrap_or(0) > 0 {
            let answer = self.control.ask(2, "release", &queue(KEPT), Some(b"release"))?;
            self.tell(answer);
            self.settle()?;
        }
        self.take_back(ids)?;
        for name in queues {
            let missing = self.control.ask(6, "is it there", &queue(name), None)?;
            if !missing.contains("not exists") {
                self.empty(name)?;
            }
        }
        // Some of them have names that differ in binary.
        let mut socket = Socket::open(self.address, "/queue/json", &self.names)?;
        let delete = |name: &&str| {
            let (id, queue) = ("left", queue(name));
            let request =
                serde_json::json!({"action": "deletequeue", "requestid": id, "queue": queue});
            Frame::new(1, request.to_string())
        };
        socket.send(&odd.iter().map(delete).collect::<Vec<_>>());
        socket.raise_barrier();
        socket.await_barrier()?;
        self.heard.entry("end".to_owned()).or_default().extend(socket.replies.drain(1..));
        Ok(())
    }

    /// Acknowledges what was pulled over HTTP, which the server would otherwise hold forever.
    fn take_back(&mut self, ids: &[&str]) -> Result<(), String> {
        for id in ids {
            loop {
                let target = format!("/queue/rcancel?queue={}&requestid={id}", queue(KEPT));
                let request = format!("GET {target} HTTP/1.1\r\nConnection: close\r\n\r\n");
                self.request(false, request.as_bytes())?;
                let was_pulled = self.exchanges.last().is_some_and(|exchange| {
                    exchange.replies.iter().any(|reply| reply.contains(r#""result":"ok""#))
                });
                if !was_pulled {
                    break;
                }
            }
        }
        Ok(())
    }

    fn empty(&mut self, name: &str) -> Result<(), String> {
        while !self.control.ask(6, "left", &queue(name), None)?.ends_with("\\0\\0\\0\\0") {
            let message = self.control.ask(4, "left", &queue(name), None)?;
            self.tell(message);
            self.control.ask(3, "left", &queue(name), None)?;
        }
        let answer = self.control.ask(10, "left", &queue(name), None)?;
        self.tell(answer);
        Ok(())
    }

    fn tell(&mut self, text: String) {
        self.heard.entry("end".to_owned()).or_default().push(text);
    }
}
