//! How a command gets the data of a job: on stdin, in a file, or as an argument.

use std::ffi::OsString;
use std::io::{self, Write};

use bytes::Bytes;
use clap::Args;
use tempfile::NamedTempFile;

use crate::error::CliError;
use crate::system::process;

/// Flags for passing the data; stdin is the default.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DataArgs {
    /// Pass the data in a temporary file, as {file} or the last argument
    #[arg(hide_short_help = true, long)]
    pub file: bool,

    /// Pass the data as the last argument, which other users can see
    #[arg(hide_short_help = true, long, conflicts_with = "file")]
    pub arg: bool,
}

/// Data on its way to a command.
#[derive(Debug)]
pub enum Data {
    /// To be written to stdin.
    Input(Bytes),
    /// The last argument.
    Argument(OsString),
    /// A file, which is removed when this is dropped.
    File(NamedTempFile),
}

impl Data {
    /// The data for stdin.
    pub fn input(&self) -> Bytes {
        match self {
            Self::Input(input) => input.clone(),
            Self::Argument(_) | Self::File(_) => Bytes::new(),
        }
    }
}

/// Maximum length of an argument on all systems, including its NUL.
const LONGEST: usize = 128 << 10;

impl DataArgs {
    /// Puts the data in place for the command.
    ///
    /// # Errors
    /// It cannot be an argument: exit 65, which concerns only this job. The file cannot be written: exit 74, or 75 if
    /// the system has no room for it now.
    pub(super) fn hand_over(self, data: &Bytes) -> Result<Data, CliError> {
        Ok(match self {
            Self { arg: true, .. } => Data::Argument(argument(data)?),
            Self { file: true, .. } => {
                Data::File(write(data).map_err(|error| cannot_write(&error))?)
            }
            _ => Data::Input(data.clone()),
        })
    }
}

/// Only the owner can read it.
fn write(data: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::with_prefix("job-")?;
    file.write_all(data)?;
    file.flush()?;
    Ok(file)
}

fn cannot_write(error: &io::Error) -> CliError {
    const WHAT: &str = "a temporary file";
    if process::is_shortage(error) {
        return CliError::shortage(format!("cannot write {WHAT}: {error}"));
    }
    CliError::writing(WHAT, error)
}

fn argument(data: &[u8]) -> Result<OsString, CliError> {
    let refuse = |why: &str| CliError::bad_data(format!("the data cannot be an argument: {why}"));
    if data.contains(&0) {
        return Err(refuse("it has a NUL byte"));
    }
    if data.len() >= LONGEST {
        return Err(refuse("it is longer than the system allows"));
    }
    system(data).ok_or_else(|| refuse("it is not UTF-8"))
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)]
fn system(data: &[u8]) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Some(OsString::from_vec(data.to_vec()))
}

#[cfg(not(unix))]
fn system(data: &[u8]) -> Option<OsString> {
    std::str::from_utf8(data).ok().map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_data_that_cannot_be_an_argument() {
        let arg = DataArgs { file: false, arg: true };
        let data = arg.hand_over(&"$(rm) `x`; \n".into()).unwrap();
        assert!(matches!(data, Data::Argument(argument) if argument == "$(rm) `x`; \n"));
        for bad in [Bytes::from_static(b"a\0b"), vec![b'x'; LONGEST].into()] {
            assert_eq!(arg.hand_over(&bad).unwrap_err().exit.code(), 65);
        }
    }
}
