//! Bodies and records from arguments, files and stdin.

pub mod confirm;
pub mod feed;
pub mod glob;
pub mod intake;
pub mod named;
pub mod names;
pub mod own;
pub mod sizes;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal, Read};

use crate::error::CliError;
use crate::output::messages::Messages;
use crate::output::progress::Meter;
use crate::text::literal;

/// The meaning of `-`: stdin, or its replacement in a session.
#[derive(Debug, Default)]
pub enum Input {
    /// The process's stdin.
    #[default]
    Stdin,
    /// Given bytes, such as a here-document of a session.
    Bytes(Vec<u8>),
    /// Not available: stdin is the script, or was already read.
    Taken,
}

/// A source of bytes with its name in errors.
pub struct Source {
    /// Such as `stdin` or the file's name.
    pub name: String,
    /// The bytes.
    pub reader: Box<dyn BufRead + Send>,
    /// How far it has been read, for files.
    pub meter: Option<Meter>,
}

impl Input {
    /// Takes the input; a second call fails.
    ///
    /// # Errors
    /// The input is not available: exit 2.
    pub fn take(&mut self) -> Result<Source, CliError> {
        let mut meter = None;
        let reader: Box<dyn BufRead + Send> = match std::mem::replace(self, Self::Taken) {
            Self::Stdin => {
                meter = Meter::of_stdin();
                Box::new(BufReader::with_capacity(64 * 1024, io::stdin()))
            }
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Self::Taken => {
                return Err(CliError::usage("stdin cannot be read here: it is already in use")
                    .hint("@FILE instead of -"));
            }
        };
        Ok(Source { name: "stdin".to_owned(), reader, meter })
    }

    /// Whether reading would wait for someone to type.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdin) && io::stdin().is_terminal()
    }

    /// Tells the user that `what` is read from the terminal.
    pub fn invite(&self, what: &str, messages: &Messages) {
        if self.is_terminal() {
            messages.note(format!("reading {what} from the terminal; Ctrl-D ends it"));
        }
    }

    /// Whether a whole body is read from this argument and may be empty by mistake: the process's stdin.
    pub fn is_doubtful(&self, argument: &OsStr, framing: Framing) -> bool {
        argument == "-" && framing == Framing::Whole && matches!(self, Self::Stdin)
    }
}

/// Opens `-` or a file.
///
/// # Errors
/// The file cannot be opened: exit 66 when it does not exist.
pub fn open(path: &OsStr, input: &mut Input) -> Result<Source, CliError> {
    if path == "-" {
        return input.take();
    }
    let name = path.to_string_lossy().into_owned();
    let file = File::open(path).map_err(|error| CliError::reading(&name, &error))?;
    let meter = Meter::of(&file);
    Ok(Source { name, reader: Box::new(BufReader::with_capacity(64 * 1024, file)), meter })
}

/// Where the bytes of an argument come from: `@FILE` and `-` are read, `@@x` is the text `@x`, everything else is
/// literal, as are words that a session has marked as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Literal bytes.
    Literal(Vec<u8>),
    /// A file, or `-`.
    Read(std::ffi::OsString),
}

impl Argument {
    /// Parses the notation.
    #[must_use]
    pub fn parse(text: &OsStr) -> Self {
        if let Some(bytes) = literal::decode(text) {
            return Self::Literal(bytes);
        }
        let bytes = text.as_encoded_bytes();
        match bytes {
            b"-" => Self::Read(text.to_owned()),
            [b'@', b'@', ..] => Self::Literal(bytes.get(1..).unwrap_or_default().to_vec()),
            [b'@', rest @ ..] => {
                let lossy = |_| String::from_utf8_lossy(rest).into_owned().into();
                Self::Read(literal::from_bytes(rest).unwrap_or_else(lossy))
            }
            _ => Self::Literal(bytes.to_vec()),
        }
    }

    /// Reads the bytes, at most `limit`.
    ///
    /// # Errors
    /// The file cannot be read (66, 74), or is longer than `limit` (65).
    pub fn load(&self, input: &mut Input, limit: u64) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Literal(bytes) => Ok(bytes.clone()),
            Self::Read(path) => {
                let source = open(path, input)?;
                read_whole(&source.name, source.reader, limit)
            }
        }
    }
}

