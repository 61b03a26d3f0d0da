//! One WebSocket connection.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use fixtures::transcript::quote;

use crate::adf_queue_differential::{
    side::{Names, PATIENCE},
    step::{Ending, Frame},
    wire::{binary, contains, head_end, take_frame, write_frame},
};

/// Id, and queue, of the requests that show how far a server has come.
const BARRIER: &str = "barrier";
const COUNT: u8 = 6;

/// The requests that a connection supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Binary,
    Json,
    /// Nothing but pings.
    Deaf,
}

#[derive(Debug)]
pub(crate) struct Socket {
    kind: Kind,
    stream: TcpStream,
    names: Names,
    received: Vec<u8>,
    /// What has arrived and was not a barrier.
    pub(crate) replies: Vec<String>,
    barriers: usize,
    pub(crate) has_ended: bool,
}

impl Socket {
    /// Connects, and has its connection upgraded.
    pub(crate) fn open(address: SocketAddr, path: &str, names: &Names) -> Result<Socket, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{path}: {error}"))?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let kind = match path.split('?').next() {
            Some("/queue/bin") => Kind::Binary,
            Some("/queue/json") => Kind::Json,
            _ => Kind::Deaf,
        };
        let mut socket = Socket {
            kind,
            stream,
            names: names.clone(),
            received: Vec::new(),
            replies: Vec::new(),
            barriers: 0,
            has_ended: false,
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: tests\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write(request.as_bytes());
        let head = loop {
            if let Some((_, end)) = head_end(&socket.received) {
                break socket.received.drain(..end).collect::<Vec<u8>>();
            }
            socket.read()?;
            if socket.has_ended {
                return Err(format!("the server does not upgrade {path}"));
            }
        };
        let head = String::from_utf8_lossy(&head);
        socket.replies.push(quote(head.lines().collect::<Vec<_>>().join("\n").as_bytes()));
        Ok(socket)
    }

    pub(crate) fn send(&mut self, frames: &[Frame]) {
        let mut bytes = Vec::new();
        for frame in frames {
            let payload = self.names.to_server(&frame.payload);
            write_frame(&Frame { payload, ..frame.clone() }, &mut bytes);
        }
        self.write(&bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        // The server may have closed this connection: it is read to its end then.
        let _ = self.stream.write_all(bytes);
    }

    /// Waits for bytes.
    fn read(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16384];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.has_ended = true,
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                acknowledge(&self.stream);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let last = self.replies.last();
                return Err(format!("a {:?} connection is silent after {last:?}", self.kind));
            }
            Err(_) => self.has_ended = true,
        }
        Ok(())
    }

    fn take_frames(&mut self) {
        while let Some((first, payload)) = take_frame(&mut self.received) {
            let is_barrier = match self.kind {
                Kind::Binary => {
                    payload.starts_with(&binary(COUNT, BARRIER.as_bytes(), b"", None)[..10])
                }
                Kind::Json => contains(&payload, br#""requestid":"barrier""#),
                Kind::Deaf => first == 0x8a,
            };
            if is_barrier {
                self.barriers += 1;
            } else {
                let payload = self.names.to_steps(&payload);
                self.replies.push(format!("{first:02x} {}", quote(&payload)));
            }
        }
    }

    /// Makes the server show that it has processed everything that was sent here.
    pub(crate) fn raise_barrier(&mut self) {
        let frame = match self.kind {
            Kind::Binary => {
                Frame::new(2, binary(COUNT, BARRIER.as_bytes(), BARRIER.as_bytes(), None))
            }
            Kind::Json => {
                Frame::new(1, r#"{"action":"count","requestid":"barrier","queue":"barrier"}"#)
            }
            Kind::Deaf => Frame::new(9, ""),
        };
        let mut bytes = Vec::new();
        write_frame(&frame, &mut bytes);
        self.write(&bytes);
    }

    pub(crate) fn await_barrier(&mut self) -> Result<(), String> {
        let awaited = self.barriers + 1;
        while self.barriers < awaited && !self.has_ended {
            self.read()?;
            self.take_frames();
        }
        Ok(())
    }

    /// Moves deliveries behind the other answers, which arrive in the order of their requests, while deliveries arrive
    /// at any time.
    pub(crate) fn sort_replies(&mut self) {
        self.replies.sort_by_key(|reply| {
            let is_refused = reply.ends_with("queue not exists.");
            reply.starts_with("82 \\x04") && !is_refused || reply.contains(r#""action":"pull""#)
        });
    }

    /// The answer to a binary request.
    pub(crate) fn ask(
        &mut self,
        action: u8,
        id: &str,
        queue: &str,
        body: Option<&[u8]>,
    ) -> Result<String, String> {
        let before = self.replies.len();
        let request = binary(action, id.as_bytes(), queue.as_bytes(), body);
        self.send(&[Frame::new(2, request)]);
        while self.replies.len() == before && !self.has_ended {
            self.read()?;
            self.take_frames();
        }
        self.replies
            .pop()
            .filter(|_| !self.has_ended)
            .ok_or_else(|| format!("no answer on {queue}"))
    }

    /// Asks for a message that is there, in the connection's own way.
    pub(crate) fn pull_sentinel(&mut self, queue: &str) -> Result<(), String> {
        let frame = match self.kind {
            Kind::Binary => Frame::new(2, binary(4, b"sentinel", queue.as_bytes(), None)),
            Kind::Json => Frame::new(
                1,
                format!(r#"{{"action":"pull","requestid":"sentinel","queue":"{queue}"}}"#),
            ),
            Kind::Deaf => return Ok(()),
        };
        let before = self.replies.len();
        self.send(&[frame]);
        while self.replies.len() == before && !self.has_ended {
            self.read()?;
            self.take_frames();
        }
        // It has no part in what is compared.
        self.replies.truncate(before);
        Ok(())
    }

    pub(crate) const fn is_deaf(&self) -> bool {
        matches!(self.kind, Kind::Deaf)
    }

    pub(crate) fn end(&mut self, ending: Ending) -> Result<(), String> {
        match ending {
            Ending::Close => {
                let _ = self.stream.shutdown(Shutdown::Both);
            }
            Ending::HalfClose => {
                let _ = self.stream.shutdown(Shutdown::Write);
                while !self.has_ended {
                    self.read()?;
                    self.take_frames();
                }
            }
            Ending::Reset => {
                let socket = socket2::SockRef::from(&self.stream);
                // The connection is reset when dropped, by whoever opens or ends the side.
                socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            }
        }
        self.has_ended = true;
        Ok(())
    }
}

/// Acknowledges received data at once, because the server holds back every small answer until the previous one is
/// acknowledged.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_quickack(true).unwrap();
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}
