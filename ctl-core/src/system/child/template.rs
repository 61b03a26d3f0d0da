//! The command that a worker runs for each job: a program with its arguments, or a shell line.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use bytes::Bytes;

use super::data::{Data, DataArgs};
use crate::error::CliError;

/// The command for each job. Nothing of a job is ever put into its words: a shell would execute it.
#[derive(Debug, Clone)]
pub struct Template {
    words: Vec<OsString>,
    is_shell: bool,
}

impl Template {
    /// From a shell line, if given, else from the words of a command.
    ///
    /// # Errors
    /// Neither is given: exit 2.
    pub fn new(shell: Option<&OsStr>, words: &[OsString]) -> Result<Self, CliError> {
        let words = shell.map_or_else(|| words.to_vec(), shell_words);
        match words.is_empty() {
            true => Err(CliError::usage("no command given")),
            false => Ok(Self { words, is_shell: shell.is_some() }),
        }
    }

    /// Whether the tool's own shell runs it.
    #[must_use]
    pub(crate) fn is_shell(&self) -> bool {
        self.is_shell
    }

    /// The command for one job, without its further environment. `how` says how it gets the data.
    ///
    /// # Errors
    /// Those of [`DataArgs`]: the data cannot be an argument (65), or its file cannot be written (74).
    pub fn command(&self, how: DataArgs, body: &Bytes) -> Result<(Command, Data), CliError> {
        let data = how.hand_over(body)?;
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        command.args(words).args(data.path()).args(data.argument());
        command.stdin(if how.is_stdin() { Stdio::piped() } else { Stdio::null() });
        Ok((command, data))
    }
}

/// Words after these become `$1` and so on.
fn shell_words(line: &OsStr) -> Vec<OsString> {
    if cfg!(windows) {
        return vec!["cmd".into(), "/C".into(), line.to_owned()];
    }
    vec!["sh".into(), "-c".into(), line.to_owned(), "sh".into()]
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_last_argument_and_goes_with_the_job() {
        let how = DataArgs { file: true, arg: false };
        for (shell, words, before) in [
            (None, &["convert", "-i"][..], &["-i"][..]),
            (Some(OsStr::new("wc \"$1\"")), &[], &["-c", "wc \"$1\"", "sh"]),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let template = Template::new(shell, &words).unwrap();
            let (command, data) = template.command(how, &"body".into()).unwrap();
            let arguments: Vec<&OsStr> = command.get_args().collect();
            let (path, others) = arguments.split_last().unwrap();
            assert_eq!(others, before);
            assert_eq!(std::fs::read(path).unwrap(), b"body");
            assert!(data.input().is_empty());
            drop(data);
            assert!(!std::path::Path::new(path).exists());
        }
        assert_eq!(Template::new(None, &[]).unwrap_err().exit.code(), 2);
    }
}
