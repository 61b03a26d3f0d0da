//! How a command gets the data of a job: on stdin, as a file, or as an argument.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

use clap::Args;
use tempfile::NamedTempFile;

use crate::error::CliError;

/// Flags that say how a command gets its data; none of them is stdin.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DataArgs {
    /// The data is in a temporary file: {file} in arguments is its path, which is the last argument otherwise
    #[arg(long)]
    pub file: bool,

    /// The data is the last argument; other users can see it in the list of processes
    #[arg(long, conflicts_with = "file")]
    pub arg: bool,
}

/// Data on its way to a command. A file exists as long as this value.
#[derive(Debug)]
pub struct Data {
    /// For stdin.
    pub input: bytes::Bytes,
    _file: Option<NamedTempFile>,
}

/// The longest argument that every system takes, with the NUL behind it.
const LONGEST: usize = 128 << 10;

impl DataArgs {
    /// Puts the data where the command finds it; `arguments` are those of the command.
    ///
    /// # Errors
    /// It cannot be an argument: exit 65, which says something of this job only. The file cannot be written: exit 74.
    pub fn hand_over(
        self,
        data: &bytes::Bytes,
        arguments: &mut Vec<OsString>,
    ) -> Result<Data, CliError> {
        if self.arg {
            arguments.push(argument(data)?);
            return Ok(Data { input: bytes::Bytes::new(), _file: None });
        }
        if !self.file {
            return Ok(Data { input: data.clone(), _file: None });
        }
        let file = write(data).map_err(|error| CliError::writing("a temporary file", &error))?;
        let path = file.path().as_os_str().to_owned();
        let mut is_named = false;
        for argument in arguments.iter_mut() {
            if let Some(put_in) = replace(argument, &path) {
                *argument = put_in;
                is_named = true;
            }
        }
        if !is_named {
            arguments.push(path);
        }
        Ok(Data { input: bytes::Bytes::new(), _file: Some(file) })
    }
}

/// Only its owner can read it.
fn write(data: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::with_prefix("job-")?;
    file.write_all(data)?;
    file.flush()?;
    Ok(file)
}

fn replace(argument: &OsStr, path: &OsStr) -> Option<OsString> {
    let (before, after) = argument.to_str()?.split_once("{file}")?;
    let mut all = OsString::from(before);
    all.push(path);
    all.push(replace(OsStr::new(after), path).unwrap_or_else(|| after.into()));
    Some(all)
}

fn argument(data: &[u8]) -> Result<OsString, CliError> {
    let refuse = |why: &str| CliError::bad_data(format!("the data cannot be an argument: {why}"));
    if data.contains(&0) {
        return Err(refuse("it holds a NUL"));
    }
    if data.len() >= LONGEST {
        return Err(refuse("it is longer than the system takes"));
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
    fn a_file_is_where_the_arguments_say_and_goes_with_the_job() {
        let file = DataArgs { file: true, arg: false };
        let mut arguments = vec!["-i".into(), "{file}:{file}".into()];
        let data = file.hand_over(&"body".into(), &mut arguments).unwrap();
        let (path, again) = arguments[1].to_str().unwrap().split_once(':').unwrap();
        assert_eq!((arguments.len(), path), (2, again));
        assert_eq!(std::fs::read(path).unwrap(), b"body");
        assert!(data.input.is_empty());
        drop(data);
        assert!(!std::path::Path::new(path).exists());
        let mut arguments = Vec::new();
        let _data = file.hand_over(&"body".into(), &mut arguments).unwrap();
        assert_eq!(std::fs::read(&arguments[0]).unwrap(), b"body");
    }

    #[test]
    fn what_cannot_be_an_argument_is_refused() {
        let arg = DataArgs { file: false, arg: true };
        let mut arguments = Vec::new();
        arg.hand_over(&"$(rm) `x`; \n".into(), &mut arguments).unwrap();
        assert_eq!(arguments, ["$(rm) `x`; \n"]);
        for bad in [bytes::Bytes::from_static(b"a\0b"), vec![b'x'; LONGEST].into()] {
            assert_eq!(arg.hand_over(&bad, &mut arguments).unwrap_err().exit.code(), 65);
        }
        assert_eq!(arguments.len(), 1);
    }
}
