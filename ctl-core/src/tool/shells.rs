//! The shells that complete lines: scripts that ask the tool, and how each shell writes words.

use std::ffi::{OsStr, OsString};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// A shell that completes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Completes by asking the tool.
    Bash,
    /// Completes commands and flags only.
    Elvish,
    /// Completes by asking the tool.
    Fish,
    /// Completes by asking the tool.
    #[value(alias = "nu")]
    Nushell,
    /// Completes commands and flags only.
    #[value(name = "powershell")]
    PowerShell,
    /// Completes by asking the tool.
    Zsh,
    /// No shell, but the man pages.
    Man,
}

/// Arguments of `complete`.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = asking())]
    shell: Shell,

    /// What has been typed
    #[arg(value_name = "WORD", last = true)]
    words: Vec<OsString>,
}

/// The script of a shell that completes by asking this tool.
pub(super) fn script(shell: Shell, name: &str) -> Option<String> {
    let script = match shell {
        Shell::Bash => include_str!("shells/bash"),
        Shell::Zsh => include_str!("shells/zsh"),
        Shell::Fish => include_str!("shells/fish"),
        Shell::Nushell => include_str!("shells/nushell"),
        Shell::Elvish | Shell::PowerShell | Shell::Man => return None,
    };
    Some(script.replace("TOOL", name))
}

/// A shell that has such a script.
fn asking() -> impl TypedValueParser<Value = Shell> {
    let all = Shell::value_variants().iter().filter(|shell| script(**shell, "").is_some());
    PossibleValuesParser::new(all.filter_map(ValueEnum::to_possible_value))
        .try_map(|name| Shell::from_str(&name, false))
}

impl CompleteArgs {
    /// The typed words after the tool's name, and the part of the last one that the shell takes for separate words.
    pub(super) fn typed(&self) -> (Vec<OsString>, String) {
        match (self.shell, self.words.as_slice()) {
            (Shell::Bash, [dividers, line]) => typed_in_bash(dividers, line),
            (Shell::Nushell, words) => {
                (words.iter().map(typed_in_nushell).collect(), String::new())
            }
            (_, words) => (words.to_vec(), String::new()),
        }
    }

    /// A completion in the shell's own form.
    pub(super) fn offer(&self, word: &str, about: &str) -> String {
        match self.shell {
            Shell::Bash => in_bash(word),
            Shell::Zsh => {
                let word = word.replace('\\', "\\\\").replace(':', "\\:");
                // It lists the divider of an empty description among the words.
                if about.is_empty() { word } else { format!("{word}:{about}") }
            }
            Shell::Nushell => format!("{}\t{about}", in_nushell(word)),
            Shell::Fish => format!("{word}\t{about}"),
            // Refused before.
            _ => word.to_owned(),
        }
    }
}

/// The words of a bash line after the first, and the part of the last one that bash takes for separate words.
fn typed_in_bash(dividers: &OsStr, line: &OsStr) -> (Vec<OsString>, String) {
    let (dividers, line) = (dividers.to_string_lossy(), line.to_string_lossy());
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (' ' | '\t' | '\n', None) => words.extend(word.take().map(OsString::from)),
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (end, Some(start)) if end == start => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    let last = word.unwrap_or_default();
    let divider = |c: char| "=:@".contains(c) && dividers.contains(c);
    // An at sign begins the word that follows it.
    let end = |at: usize| {
        if last.get(at..).is_some_and(|rest| rest.starts_with('@')) { at } else { at + 1 }
    };
    let divided = last.rfind(divider).and_then(|at| last.get(..end(at)));
    let divided = divided.unwrap_or_default().to_owned();
    words.push(last.into());
    (words.split_off(1.min(words.len())), divided)
}

/// A word as typed in bash.
fn in_bash(word: &str) -> String {
    let mut typed = String::new();
    for c in word.chars() {
        // At the start of a word, and after the equals sign of an assignment, a tilde means a home directory.
        let is_home = c == '~' && (typed.is_empty() || typed.ends_with('='));
        if is_home || !(c.is_alphanumeric() || "_-./,:@%+=~^".contains(c)) {
            typed.push('\\');
        }
        typed.push(c);
    }
    typed
}

/// A word without its surrounding quotes.
fn typed_in_nushell(word: &OsString) -> OsString {
    let Some(typed) = word.to_str() else { return word.clone() };
    let quote = typed.chars().next().filter(|c| "'\"`".contains(*c));
    let inner = quote.and_then(|quote| typed.strip_prefix(quote));
    let inner =
        inner.map(|inner| quote.and_then(|quote| inner.strip_suffix(quote)).unwrap_or(inner));
    inner.unwrap_or(typed).into()
}

/// A word as typed in nushell.
fn in_nushell(word: &str) -> String {
    if word.chars().all(|c| c.is_alphanumeric() || "_-./,:@%+=~^".contains(c)) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_line_like_bash() {
        let read = |line: &str| {
            let (words, divided) = typed_in_bash(OsStr::new(" \t\n\"'@><=;|&(:"), OsStr::new(line));
            let words: Vec<String> = words.into_iter().map(|w| w.into_string().unwrap()).collect();
            (words.join("|"), divided)
        };
        let as_is = |words: &str| (words.to_owned(), String::new());
        assert_eq!(read("tool "), as_is(""));
        assert_eq!(read("tool put -t m"), as_is("put|-t|m"));
        assert_eq!(read("tool put 'a b' c\\ d "), as_is("put|a b|c d|"));
        assert_eq!(read("tool --output=js"), ("--output=js".into(), "--output=".into()));
        assert_eq!(read("tool -a 1:2 put @f"), ("-a|1:2|put|@f".into(), String::new()));
        assert_eq!(read("tool clear a@b"), ("clear|a@b".into(), "a".into()));
        assert_eq!(in_bash("a b$(x)"), "a\\ b\\$\\(x\\)");
        assert_eq!(["~:", "a=~:", "to~="].map(in_bash), ["\\~:", "a=\\~:", "to~="]);
    }

    #[test]
    fn zsh_gets_no_divider_without_a_description() {
        let asked = CompleteArgs { shell: Shell::Zsh, words: Vec::new() };
        assert_eq!(asked.offer("a:b", ""), "a\\:b");
        assert_eq!(asked.offer("a:b", "a tube"), "a\\:b:a tube");
    }

    #[test]
    fn nushell_words_are_quoted_when_needed() {
        let typed = |word: &str| typed_in_nushell(&word.into()).into_string().unwrap();
        assert_eq!(
            ["mail", "'a b'", "\"a", "`a`", "'", ""].map(typed),
            ["mail", "a b", "a", "a", "", ""]
        );
        assert_eq!(
            ["--output=json", "a b", "$(x)\""].map(in_nushell),
            ["--output=json", "\"a b\"", "\"$(x)\\\"\""]
        );
    }
}
