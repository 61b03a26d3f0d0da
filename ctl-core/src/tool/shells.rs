//! Shell completion: scripts that ask the tool, and its answers. The completions are the same as in a session.

use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;

use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};

use crate::commands::check::Measurable;
use crate::config::{Settings, SettingsArgs};
use crate::error::{CliError, Exit};
use crate::input::filter::Field;
use crate::link::tls::TlsArgs;
use crate::link::{Connect as _, Link as _};
use crate::repl::complete::{self, Found, Values, Wanted, What};
use crate::repl::guest::{Guest, Interactive, filters};
use crate::repl::known::KnownNames;
use crate::repl::lexer::Partial;
use crate::settings;
use crate::tool::Context;
use crate::tool::cli;

/// The shells that ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Asking {
    /// The words: the characters that divide words, and the line up to the cursor.
    Bash,
    /// The words: those up to the cursor.
    Zsh,
    /// The words: those up to the cursor.
    Fish,
    /// The words: those up to the cursor, as they were typed.
    #[value(alias = "nu")]
    Nushell,
}

/// Arguments of `complete`.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Asking,

    /// What has been typed
    #[arg(value_name = "WORD", last = true)]
    words: Vec<OsString>,
}

/// The exit code that leaves completion to the shell, which knows files best.
const FILES: Exit = Exit::Own(3);

/// The exit code if the word is incomplete, so that no blank may follow. A script for fish has no say in this: fish
/// leaves the blank out only after a candidate that ends in one of `/=@:.,-`.
const OPEN: Exit = Exit::Own(4);

/// The completion script of a shell for this tool.
#[must_use]
pub fn script(shell: Asking, name: &str) -> String {
    let script = match shell {
        Asking::Bash => include_str!("shells/bash"),
        Asking::Zsh => include_str!("shells/zsh"),
        Asking::Fish => include_str!("shells/fish"),
        Asking::Nushell => include_str!("shells/nushell"),
    };
    script.replace("TOOL", name)
}

/// Runs `complete`: a line per completion, with its description after a TAB. Exit 3 means that the word is a file name,
/// 4 that it continues after the completion.
///
/// # Errors
/// Write failures.
pub fn complete<T: Interactive>(
    context: &mut Context<T>,
    args: &CompleteArgs,
) -> Result<Exit, CliError> {
    let (words, divided) = match (args.shell, args.words.as_slice()) {
        (Asking::Bash, [dividers, line]) => typed_in_bash(dividers, line),
        (Asking::Nushell, words) => (words.iter().map(typed_in_nushell).collect(), String::new()),
        (_, words) => (words.to_vec(), String::new()),
    };
    let mut tree = cli::tree::<T>();
    tree.build();
    let asks = points_to_servers(context, &words);
    let names = match asks {
        true => KnownNames::live(T::live_names(context.link.sibling())),
        false => KnownNames::default(),
    };
    settings::keep_names(context.settings(), &T::PROGRAM, &names);
    let found = complete::find(&tree, &Names::<T>(names, PhantomData), &Partial::of_words(&words));
    let Some(Found { before, what }) = found else { return Ok(Exit::Done) };
    let mut exit = Exit::Done;
    let rows: Vec<(String, String)> = match what {
        What::Files(_) => return Ok(FILES),
        What::Verbs(verbs) => verbs,
        What::Flags(flags) => flags.into_iter().map(|flag| (flag.name, flag.about)).collect(),
        What::Names(names) => names.into_iter().map(|name| (name, String::new())).collect(),
        What::Beginnings(described) => {
            exit = OPEN;
            described
        }
    };
    for (word, about) in rows {
        let word = format!("{before}{word}");
        // Nobody types a name that acts on a terminal.
        if word.chars().any(crate::output::escape::acts) {
            continue;
        }
        let word = word.strip_prefix(&divided).unwrap_or(&word);
        let about = about.lines().next().unwrap_or_default();
        let line = match args.shell {
            Asking::Bash => in_bash(word),
            Asking::Zsh => format!("{}:{about}", word.replace('\\', "\\\\").replace(':', "\\:")),
            Asking::Fish => format!("{word}\t{about}"),
            Asking::Nushell => format!("{}\t{about}", in_nushell(word)),
        };
        context.out.text(&format!("{line}\n"))?;
    }
    Ok(exit)
}

/// The names known to this tool.
struct Names<T>(KnownNames, PhantomData<fn() -> T>);

impl<T: Interactive> Values for Names<T> {
    fn filters(&self, verb: &str) -> &'static [Field] {
        filters::<T>(verb)
    }

    fn checks(&self) -> &'static [Measurable] {
        T::CHECKS
    }

    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        settings::candidates(&self.0, wanted)
            .unwrap_or_else(|| <T::Guest<'_> as Guest>::candidates(&self.0, wanted))
    }
}

/// Whether there are servers to ask for names: those of the line or of its context, or else the default ones.
fn points_to_servers<T: Interactive>(context: &mut Context<T>, words: &[OsString]) -> bool {
    let before = words.split_last().map_or(words, |(_, before)| before);
    let line = [OsString::from(T::PROGRAM.name)].into_iter().chain(before.iter().cloned());
    // A partial line does not parse.
    let tree = cli::tree::<T>().ignore_errors(true);
    let link = tree.try_get_matches_from(line).ok().map(|typed| typed_link(context, &typed));
    match link {
        Some(Ok(Some(link))) => context.link = link,
        Some(Ok(None)) => {}
        // They are invalid, or there is no server to ask.
        _ => return false,
    }
    !before.iter().any(|word| word == "--embedded")
}

/// The servers that these flags select; `None` if they name neither servers nor their source.
fn typed_link<T: Interactive>(
    context: &Context<T>,
    typed: &ArgMatches,
) -> Result<Option<T::Link>, CliError> {
    let unreadable = |_| CliError::usage("the line cannot be parsed yet");
    let connect = T::Connect::from_arg_matches(typed).map_err(unreadable)?;
    let args = SettingsArgs::from_arg_matches(typed).map_err(unreadable)?;
    let is_of_settings = args.config.is_some() || args.context.is_some() || args.no_context;
    if connect.addresses().is_none() && !is_of_settings {
        return Ok(None);
    }
    let tls = TlsArgs::from_arg_matches(typed).map_err(unreadable)?;
    let environment = context.settings().environment.clone();
    let settings = Settings::load(&T::PROGRAM, &args, false, environment)?;
    Context::<T>::new((&connect, false), &tls, &context.globals, settings)
        .map(|context| Some(context.link))
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
    fn a_line_of_bash_is_read_as_bash_reads_it() {
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
    fn a_word_of_nushell_has_quotes_or_none() {
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
