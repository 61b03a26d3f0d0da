//! Heads of HTTP requests and answers.

use std::fmt::Write as _;

use bytes::BytesMut;
use queue_core::excerpt;

use crate::{Error, Result};

/// Maximum length of a line of a request: the server silently closes the connection at a longer one.
const MAX_REQUEST_LINE: usize = 512;
/// Maximum length of an answer's head.
const MAX_HEAD: usize = 16 << 10;
pub(super) const MAX_HEADERS: usize = 64;

/// Appends the lines of a request, and an empty line.
///
/// # Errors
///
/// `InvalidInput` for a line that the server would not read; `out` is unchanged then.
pub(super) fn write(lines: &[&str], out: &mut BytesMut) -> Result<()> {
    if let Some(long) = lines.iter().find(|line| line.len() > MAX_REQUEST_LINE) {
        return Err(Error::invalid(format!(
            "request line {} has {} bytes: the server reads lines of up to {MAX_REQUEST_LINE} (use a shorter queue name, or WebSocket)",
            excerpt(long.as_bytes()),
            long.len()
        )));
    }
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The `Host` header line.
///
/// # Errors
///
/// `InvalidInput` for a name that would break the line.
pub(super) fn host_line(host: &str) -> Result<String> {
    if host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(format!("Host: {host}"));
    }
    let shown = excerpt(host.as_bytes());
    Err(Error::invalid(format!("host {shown} is not valid: it must be visible ASCII")))
}

#[derive(Debug)]
pub(super) struct HttpHead {
    pub(super) status: u16,
    reason: String,
    headers: Vec<(String, Vec<u8>)>,
    /// Its length in bytes.
    pub(super) len: usize,
}

impl HttpHead {
    /// The head at the front of `data`, once it is whole.
    ///
    /// # Errors
    ///
    /// `Protocol` when this is not HTTP, or is longer than 16 KiB.
    pub(super) fn read(data: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let bad = || {
            Error::protocol("the peer does not speak HTTP: is this an Adf.QueueServer?")
                .with_detail(excerpt(data))
        };
        let within = data.get(..MAX_HEAD).unwrap_or(data);
        match response.parse(within).map_err(|_| bad())? {
            httparse::Status::Complete(len) => Ok(Some(HttpHead {
                status: response.code.unwrap_or_default(),
                reason: response.reason.unwrap_or_default().to_owned(),
                headers: response
                    .headers
                    .iter()
                    .map(|header| (header.name.to_owned(), header.value.to_vec()))
                    .collect(),
                len,
            })),
            httparse::Status::Partial if data.len() >= MAX_HEAD => Err(Error::protocol(format!(
                "the head of the reply is longer than {MAX_HEAD} bytes"
            ))),
            httparse::Status::Partial => Ok(None),
        }
    }

    /// The value of a header.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }

    /// Whether the value of a header, without parameters, is this word, ignoring case.
    pub(super) fn is(&self, name: &str, word: &str) -> bool {
        self.get(name).is_some_and(|value| {
            let plain = value.split(|byte| *byte == b';').next().unwrap_or_default();
            plain.trim_ascii().eq_ignore_ascii_case(word.as_bytes())
        })
    }

    /// The status line, for messages.
    pub(super) fn status_line(&self) -> String {
        let mut shown = self.status.to_string();
        if !self.reason.is_empty() {
            let _ = write!(shown, " {}", self.reason.escape_debug());
        }
        shown
    }
}
