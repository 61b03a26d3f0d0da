//! The few commands and replies that the scenarios need.

use anyhow::{Result, bail, ensure};

/// Appends a put.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(b"put 1024 0 60 ");
    number(out, body.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends a reserve that does not wait.
pub fn reserve(out: &mut Vec<u8>) {
    out.extend_from_slice(b"reserve-with-timeout 0\r\n");
}

/// Appends a delete.
pub fn delete(out: &mut Vec<u8>, id: u64) {
    out.extend_from_slice(b"delete ");
    number(out, id);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A reply, as far as the scenarios need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Inserted,
    Deleted,
    TimedOut,
    Reserved(u64),
}

/// Larger than any reply, so that a read always has room.
const BUFFER: usize = 256 * 1024;

/// Bytes read and not yet understood.
pub struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub fn new() -> Self {
        Input { buffer: vec![0; BUFFER].into(), start: 0, end: 0 }
    }

    /// Room for a read.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end > BUFFER / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Records what a read returned.
    pub fn received(&mut self, bytes: usize) -> Result<()> {
        ensure!(bytes > 0, "the server closed the connection");
        self.end += bytes;
        Ok(())
    }

    /// The next reply, if all of it is here.
    pub fn next(&mut self) -> Result<Option<Reply>> {
        let data = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(line_end) = memchr::memchr(b'\n', data) else { return Ok(None) };
        let line = data.get(..line_end.saturating_sub(1)).unwrap_or_default();
        let (reply, length) = if let Some(arguments) = line.strip_prefix(b"RESERVED ") {
            let (id, rest) = digits(arguments);
            let (size, _) = digits(rest.get(1..).unwrap_or_default());
            let length = line_end + 1 + size as usize + 2;
            if data.len() < length {
                return Ok(None);
            }
            (Reply::Reserved(id), length)
        } else if line.starts_with(b"INSERTED ") {
            (Reply::Inserted, line_end + 1)
        } else if line == b"DELETED" {
            (Reply::Deleted, line_end + 1)
        } else if line == b"TIMED_OUT" {
            (Reply::TimedOut, line_end + 1)
        } else {
            bail!("the server said {}", line.escape_ascii());
        };
        self.start += length;
        Ok(Some(reply))
    }
}

/// The number at the start, and what follows it.
fn digits(text: &[u8]) -> (u64, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    (digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')), rest)
}