/// Reads a whole source, at most `limit` bytes.
///
/// # Errors
/// It cannot be read (66, 74), or is longer than `limit` (65).
fn read_whole(name: &str, reader: impl Read, limit: u64) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| CliError::reading(name, &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(too_big(name, limit));
    }
    Ok(bytes)
}

/// How a source is split into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Everything is one record.
    Whole,
    /// One per line, without the line end, LF or CRLF; a last line without one counts.
    Lines,
    /// One per NUL byte; a last record without one counts.
    Null,
}

impl Framing {
    /// The framing selected by a command's flags; everything is one record by default.
    #[must_use]
    pub fn of(lines: bool, null: bool) -> Self {
        match (lines, null) {
            (true, _) => Self::Lines,
            (_, true) => Self::Null,
            _ => Self::Whole,
        }
    }
}

/// The records of a source, one at a time: memory use is bounded by the longest record.
pub struct Records {
    source: Source,
    framing: Framing,
    /// Maximum length of a record; a longer one is skipped and reported.
    limit: u64,
    number: u64,
    ended: bool,
}

impl Records {
    /// Splits `source` into records of at most `limit` bytes.
    #[must_use]
    pub fn new(source: Source, framing: Framing, limit: u64) -> Self {
        Self { source, framing, limit, number: 0, ended: false }
    }

    /// The source's name in errors.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, CliError> {
        let delimiter = match self.framing {
            Framing::Whole => {
                self.ended = true;
                let Source { name, reader, .. } = &mut self.source;
                return read_whole(name, reader, self.limit).map(Some);
            }
            Framing::Lines => b'\n',
            Framing::Null => 0,
        };
        let mut record = Vec::new();
        // One byte for the delimiter, one to detect a record that is too long.
        let most = self.limit.saturating_add(2);
        let name = &self.source.name;
        let failed = |error: io::Error| CliError::reading(name, &error);
        let reader = &mut self.source.reader;
        let read = reader.by_ref().take(most).read_until(delimiter, &mut record).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        if record.last() == Some(&delimiter) {
            record.pop();
            if self.framing == Framing::Lines && record.last() == Some(&b'\r') {
                record.pop();
            }
        } else if u64::try_from(read).is_ok_and(|read| read == most) {
            reader.skip_until(delimiter).map_err(failed)?;
        }
        if u64::try_from(record.len()).is_ok_and(|length| length > self.limit) {
            return Err(too_big("it", self.limit));
        }
        Ok(Some(record))
    }
}

impl Iterator for Records {
    /// The number of a record, from 1, and its bytes.
    type Item = (u64, Result<Vec<u8>, CliError>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        self.number += 1;
        let bytes = self.read().transpose()?;
        // A read error ends the records; a record that is too long is only skipped.
        self.ended |= bytes.as_ref().is_err_and(|error| error.code != TOO_BIG);
        let place = format!("{} record {}", self.source.name, self.number);
        let bytes = bytes.map_err(|error| error.context(place));
        Some((self.number, bytes))
    }
}

/// Records, each with its name for messages, such as `stdin record 7`.
pub type Named = Box<dyn Iterator<Item = (String, Result<Vec<u8>, CliError>)> + Send>;

/// The records of one argument. A literal is one record with the name `literal`; what is read is split by `framing`
/// into records of at most `limit` bytes. Also returns how far a file has been read.
///
/// # Errors
/// The file cannot be opened (66), or stdin is in use (2).
pub fn named(
    argument: Argument,
    literal: String,
    framing: Framing,
    limit: u64,
    input: &mut Input,
) -> Result<(Named, Option<Meter>), CliError> {
    let path = match argument {
        Argument::Literal(body) => {
            return Ok((Box::new(std::iter::once((literal, Ok(body)))), None));
        }
        Argument::Read(path) => path,
    };
    let mut source = open(&path, input)?;
    let meter = source.meter.take();
    let records = Records::new(source, framing, limit);
    let name = records.name().to_owned();
    let whole = framing == Framing::Whole;
    let named = records.map(move |(number, bytes)| {
        let label = if whole { name.clone() } else { format!("{name} record {number}") };
        (label, bytes)
    });
    Ok((Box::new(named), meter))
}

