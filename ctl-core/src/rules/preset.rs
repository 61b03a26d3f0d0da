//! Words that are short for a command with some of its arguments, such as `retry` for `kick --all --state buried`.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::{Arg, Command};

/// A short word, and the words that it stands for. A line's arguments follow them, or replace `...`; the first one may
/// stand at several places, as `$1`.
pub type Preset = (&'static str, &'static str);

/// Where the arguments of a line go, unless they go to the end.
const ARGUMENTS: &str = " ... ";

/// Where the first argument of a line goes.
const FIRST: &str = "$1";

/// The description of a short word begins with this, and the words that it stands for follow: the grammar knows all
/// that a line needs.
const SHORT_FOR: &str = "Short for ";

/// A short word as a command of the grammar, for completion and suggestions. It has no arguments: a line that is not
/// [expanded](of_line) is refused.
pub(crate) fn grammar((word, words): Preset) -> Command {
    Command::new(word).about(format!("{SHORT_FOR}{words}"))
}

/// The words that this command of the grammar stands for, if it is a short word.
fn words(command: &Command) -> Option<String> {
    command.get_about()?.to_string().strip_prefix(SHORT_FOR).map(str::to_owned)
}

/// The name of the command that this command of the grammar stands for, if it is a short word.
pub(crate) fn command(short: &Command) -> Option<String> {
    words(short)?.split(' ').next().map(str::to_owned)
}

/// Whether this command of the grammar is a short word.
pub fn is_short(command: &Command) -> bool {
    words(command).is_some()
}

/// A line, which begins with the program's name, with the words that its command stands for, if that is a short word.
pub(crate) fn of_line(tree: &Command, line: &[OsString]) -> Option<Vec<OsString>> {
    let (program, words) = line.split_first()?;
    let (begun, end) = expanded(tree, words, |word| word.to_string_lossy(), |_, text| text.into())?;
    Some([vec![program.clone()], begun, end].concat())
}

/// The words behind the short word of a line, which begins with the program's name.
pub(crate) fn explained(tree: &Command, line: &[OsString]) -> Option<String> {
    let mut named = line.iter().skip(1);
    let at = command_at(tree, named.clone().map(|word| word.to_string_lossy()))?;
    let short = named.nth(at)?;
    let words = words(tree.find_subcommand(short)?)?;
    Some(format!("'{}' is short for '{words}'", short.to_string_lossy()))
}

/// The words that a line with a short word stands for: those up to its last argument, and what follows them. `text`
/// reads a word, `made` makes one in place of another. `help WORD` asks for the help of the command.
pub(crate) fn expanded<W: Clone>(
    tree: &Command,
    line: &[W],
    text: impl Fn(&W) -> Cow<'_, str>,
    made: impl Fn(&W, &str) -> W,
) -> Option<(Vec<W>, Vec<W>)> {
    let at = command_at(tree, line.iter().map(&text))?;
    let is_help = text(line.get(at)?) == "help";
    let (before, rest) = line.split_at_checked(at + usize::from(is_help))?;
    let (short, mut arguments) = rest.split_first()?;
    let words = words(tree.find_subcommand(text(short).as_ref())?)?;
    let asks_for_help = |word: &W| matches!(&*text(word), "-h" | "--help");
    if is_help || (words.contains(FIRST) && arguments.first().is_some_and(asks_for_help)) {
        let words = words.strip_prefix("help ").filter(|_| is_help).unwrap_or(&words);
        let command = words.split(' ').next().map(|word| made(short, word));
        return Some(([before, command.as_slice(), arguments].concat(), Vec::new()));
    }
    let all;
    let at = words.contains(FIRST).then(|| first_argument(tree, &words, arguments, &text));
    let argument = at.flatten().and_then(|at| arguments.get(at).zip(Some(at)));
    if let Some((_, at)) = argument {
        all = [arguments.get(..at)?, arguments.get(at + 1..)?].concat();
        arguments = &all;
    }
    // Without the first argument, the words end where it is missing: at the end of the line, which is refused.
    let placed = |word: &str| match word {
        FIRST => argument.map(|(argument, _)| argument.clone()),
        word => Some(made(short, word)),
    };
    let made = |words: &str| words.split(' ').map_while(placed).collect::<Vec<W>>();
    let (first, last) = words.split_once(ARGUMENTS).unwrap_or((&words, ""));
    // Text after an argument does not answer the question for it.
    let end = if last.is_empty() || arguments.is_empty() { Vec::new() } else { made(last) };
    let begun = made(first);
    let (command, flags) = begun.split_at_checked(1)?;
    match words.contains(FIRST) && argument.is_none() {
        true => Some(([before, command, arguments, flags].concat(), end)),
        false => Some(([before, &begun, arguments].concat(), end)),
    }
}

/// Where the first argument is in the words of a line behind a short word, which stands for `words`. What follows an
/// unknown flag may be its value.
fn first_argument<W>(
    tree: &Command,
    words: &str,
    line: &[W],
    text: impl Fn(&W) -> Cow<'_, str>,
) -> Option<usize> {
    // It learns its arguments when it is built.
    let mut command = tree.find_subcommand(words.split(' ').next()?)?.clone();
    command.build();
    let command = command.args(tree.get_arguments().cloned());
    let at = command_at(&command, line.iter().map(&text))?;
    let mut words = line.iter().take(at).filter(|word| text(word).starts_with('-'));
    words.all(|word| !flags(&command, &text(word)).0.is_empty()).then_some(at)
}

