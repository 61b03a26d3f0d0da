//! Names and ids from arguments and from stdin.

use std::hash::Hash;

use crate::error::{CliError, Exit};
use crate::input::named::once;
use crate::input::{Framing, Input, Records};
use crate::output::messages::Messages;

/// The names in the arguments, each once; `-` stands for names on stdin, one per line of at most `longest` bytes.
///
/// # Errors
/// The error of `one` for an argument; for a line of stdin: exit 65.
pub fn list<T: Clone + Eq + Hash>(
    texts: &[String],
    (input, messages): (&mut Input, &Messages),
    longest: u64,
    one: impl Fn(&str) -> Result<T, CliError>,
) -> Result<Vec<T>, CliError> {
    let mut names = Vec::new();
    for text in texts {
        if text != "-" {
            names.push(one(text)?);
            continue;
        }
        input.invite("names", messages);
        for (number, bytes) in Records::new(input.take()?, Framing::Lines, longest) {
            let bytes = bytes?;
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim();
            if !line.is_empty() {
                names.push(one(line).map_err(|error| of_line(number, error))?);
            }
        }
    }
    once(names.into_iter().map(Ok))
}

/// Invalid input data, whatever the exit code would be for an argument.
fn of_line(number: u64, error: CliError) -> CliError {
    let message = format!("line {number} of stdin: {}", error.message);
    let data = CliError::new(Exit::BadData, "INVALID_INPUT", message);
    error.hints.into_iter().fold(data, CliError::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, CliError> {
        text.parse().map_err(|_| CliError::usage(format!("`{text}` is not a number")).hint("42"))
    }

    fn numbers(texts: &[&str], stdin: &[u8]) -> Result<Vec<u32>, CliError> {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        list(&texts, (&mut Input::Bytes(stdin.to_vec()), &messages), 8, number)
    }

    #[test]
    fn names_come_from_arguments_and_stdin() {
        assert_eq!(numbers(&["1", "-"], b"3\n\n 4 \n5").unwrap(), [1, 3, 4, 5]);
        assert_eq!(numbers(&["5", "05", "-"], b"3\n5\n3\n").unwrap(), [5, 3], "each once");
        let error = numbers(&["-"], b"3\nx\n").unwrap_err();
        assert_eq!((error.exit.code(), error.hints.len()), (65, 1));
        assert!(error.message.contains("line 2"), "{error}");
        assert_eq!(numbers(&["-"], b"3\n123456789\n").unwrap_err().exit.code(), 65);
        assert_eq!(numbers(&["x"], b"").unwrap_err().exit.code(), 2);
    }
}
