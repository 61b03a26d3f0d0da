//! Results redirected from stdout: `CMD | SHELL COMMAND`, `CMD > FILE`, `CMD >> FILE`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::outside::{cannot_start, failed, shell_command};
use crate::error::CliError;
use crate::output::Destination;
use crate::text::lexer::Word;
use crate::text::literal::to_path;

/// The target of a line's results.
#[derive(Debug)]
pub(super) enum Target {
    /// A file.
    File { path: PathBuf, appends: bool },
    /// A shell line.
    Shell(Word),
}

/// The command of a line, and the target of its results if not stdout.
///
/// # Errors
/// Something is missing before or after the sign, or there is too much: exit 2.
pub(super) fn split(words: &[Word]) -> Result<(&[Word], Option<Target>), CliError> {
    let Some(at) = words.iter().position(|word| word.redirection().is_some()) else {
        return Ok((words, None));
    };
    let (command, rest) = words.split_at(at);
    let sign = rest.first().and_then(Word::redirection).unwrap_or_default();
    let quoted = || format!("\"{sign}\" in quotes, for the character itself");
    if command.is_empty() {
        return Err(CliError::usage(format!("no command before the {sign}")).hint(quoted()));
    }
    let (Some(to), after) = (rest.get(1).filter(|to| !to.bytes.is_empty()), rest.get(2..)) else {
        let what = if sign == "|" { "shell command" } else { "file" };
        return Err(CliError::usage(format!("no {what} after the {sign}")).hint(quoted()));
    };
    if let Some(word) = after.and_then(<[Word]>::first) {
        let word = String::from_utf8_lossy(&word.bytes).into_owned();
        let text = format!("`{word}` follows the file of {sign}, which must end the line");
        return Err(CliError::usage(text).hint(quoted()));
    }
    let target = match sign {
        "|" => Target::Shell(to.clone()),
        sign => {
            let path = to_path(to).map_err(CliError::usage)?;
            Target::File { path, appends: sign == ">>" }
        }
    };
    Ok((command, Some(target)))
}

/// An open target for results.
pub(super) struct Way {
    /// The writer.
    pub(super) sink: Box<dyn Write + Send>,
    /// The facts about the target.
    pub(super) destination: Destination,
    /// The process that reads them.
    pub(super) reader: Option<Child>,
}

impl Target {
    /// Opens the file, or starts the shell.
    ///
    /// # Errors
    /// The file cannot be opened: exit 74; the shell cannot be started: exit 1.
    pub(super) fn open(self) -> Result<Way, CliError> {
        match self {
            Self::File { path, appends } => {
                let name = path.display().to_string();
                let mut options = File::options();
                options.create(true).write(true).append(appends).truncate(!appends);
                let file = options.open(&path).map_err(|error| CliError::writing(&name, &error))?;
                let destination = Destination::file(name, &file);
                Ok(Way { sink: Box::new(BufWriter::new(file)), destination, reader: None })
            }
            Self::Shell(line) => {
                let line = to_path(&line).map_err(CliError::usage)?;
                let mut command = shell_command(line.as_os_str());
                command.stdin(Stdio::piped());
                let start = |error| cannot_start("the shell", &error);
                let mut reader = command.spawn().map_err(start)?;
                let stdin = reader.stdin.take();
                let stdin = stdin.ok_or_else(|| CliError::internal("a pipe without a reader"))?;
                let destination = Destination::pipe("the shell command", &stdin);
                let sink = Box::new(BufWriter::new(stdin));
                Ok(Way { sink, destination, reader: Some(reader) })
            }
        }
    }
}

/// Waits until the reader exits.
///
/// # Errors
/// It exited with a code other than 0: exit 1.
pub(super) fn end(reader: Option<Child>) -> Result<(), CliError> {
    let Some(mut reader) = reader else { return Ok(()) };
    let status = reader.wait().map_err(|error| cannot_start("the shell", &error))?;
    if status.success() { Ok(()) } else { Err(failed(status)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lexer::next_statement;

    fn split_text(text: &str) -> Result<(usize, Option<Target>), CliError> {
        let words = next_statement(text.as_bytes()).unwrap().words;
        split(&words).map(|(command, target)| (command.len(), target))
    }

    #[test]
    fn reads_a_file_or_a_shell_command_after_the_sign() {
        let file = |text| match split_text(text).unwrap() {
            (2, Some(Target::File { path, appends })) => (path.display().to_string(), appends),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(file("put x > f"), ("f".to_owned(), false));
        assert_eq!(file("put x >f"), ("f".to_owned(), false));
        assert_eq!(file("put x >>\"a b\""), ("a b".to_owned(), true));
        let (command, target) = split_text("put x | sed \"s/'/|/\" > 'f g' # y").unwrap();
        assert!(
            matches!(&target, Some(Target::Shell(line)) if line.bytes == b"sed \"s/'/|/\" > 'f g' # y"),
            "{target:?}"
        );
        assert_eq!(command, 2);
    }

    #[test]
    fn signs_in_quotes_and_within_words_are_data() {
        for text in ["put \">\"", "put a>b|c", "put '| x'", "put {\">\":1}", "put <<E\n> x\nE\n"] {
            assert!(split_text(text).unwrap().1.is_none(), "{text}");
        }
    }

    #[test]
    fn a_redirection_is_complete_and_last() {
        for text in ["put x >", "put x |", "> f", "| cat", "put x > f g", "put x > f > g"] {
            assert_eq!(split_text(text).unwrap_err().exit.code(), 2, "{text}");
        }
    }
}
