//! The pager, for results that are taller than the screen.

use std::io::{self, Write};
use std::process::Stdio;

use super::outside::shell_command;
use crate::error::CliError;
use crate::system::env::Environment;

/// When results go to the pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// If they are taller than the screen.
    Auto,
    Never,
}

/// The values of the setting `pager`.
pub(super) const WORDS: &[&str] = &["on", "off", "auto"];

/// Shows results to a person.
pub(super) struct Pager {
    when: When,
    command: String,
}

impl Pager {
    /// The pager of `PREFIX_PAGER` or `PAGER`.
    pub(super) fn new(prefix: &str, environment: &Environment) -> Self {
        let named =
            environment.var(&format!("{prefix}_PAGER")).or_else(|| environment.var("PAGER"));
        let default = if cfg!(windows) { "more" } else { "less" };
        Self { when: When::Auto, command: named.unwrap_or_else(|| default.to_owned()) }
    }

    /// Whether results must be measured before they are shown.
    pub(super) fn wants(&self) -> bool {
        self.when != When::Never
    }

    /// The current value of the setting.
    pub(super) fn word(&self) -> &'static str {
        match self.when {
            When::Always => "on",
            When::Never => "off",
            When::Auto => "auto",
        }
    }

    /// Changes when it is used, to one of [`WORDS`].
    pub(super) fn set(&mut self, word: &str) {
        self.when = match word {
            "on" => When::Always,
            "off" => When::Never,
            _ => When::Auto,
        };
    }

    /// Shows a result: on the screen if it fits, else with the pager. Returns a message for the person if there is no
    /// pager.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub(super) fn show(&mut self, result: &[u8]) -> Result<Option<String>, CliError> {
        let pages = match self.when {
            When::Always => !result.is_empty(),
            When::Auto => screen().is_some_and(|screen| height(result, screen.0) > screen.1),
            When::Never => false,
        };
        let mut said = None;
        if pages {
            match self.page(result) {
                Ok(()) => return Ok(None),
                Err(error) => {
                    self.when = When::Never;
                    said = Some(format!("cannot use the pager {}: {error}", self.command));
                }
            }
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(result).and_then(|()| stdout.flush());
        written.map_err(|error| CliError::writing("stdout", &error))?;
        Ok(said)
    }

    fn page(&self, result: &[u8]) -> io::Result<()> {
        let mut command = shell_command(self.command.as_ref());
        if std::env::var_os("LESS").is_none() {
            // Colours, no clearing of the screen, and exiting if everything fits after all.
            command.env("LESS", "FRX");
        }
        let mut pager = command.stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = pager.stdin.take() {
            // Someone who leaves the pager early has seen enough.
            let _ = stdin.write_all(result);
        }
        let status = pager.wait()?;
        // The exit codes of a shell for a command that it cannot find or run.
        match status.code() {
            Some(code @ (126 | 127)) => {
                Err(io::Error::other(format!("it exited with code {code}")))
            }
            _ => Ok(()),
        }
    }
}

/// The width and height of the screen.
fn screen() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size()?;
    Some((usize::from(width.0).max(1), usize::from(height.0)))
}

/// Number of screen lines that a result takes, plus one for the prompt.
fn height(result: &[u8], width: usize) -> usize {
    let lines = result.strip_suffix(b"\n").unwrap_or(result).split(|byte| *byte == b'\n');
    let rows = |line: &[u8]| String::from_utf8_lossy(line).chars().count().div_ceil(width).max(1);
    lines.map(rows).sum::<usize>() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_take_several_of_the_screen() {
        assert_eq!(height(b"", 10), 2);
        assert_eq!(height(b"a\nb\n", 10), 3);
        assert_eq!(height(b"0123456789\n0123456789a\n", 10), 4);
        assert_eq!(height("ääääääääää\n".as_bytes(), 10), 2);
    }

    #[test]
    fn the_tools_own_variable_wins() {
        let environment = Environment::of(&[("T_PAGER", "mine"), ("PAGER", "yours")]);
        assert_eq!(Pager::new("T", &environment).command, "mine");
        assert_eq!(Pager::new("X", &environment).command, "yours");
        let mut pager = Pager::new("X", &Environment::of(&[]));
        for word in WORDS {
            pager.set(word);
            assert_eq!(pager.word(), *word);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pager_that_ends_early_is_no_error_and_a_missing_one_is() {
        let pager = |command: &str| Pager { when: When::Always, command: command.to_owned() };
        let long = vec![b'x'; 1 << 20];
        pager("head -c 0").page(&long).unwrap();
        pager("test \"$LESS\" = FRX -o -n \"$LESS\"; cat > /dev/null").page(&long).unwrap();
        assert!(pager("/does/not/exist 2>/dev/null").page(&long).is_err());
    }
}
