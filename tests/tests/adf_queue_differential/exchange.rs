//! One connection over HTTP, with a request or several.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use fixtures::transcript::quote;

use crate::adf_queue_differential::{
    side::Names,
    step::RUN,
    wire::{Answers, Piece, rows},
};

#[derive(Debug)]
pub(crate) struct Exchange {
    stream: Option<TcpStream>,
    names: Names,
    received: Vec<u8>,
    answers: Answers,
    pub(crate) replies: Vec<String>,
    is_awaited: bool,
    is_head: bool,
    /// The page that may arrive is about a queue of this run.
    is_own_page: bool,
    page: Vec<u8>,
}

impl Exchange {
    pub(crate) fn open(address: SocketAddr, names: &Names) -> Result<Exchange, String> {
        let stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).unwrap();
        Ok(Exchange {
            stream: Some(stream),
            names: names.clone(),
            received: Vec::new(),
            answers: Answers::default(),
            replies: Vec::new(),
            is_awaited: false,
            is_head: false,
            is_own_page: false,
            page: Vec::new(),
        })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        self.is_awaited = true;
        self.is_head = bytes.starts_with(b"HEAD ");
        let target = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        self.is_own_page = String::from_utf8_lossy(target).contains(&format!("?queue=/{RUN}"));
        stream.set_nonblocking(false).unwrap();
        // The server may close while it is sent more than it accepts.
        let _ = stream.write_all(&self.names.to_server(bytes));
    }

    /// Reads what has arrived.
    pub(crate) fn poll(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16384];
        let has_ended = loop {
            match stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        while let Some(piece) = self.answers.take(&mut self.received, self.is_head) {
            self.note(piece);
        }
        if has_ended {
            self.stream = None;
            self.is_awaited = false;
            self.replies.push("end".to_owned());
        }
    }

    fn note(&mut self, piece: Piece) {
        let text = match piece {
            Piece::Head(head) => quote(&self.names.to_steps(head.as_bytes())),
            Piece::Body(body) if self.answers.is_page => {
                self.page.extend(body);
                return;
            }
            Piece::Body(body) => format!("\" {}", quote(&self.names.to_steps(&body))),
            Piece::Done if self.answers.is_page => {
                self.is_awaited = false;
                let page = self.names.to_steps(&std::mem::take(&mut self.page));
                let rows =
                    if self.is_own_page { rows(&String::from_utf8_lossy(&page)) } else { vec![] };
                format!("page \" {} \"", quote(rows.join(" ").as_bytes()))
            }
            Piece::Done => {
                self.is_awaited = false;
                return;
            }
        };
        self.replies.push(text);
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// The answer is there, and so is the connection's end if that was announced.
    pub(crate) fn is_settled(&self) -> bool {
        self.stream.is_none() || !self.is_awaited && !self.answers.is_last
    }

    pub(crate) fn hang_up(&mut self) {
        self.stream = None;
        self.is_awaited = false;
    }
}
