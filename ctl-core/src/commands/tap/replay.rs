//! Plays a transcript back: what the client said is said again, and what the server answers is compared.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use fixtures::transcript::{Event, Stage, Transcript, replay};

use crate::error::{CliError, Exit};
use crate::output::Record;
use crate::output::escape;

/// The largest transcript that is read.
const MOST: u64 = 256 << 20;

/// Reads a transcript.
///
/// # Errors
/// There is no such file (66), or it is no transcript (65).
pub(super) fn read(path: &Path) -> Result<Transcript, CliError> {
    let name = escape::line(&path.to_string_lossy()).into_owned();
    let failed = |error: io::Error| CliError::reading(&name, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MOST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST {
        return Err(CliError::bad_data(format!("{name} is longer than {MOST} bytes")));
    }
    let transcript = Transcript::parse(&name, &text).map_err(|error| {
        CliError::bad_data(error.to_string())
            .hint("a file that --record has written, or one of the same format")
    })?;
    if transcript.events.contains(&Event::Drain) {
        let why = "puts its server into drain mode, which replay cannot do";
        return Err(CliError::bad_data(format!("transcript {name} {why}")));
    }
    Ok(transcript)
}

/// What a transcript holds.
pub(super) fn record(transcript: &Transcript) -> Record {
    let sent = transcript.events.iter().filter(|event| matches!(event, Event::Send { .. }));
    Record::new()
        .with("transcript", transcript.name.as_str())
        .with("connections", transcript.connections().len())
        .with("events", transcript.events.len())
        .with("sent", sent.count())
}

/// Plays it back, up to the first difference.
///
/// # Errors
/// The server answers otherwise (1), or cannot be reached (69).
pub(super) fn play(
    transcript: &Transcript,
    address: &str,
    patience: Duration,
) -> Result<(), CliError> {
    let mut stage = Server { address, patience, unreachable: None };
    replay(transcript, &mut stage).map_err(|error| match stage.unreachable {
        Some(why) => CliError::unavailable(format!("cannot reach {address}: {why}")),
        None => CliError::new(Exit::Negative, "DIFFERENT", error.to_string())
            .hint("`{int:1}` instead of a number in a received part matches any number"),
    })
}

struct Server<'a> {
    address: &'a str,
    patience: Duration,
    unreachable: Option<io::Error>,
}

impl Server<'_> {
    fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::ErrorKind::NotFound.into();
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.patience) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(self.patience))?;
                    stream.set_write_timeout(Some(self.patience))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Stage for Server<'_> {
    type Link = TcpStream;

    fn connect(&mut self) -> io::Result<TcpStream> {
        self.dial().inspect_err(|error| {
            self.unreachable = Some(io::Error::new(error.kind(), error.to_string()));
        })
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
