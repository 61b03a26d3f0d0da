//! Variables of scripts: `${name}` in a statement, given with `--var name=value`.
//!
//! Values are substituted after the line has been split into words: whatever a value contains, it never becomes another
//! word. A word that begins with a variable is data, like a quoted one: never a flag, a file name after `@`, or the `-`
//! that means stdin. Words in single quotes, `b64:` and `hex:` words and here documents with a quoted end (`<<'END'`)
//! stay unchanged. `$${` stands for `${`. Without any variables, nothing is substituted.
//!
//! Nothing is substituted in a shell line (`!`, or after `|`), because the shell would execute what a value contains.
//! It has the variables in its environment instead, so `!echo "$name"` works.

use std::collections::BTreeMap;

use crate::error::CliError;
use crate::text::lexer::{Statement, Word};

/// The variables of a session.
#[derive(Clone, Debug, Default)]
pub struct Vars(BTreeMap<String, String>);

/// Reads `NAME=VALUE`, for `--var`.
///
/// # Errors
/// A message with the rule.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "`{text}` is not NAME=VALUE with a name of letters, digits and _ (example: --var tube=mail)"
        )),
    }
}

impl FromIterator<(String, String)> for Vars {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Vars {
    /// Refuses a variable that would hide one of the environment from shell commands.
    ///
    /// # Errors
    /// There is one: exit 2.
    pub fn check(&self, is_set: impl Fn(&str) -> bool) -> Result<(), CliError> {
        match self.0.keys().find(|name| is_set(name)) {
            None => Ok(()),
            Some(name) => Err(CliError::usage(format!(
                "--var {name}=… would shadow the environment's {name} in shell commands (!)"
            ))
            .hint("another name")
            .hint("--no-shell, to disable shell commands")),
        }
    }

    /// Names and values, for the environment of shell commands.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Substitutes the values in a statement, but not in a shell line; `text` is the statement's source.
    ///
    /// # Errors
    /// A variable that does not exist: exit 2.
    pub fn fill(&self, text: &[u8], statement: &mut Statement) -> Result<(), CliError> {
        let is_shell = statement.words.first().is_some_and(|verb| verb.bytes == b"!");
        if self.0.is_empty() || is_shell {
            return Ok(());
        }
        let shell = statement.words.iter().position(|word| word.redirection() == Some("|"));
        for word in statement.words.iter_mut().take(shell.unwrap_or(usize::MAX)) {
            if takes_values(text, word) && find(&word.bytes, b"${").is_some() {
                word.literal |= word.bytes.starts_with(b"${");
                word.bytes = self.filled(&word.bytes)?;
                word.filled = true;
            }
        }
        Ok(())
    }

    fn filled(&self, bytes: &[u8]) -> Result<Vec<u8>, CliError> {
        let (mut filled, mut rest) = (Vec::new(), bytes);
        while let Some(at) = find(rest, b"${") {
            let (before, from) = rest.split_at(at);
            let end = from.iter().position(|byte| *byte == b'}');
            let name = end.and_then(|end| std::str::from_utf8(from.get(2..end)?).ok());
            if let Some(kept) = before.strip_suffix(b"$") {
                filled.extend_from_slice(kept);
                filled.extend_from_slice(b"${");
                rest = from.get(2..).unwrap_or_default();
                continue;
            }
            let Some((name, end)) = name.filter(|name| is_name(name)).zip(end) else {
                return Err(CliError::usage("`${` does not start a variable")
                    .hint("$${ for a literal ${, or single quotes"));
            };
            let value = self.0.get(name).ok_or_else(|| self.unknown(name))?;
            filled.extend_from_slice(before);
            filled.extend_from_slice(value.as_bytes());
            rest = from.get(end + 1..).unwrap_or_default();
        }
        filled.extend_from_slice(rest);
        Ok(filled)
    }