/// Whether this is a long name of the flag.
pub(crate) fn is_long(flag: &Arg, long: &str) -> bool {
    let is_alias = || flag.get_all_aliases().is_some_and(|all| all.contains(&long));
    flag.get_long() == Some(long) || is_alias()
}

/// Whether this is a letter of the flag.
fn is_letter(flag: &Arg, letter: char) -> bool {
    let is_alias = || flag.get_all_short_aliases().is_some_and(|all| all.contains(&letter));
    flag.get_short() == Some(letter) || is_alias()
}

/// Whether the flag has a value.
pub(crate) fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

/// The flags of a word, up to the first unknown one, and the one whose value is the next word.
pub(crate) fn flags<'g>(tree: &'g Command, word: &str) -> (Vec<&'g Arg>, Option<&'g Arg>) {
    let takes_next = |flag: &&Arg| takes_value(flag) && !flag.is_require_equals_set();
    if let Some(long) = word.strip_prefix("--") {
        let (long, has_value) =
            long.split_once('=').map_or((long, false), |(long, _)| (long, true));
        let flag = tree.get_arguments().find(|flag| is_long(flag, long));
        return (flag.into_iter().collect(), flag.filter(takes_next).filter(|_| !has_value));
    }
    let (mut found, mut letters) = (Vec::new(), word.chars().skip(1));
    while let Some(letter) = letters.next()
        && let Some(flag) = tree.get_arguments().find(|flag| is_letter(flag, letter))
    {
        found.push(flag);
        // The first letter with a value takes the rest of its word, if there is any.
        if takes_value(flag) {
            return (found, Some(flag).filter(takes_next).filter(|_| letters.next().is_none()));
        }
    }
    (found, None)
}

/// Where the command is in these words of a line, even an invalid one: the first word that is neither a flag nor a
/// flag's value.
pub(crate) fn command_at<'w>(
    tree: &Command,
    words: impl Iterator<Item = Cow<'w, str>>,
) -> Option<usize> {
    let mut is_value = false;
    words.enumerate().find_map(|(at, word)| {
        if std::mem::take(&mut is_value) {
            return None;
        }
        is_value = word.starts_with('-') && flags(tree, &word).1.is_some();
        (!word.starts_with('-')).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    /// A tool with the global flags `-a ADDR` and `-q`, two commands, and short words for them.
    fn tool() -> Command {
        let address = Arg::new("server").short('s').long("server").short_alias('a').alias("addr");
        let quiet = Arg::new("quiet").short('q').action(ArgAction::SetTrue);
        let limit = |command: Command| command.arg(Arg::new("limit").short('c').long("limit"));
        let commands = [Command::new("kick").defer(limit), Command::new("pause")];
        let short = [
            ("retry", "kick --all"),
            ("resume", "pause ... 0"),
            ("list", "help examples"),
            ("again", "kick $1 --to $1"),
            ("move", "kick --from $1 --to $1"),
            ("all", "kick every job"),
        ];
        Command::new("tool")
            .args([address, quiet, Arg::new("tls").long("tls").require_equals(true)])
            .subcommands(commands)
            .subcommands(short.map(grammar))
    }

    #[test]
    fn aliases_expand() {
        for (line, expected) in [
            ("retry", Some("kick --all")),
            ("retry mail -q", Some("kick --all mail -q")),
            ("-q retry mail", Some("-q kick --all mail")),
            ("-a retry kick retry", None),
            ("-qa retry kick", None),
            ("--tls retry mail", Some("--tls kick --all mail")),
            ("-a x --addr=y retry", Some("-a x --addr=y kick --all")),
            ("-s x --server y retry", Some("-s x --server y kick --all")),
            ("resume mail -q", Some("pause mail -q 0")),
            ("resume", Some("pause")),
            ("help retry", Some("help kick")),
            ("help resume", Some("help pause")),
            ("help list", Some("help examples")),
            ("retry --help", Some("kick --all --help")),
            ("again mail -q", Some("kick mail --to mail -q")),
            ("again", Some("kick")),
            ("again -q", Some("kick -q")),
            ("again -q -a x mail -q", Some("kick mail --to mail -q -a x -q")),
            ("again --server=x mail", Some("kick mail --to mail --server=x")),
            ("again --limit 5 mail", Some("kick mail --to mail --limit 5")),
            ("again -q -c5 -c 5 mail", Some("kick mail --to mail -q -c5 -c 5")),
            ("again --nope 5 mail", Some("kick --nope 5 mail")),
            ("again -x 5 mail", Some("kick -x 5 mail")),
            ("again --help", Some("kick --help")),
            ("move -q", Some("kick -q --from")),
            ("move --limit 5 mail", Some("kick --from mail --to mail --limit 5")),
            ("move --nope 5 mail", Some("kick --nope 5 mail --from")),
            ("help list retry", Some("help examples retry")),
            ("help all", Some("help kick")),
            ("help again", Some("help kick")),
            ("kick retry", None),
            ("", None),
        ] {
            let line: Vec<OsString> =
                ["tool"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let words = of_line(&tool(), &line).map(|words| words.join(" ".as_ref()));
            let words = words.map(|words| words.into_string().unwrap());
            assert_eq!(words, expected.map(|words| format!("tool {words}")), "{line:?}");
        }
    }

    #[test]
    fn rejects_an_unexpanded_alias() {
        assert!(tool().try_get_matches_from(["tool", "retry", "mail"]).is_err());
    }
}
