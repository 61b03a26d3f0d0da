//! Loops over plain sockets, which only move the bytes of a plan; they know no queue.
//!
//! No deadlines, no reconnecting. Buffers are reused, everything that can go out at once does, and `TCP_NODELAY` is
//! set.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What to write when, for one purpose.
pub trait Plan {
    /// Appends what can be sent now; `false` when everything is done.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Takes the message at the front of `data`, and returns its length; `None` unless all of it is here.
    fn take(&mut self, data: &[u8]) -> Result<Option<usize>>;
}

/// A plain blocking socket.
pub struct Socket {
    stream: TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl Socket {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Socket { stream, out: Vec::new(), input: Input::new() })
    }

    /// Does all of the plan.
    pub fn follow(&mut self, plan: &mut impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            let bytes = self.stream.read(self.input.space())?;
            self.input.received(bytes, plan)?;
        }
        Ok(())
    }
}

/// The same over tokio's socket.
pub struct TokioSocket {
    stream: tokio::net::TcpStream,
    out: Vec<u8>,
    input: Input,
}

impl TokioSocket {
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(TokioSocket { stream, out: Vec::new(), input: Input::new() })
    }

    /// Does all of the plan.
    pub async fn follow(&mut self, plan: &mut impl Plan) -> Result<()> {
        while plan.fill(&mut self.out) {
            if !self.out.is_empty() {
                self.stream.write_all(&self.out).await?;
                self.out.clear();
            }
            let bytes = self.stream.read(self.input.space()).await?;
            self.input.received(bytes, plan)?;
        }
        Ok(())
    }
}

/// Larger than most messages, so that a read has room.
const BUFFER: usize = 256 * 1024;

/// Bytes read and not yet understood.
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn new() -> Self {
        Input { buffer: vec![0; BUFFER], start: 0, end: 0 }
    }

    /// Room for a read.
    fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end > self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Passes all whole messages to the plan, after a read has returned this number of bytes.
    fn received(&mut self, bytes: usize, plan: &mut impl Plan) -> Result<()> {
        ensure!(bytes > 0, "the server closed the connection");
        self.end += bytes;
        loop {
            let data = self.buffer.get(self.start..self.end).unwrap_or_default();
            match plan.take(data)? {
                Some(length) => self.start += length,
                None => return Ok(()),
            }
        }
    }
}