const TOO_BIG: &str = "TOO_BIG";

fn too_big(what: &str, limit: u64) -> CliError {
    CliError::new(
        crate::error::Exit::BadData,
        TOO_BIG,
        format!("{what} exceeds the server's limit of {limit} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(bytes: &[u8], framing: Framing, limit: u64) -> Vec<Result<Vec<u8>, String>> {
        let mut input = Input::Bytes(bytes.to_vec());
        Records::new(input.take().unwrap(), framing, limit)
            .map(|(_, bytes)| bytes.map_err(|error| error.message))
            .collect()
    }

    #[test]
    fn lines_and_null_records() {
        let ok = |parts: &[&str]| -> Vec<Result<Vec<u8>, String>> {
            parts.iter().map(|part| Ok(part.as_bytes().to_vec())).collect()
        };
        assert_eq!(records(b"a\n\nb", Framing::Lines, 9), ok(&["a", "", "b"]));
        assert_eq!(
            records(b"a\r\n\r\nb\r\r\nc\r", Framing::Lines, 9),
            ok(&["a", "", "b\r", "c\r"])
        );
        assert_eq!(records(b"a\n", Framing::Lines, 9), ok(&["a"]));
        assert_eq!(records(b"", Framing::Lines, 9), ok(&[]));
        assert_eq!(records(b"a\nb\0c\0", Framing::Null, 9), ok(&["a\nb", "c"]));
        assert_eq!(records(b"a\nb", Framing::Whole, 9), ok(&["a\nb"]));
        assert_eq!(records(b"", Framing::Whole, 9), ok(&[""]));
    }

    #[test]
    fn skips_an_oversized_record_and_names_it() {
        let got = records(b"ok\n12345\n1234\nlast-too-long", Framing::Lines, 4);
        assert_eq!(got[0], Ok(b"ok".to_vec()));
        assert!(got[1].as_ref().unwrap_err().contains("stdin record 2"), "{got:?}");
        assert_eq!(got[2], Ok(b"1234".to_vec()));
        assert!(got[3].as_ref().unwrap_err().contains("record 4"));
        assert_eq!(got.len(), 4);
        assert!(records(b"12345", Framing::Whole, 4)[0].is_err());
    }

    #[test]
    fn a_meter_follows_reads_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "a\n".repeat(100_000)).unwrap();
        let argument = Argument::Read(path.into());
        let mut input = Input::Stdin;
        let (mut lines, meter) =
            named(argument, String::new(), Framing::Lines, 9, &mut input).unwrap();
        let meter = meter.unwrap();
        assert_eq!((meter.position(), meter.size()), (0, 200_000));
        assert!(lines.next().unwrap().1.is_ok());
        let begun = meter.position();
        assert!(begun > 0 && begun < 200_000, "{begun}");
        assert_eq!((lines.count(), meter.position()), (99_999, 200_000));
        let here = Argument::Read("-".into());
        let mut bytes = Input::Bytes(b"a\n".to_vec());
        assert!(named(here, String::new(), Framing::Lines, 9, &mut bytes).unwrap().1.is_none());
    }

    #[test]
    fn stdin_can_be_taken_once() {
        let mut input = Input::Bytes(b"x".to_vec());
        assert!(input.take().is_ok());
        assert_eq!(input.take().err().unwrap().exit.code(), 2);
    }

    proptest! {
        #[test]
        fn null_records_round_trip(bodies: Vec<Vec<u8>>) {
            let bodies: Vec<Vec<u8>> = bodies.into_iter()
                .map(|body| body.into_iter().filter(|byte| *byte != 0).collect()).collect();
            let mut stream = Vec::new();
            for body in &bodies {
                stream.extend_from_slice(body);
                stream.push(0);
            }
            let got: Vec<Vec<u8>> = records(&stream, Framing::Null, 1 << 20)
                .into_iter().map(Result::unwrap).collect();
            prop_assert_eq!(got, bodies);
        }
    }
}