    fn unknown(&self, name: &str) -> CliError {
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        CliError::usage(format!("there is no variable `{name}` (there are: {})", known.join(", ")))
            .hint(format!("--var {name}=VALUE"))
    }
}

/// Whether values may be substituted in the word.
fn takes_values(text: &[u8], word: &Word) -> bool {
    let written = text.get(word.start..word.end).unwrap_or_default();
    if word.heredoc {
        return !written.contains(&b'\'');
    }
    !["'", "b64:", "hex:"].iter().any(|start| written.starts_with(start.as_bytes()))
}

fn is_name(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    starts && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lexer::next_statement;

    fn filled(text: &str) -> Result<Vec<Word>, String> {
        let pairs = [("tube", "mail box"), ("flag", "-x"), ("file", "@/etc/passwd")];
        let vars: Vars = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let mut statement = next_statement(text.as_bytes()).unwrap();
        vars.fill(text.as_bytes(), &mut statement).map_err(|error| error.message)?;
        Ok(statement.words)
    }

    fn words(text: &str) -> Vec<String> {
        let text_of = |word: Word| String::from_utf8(word.bytes).unwrap();
        filled(text).unwrap().into_iter().map(text_of).collect()
    }

    #[test]
    fn a_value_never_becomes_another_word_a_flag_or_a_file() {
        assert_eq!(words("use ${tube}"), ["use", "mail box"]);
        assert_eq!(words("put a${tube}${flag}z"), ["put", "amail box-xz"]);
        assert_eq!(words("put {\"a\": \"${tube}\"}")[1], "{\"a\": \"mail box\"}");
        let file = filled("put ${file} x${file} @${tube}").unwrap();
        let literal: Vec<bool> = file.iter().map(|word| word.literal).collect();
        assert_eq!(literal, [false, true, false, false]);
    }

    #[test]
    fn what_is_quoted_for_it_stays_as_it_is() {
        assert_eq!(
            words("put '${tube}' \"${tube}\" $${tube}"),
            ["put", "${tube}", "mail box", "${tube}"]
        );
        assert_eq!(words("put <<E\n${tube}\nE"), ["put", "mail box"]);
        assert_eq!(words("put <<'E'\n${tube}\nE"), ["put", "${tube}"]);
        assert_eq!(words("put hex:247b78"), ["put", "${x"]);
        let mut statement = next_statement(b"put ${tube}").unwrap();
        Vars::default().fill(b"put ${tube}", &mut statement).unwrap();
        assert_eq!(statement.words[1].bytes, b"${tube}");
    }

    #[test]
    fn nothing_is_put_into_a_line_for_the_shell() {
        assert_eq!(words("!echo ${tube} ${nobody}"), ["!", "echo ${tube} ${nobody}"]);
        let behind = filled("5 ! \"echo ${tube}\"").unwrap();
        assert!(behind[2].filled && !behind[1].filled);
    }

    #[test]
    fn a_variable_does_not_hide_one_of_the_environment() {
        let vars: Vars = [("tube".to_owned(), "mail".to_owned())].into_iter().collect();
        vars.check(|name| name == "PATH").unwrap();
        let error = vars.check(|name| name == "tube").unwrap_err();
        assert!(error.exit.code() == 2 && error.message.contains("tube"), "{error}");
    }

    #[test]
    fn what_is_no_variable_is_explained() {
        let unknown = filled("use ${tub}").unwrap_err();
        assert_eq!(unknown, "there is no variable `tub` (there are: file, flag, tube)");
        for text in ["put ${tube", "put ${}", "put ${a-b}"] {
            assert!(filled(text).unwrap_err().contains("does not start a variable"), "{text}");
        }
    }

    #[test]
    fn assignments_have_a_name_and_any_value() {
        assert_eq!(assignment("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(assignment("a="), Ok(("a".into(), String::new())));
        for text in ["a", "=b", "1=x", "a b=c"] {
            assert!(assignment(text).unwrap_err().contains("NAME=VALUE"), "{text}");
        }
    }
}
