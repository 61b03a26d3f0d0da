//! Programs that a session starts: shell commands and editors.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use tempfile::NamedTempFile;

use crate::error::{CliError, Exit};
use crate::system::env::Environment;
use crate::system::process;
use crate::text::lexer::Word;
use crate::text::literal::to_path;

/// Runs a shell line; it may read from a person's terminal, but never from a
/// script.
///
/// # Errors
/// It exited with a code other than 0, or could not be started: exit 1.
pub(super) fn shell(line: &Word, person: bool) -> Result<(), CliError> {
    let line = to_path(line).map_err(CliError::usage)?;
    let mut command = shell_command(line.as_os_str());
    if !person {
        command.stdin(Stdio::null());
    }
    let status = command.status().map_err(|error| cannot_start("the shell", &error))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(status))
}

/// The error for a shell line that ended this way.
pub(super) fn failed(status: ExitStatus) -> CliError {
    let message = format!("the shell command {}", how(status));
    CliError::new(Exit::Negative, "COMMAND_FAILED", message)
}

/// A command that runs a shell line.
pub(super) fn shell_command(line: &OsStr) -> Command {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut command = Command::new(shell);
    command.arg(flag).arg(line);
    command
}

/// Lets a person edit a text, with the program that `VISUAL` or `EDITOR` names.
///
/// # Errors
/// The editor cannot be started, or exited with a code other than 0: the text must then not be used.
pub fn edit(text: &[u8], environment: &Environment) -> Result<Vec<u8>, CliError> {
    let default = if cfg!(windows) { "notepad" } else { "vi" };
    let named = environment.var("VISUAL").or_else(|| environment.var("EDITOR"));
    let editor = named.unwrap_or_else(|| default.to_owned());
    let scratch = scratch(text).map_err(|error| CliError::writing("a file to edit", &error))?;
    // The variable may hold arguments, as everywhere: the shell splits it.
    let mut command = if cfg!(windows) {
        let mut command = shell_command(OsStr::new(&editor));
        command.arg(scratch.path());
        command
    } else {
        let mut command = shell_command(OsStr::new(&format!("{editor} \"$1\"")));
        command.arg("sh").arg(scratch.path());
        command
    };
    let status = command.status().map_err(|error| cannot_start(&editor, &error))?;
    if !status.success() {
        return Err(CliError::new(
            Exit::Negative,
            "CANCELLED",
            format!("nothing was done: the editor `{editor}` {}", how(status)),
        )
        .hint("VISUAL or EDITOR names the editor"));
    }
    // The editor may have replaced the file.
    fs::read(scratch.path()).map_err(|error| CliError::reading("the edited file", &error))
}

/// Writes a text into a new private file.
///
/// # Errors
/// It cannot be written.
pub fn keep(text: &[u8]) -> io::Result<PathBuf> {
    Ok(scratch(text)?.keep()?.1)
}

/// A private file that exists as long as this value.
fn scratch(text: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("session-").suffix(".txt").tempfile()?;
    file.write_all(text)?;
    file.flush()?;
    Ok(file)
}

fn how(status: ExitStatus) -> String {
    match process::signal(status) {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("exited with code {}", process::code(status)),
    }
}

pub(super) fn cannot_start(program: &str, error: &io::Error) -> CliError {
    CliError::new(Exit::Negative, "COMMAND_FAILED", format!("cannot start {program}: {error}"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn edited(editor: &str) -> Result<Vec<u8>, CliError> {
        edit(b"put a\n", &Environment::of(&[("VISUAL", ""), ("EDITOR", editor)]))
    }

    #[test]
    fn an_editor_gets_a_private_file_and_a_failure_cancels() {
        assert_eq!(edited("sed -i s/a/b/").unwrap(), b"put b\n");
        let error = edited("false").unwrap_err();
        assert_eq!((error.exit, error.code), (Exit::Negative, "CANCELLED"));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("look");
        fs::write(&script, "stat -c %a \"$1\" > \"$1.new\" && mv \"$1.new\" \"$1\"").unwrap();
        assert_eq!(edited(&format!("sh {}", script.display())).unwrap(), b"600\n");
    }

    #[test]
    fn a_shell_command_that_fails_says_how() {
        let word = |text: &str| Word {
            bytes: text.as_bytes().to_vec(),
            literal: true,
            start: 0,
            end: 0,
            heredoc: false,
        };
        shell(&word("test 'a b' = \"a b\""), false).unwrap();
        let error = shell(&word("exit 7"), false).unwrap_err();
        assert!(error.message.contains("code 7"), "{error}");
        assert!(shell(&word("kill -9 $$"), false).unwrap_err().message.contains("signal 9"));
        // In a script, stdin is the script itself.
        shell(&word("! read -r line"), false).unwrap();
    }
}
