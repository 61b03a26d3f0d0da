//! Plays a transcript back: sends what the client sent, and compares the server's answers.

mod translated;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use fixtures::transcript::{Event, Link, Stage, Transcript, replay};

use super::decoder::Decoder;

use crate::error::{CliError, Exit};
use crate::output::Record;
use crate::system::socket::Place;
use crate::text::escape;

/// The largest transcript that is read.
const MOST: u64 = 256 << 20;

/// Reads a transcript.
///
/// # Errors
/// There is no such file (66), or it is not a transcript (65).
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

/// The contents of a transcript.
pub(super) fn record(transcript: &Transcript) -> Record {
    let sent = transcript.events.iter().filter(|event| matches!(event, Event::Send { .. }));
    Record::new()
        .with("transcript", transcript.name.as_str())
        .with("connections", transcript.connections().len())
        .with("events", transcript.events.len())
        .with("sent", sent.count())
}

/// Plays it back, up to the first difference, and returns the number of ids that differed from the recorded ones. With
/// `is_exact`, ids are compared like all other bytes.
///
/// # Errors
/// The server answers differently (1), or cannot be reached (69).
pub(super) fn play<D: Decoder>(
    transcript: &Transcript,
    (place, patience): (&Place, Duration),
    is_exact: bool,
    decoder: fn() -> D,
) -> Result<usize, CliError> {
    let mut stage = Server { place, patience, unreachable: None };
    let played = if is_exact {
        replay(transcript, &mut stage).map(|()| 0).map_err(|error| error.to_string())
    } else {
        translated::replay(transcript, &mut stage, decoder).map_err(|(event, why)| {
            format!("transcript {}, event {}: {why}", transcript.name, event + 1)
        })
    };
    played.map_err(|why| match stage.unreachable {
        Some(why) => CliError::unavailable(format!("cannot reach {place}: {why}")),
        None => CliError::new(Exit::Negative, "DIFFERENT", why)
            .hint("`{int:1}` instead of a number in a received part matches any number"),
    })
}

struct Server<'a> {
    place: &'a Place,
    patience: Duration,
    unreachable: Option<io::Error>,
}

impl Server<'_> {
    fn dial(&self) -> io::Result<Stream> {
        match self.place {
            Place::Tcp(address) => self.dial_tcp(address).map(Stream::Tcp),
            #[cfg(unix)]
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_write_timeout(Some(self.patience))?;
                Ok(Stream::Unix(stream))
            }
            #[cfg(not(unix))]
            Place::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn dial_tcp(&self, address: &str) -> io::Result<TcpStream> {
        let mut last = io::ErrorKind::NotFound.into();
        for address in address.to_socket_addrs()? {
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
    type Link = Stream;

    fn connect(&mut self) -> io::Result<Stream> {
        self.dial().inspect_err(|error| {
            self.unreachable = Some(io::Error::new(error.kind(), error.to_string()));
        })
    }

    fn drain(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A connection to the server.
enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Link for Stream {
    fn half_close(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn patience(&self) -> Option<Duration> {
        match self {
            Self::Tcp(stream) => stream.read_timeout().ok().flatten(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read_timeout().ok().flatten(),
        }
    }
}
