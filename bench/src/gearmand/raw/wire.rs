//! The few packets that the scenarios need.

use anyhow::{Context, Result, bail, ensure};

pub const CAN_DO: u32 = 1;
pub const PRE_SLEEP: u32 = 4;
pub const NOOP: u32 = 6;
pub const SUBMIT_JOB: u32 = 7;
pub const JOB_CREATED: u32 = 8;
pub const GRAB_JOB: u32 = 9;
pub const NO_JOB: u32 = 10;
pub const JOB_ASSIGN: u32 = 11;
pub const WORK_COMPLETE: u32 = 13;
pub const ECHO_REQ: u32 = 16;
pub const ECHO_RES: u32 = 17;
pub const SUBMIT_JOB_BG: u32 = 18;

const HEADER: usize = 12;

/// Appends a request; the arguments are separated by NULs.
pub fn request(out: &mut Vec<u8>, packet_type: u32, arguments: &[&[u8]]) {
    let size = arguments.iter().map(|argument| argument.len() + 1).sum::<usize>();
    out.extend_from_slice(b"\0REQ");
    out.extend_from_slice(&packet_type.to_be_bytes());
    out.extend_from_slice(&(size.saturating_sub(1) as u32).to_be_bytes());
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            out.push(0);
        }
        out.extend_from_slice(argument);
    }
}

/// Appends a submission. The unique id has the length of a UUID, and is not in use as long as `number` grows.
pub fn submit(out: &mut Vec<u8>, packet_type: u32, function: &[u8], number: u64, workload: &[u8]) {
    let mut unique = [b'0'; 36];
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    if let Some(end) = unique.get_mut(36 - digits.len()..) {
        end.copy_from_slice(digits);
    }
    request(out, packet_type, &[function, &unique, workload]);
}

/// Bytes read and not yet understood.
pub struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub fn new() -> Self {
        Input { buffer: vec![0; 256 * 1024], start: 0, end: 0 }
    }

    /// Room for a read: of the rest of a large packet, if one has begun.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if let Some((_, length)) = self.head()
            && self.buffer.len() < length
        {
            self.buffer.resize(length, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Records what a read returned.
    pub fn received(&mut self, bytes: usize) -> Result<()> {
        ensure!(bytes > 0, "the server closed the connection");
        self.end += bytes;
        Ok(())
    }

    /// Type and body of the next packet, if all of it is here.
    pub fn next(&mut self) -> Result<Option<(u32, &[u8])>> {
        let Some((packet_type, length)) = self.head() else { return Ok(None) };
        if self.end - self.start < length {
            return Ok(None);
        }
        let packet = self.buffer.get(self.start..self.start + length).unwrap_or_default();
        self.start += length;
        if !packet.starts_with(b"\0RES") {
            bail!("the server sent {}", packet.escape_ascii());
        }
        Ok(Some((packet_type, packet.get(HEADER..).unwrap_or_default())))
    }

    /// Type of the next packet, and its whole length.
    fn head(&self) -> Option<(u32, usize)> {
        let data = self.buffer.get(self.start..self.end)?;
        let (_, rest) = data.split_first_chunk::<4>()?;
        let (packet_type, rest) = rest.split_first_chunk::<4>()?;
        let (size, _) = rest.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*packet_type), HEADER + u32::from_be_bytes(*size) as usize))
    }
}

/// The bytes before the first NUL.
pub fn first(body: &[u8]) -> Result<&[u8]> {
    let end = memchr::memchr(0, body).context("a packet without arguments")?;
    Ok(body.get(..end).unwrap_or_default())
}
