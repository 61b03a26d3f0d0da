//! Better suggestions for wrong command lines, where clap's own are misleading.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::program::Program;
use crate::rules::preset;
use crate::text::escape;
use crate::text::spelling::closest;

/// Removes the suggestion of a flag that looks different, and the suggestion to pass a flag as a value if some command
/// has that flag, which is named instead, or if it is a whole word, which is never meant as a value. Names the intended
/// flag if the word follows the same letter in the other case. `line` is what a short word that was `typed` stands for.
pub(crate) fn correct(
    error: &mut clap::Error,
    program: &Program,
    tree: &Command,
    (line, typed): (&[OsString], &[OsString]),
) {
    if let Some(meant) = guessed(error, program, tree, line) {
        error.remove(ContextKind::SuggestedSubcommand);
        remove_flag(error, tree, line);
        return suggest(error, Some(meant));
    }
    // The error may concern words that were not typed.
    if error.get(ContextKind::Suggested).is_none() {
        suggest(error, preset::explained(tree, typed));
    }
    suggest(error, value_left_out(error, tree));
    if error.kind() == ErrorKind::InvalidSubcommand {
        prefer_the_nearest(error);
        // A word of one or two letters resembles too many others.
        let is_short = |word: &ContextValue| matches!(word, ContextValue::String(word) if word.chars().count() < 3);
        if error.get(ContextKind::InvalidSubcommand).is_some_and(is_short) {
            error.remove(ContextKind::SuggestedSubcommand);
        }
        if let Some(tip) = value_apart(error, tree, line) {
            error.remove(ContextKind::SuggestedSubcommand);
            suggest(error, Some(tip));
        }
    }
    let has_no_tip = [ContextKind::Suggested, ContextKind::SuggestedSubcommand]
        .iter()
        .all(|kind| error.get(*kind).is_none());
    let is_unfinished =
        matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::InvalidSubcommand);
    if is_unfinished
        && has_no_tip
        && let Some(example) = example(tree, line)
    {
        let tip = format!("for example: {example}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return };
    let wrong = wrong.clone();
    if (wrong.starts_with("--") || has_flag(tree, &wrong))
        && let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested)
    {
        let as_value = |tip: &StyledStr| tip.to_string().contains("as a value");
        let tips: Vec<StyledStr> = tips.into_iter().filter(|tip| !as_value(tip)).collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    if let Some(ContextValue::String(meant)) = error.get(ContextKind::SuggestedArg)
        && (!is_near(&wrong, meant) || elsewhere(tree, &wrong).is_some())
    {
        remove_flag(error, tree, line);
        suggest(error, elsewhere(tree, &wrong));
    }
    suggest(error, other_case(tree, line, &wrong));
}

fn suggest(error: &mut clap::Error, tip: Option<String>) {
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Removes the suggested flag, if there is one. The usage then consists of the suggestion.
fn remove_flag(error: &mut clap::Error, tree: &Command, line: &[OsString]) {
    if error.remove(ContextKind::SuggestedArg).is_some() {
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage(tree, line)));
    }
}

/// Puts the suggested command that is nearest to the wrong word first.
fn prefer_the_nearest(error: &mut clap::Error) {
    let (Some(ContextValue::String(wrong)), Some(ContextValue::Strings(meant))) =
        (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    else {
        return;
    };
    let Some(nearest) = closest(wrong, meant.iter().map(String::as_str)) else { return };
    let first = vec![nearest.to_owned()];
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(first));
}

/// The meaning of a command line that people guess, see [`Program::guesses`].
fn guessed(
    error: &clap::Error,
    program: &Program,
    tree: &Command,
    line: &[OsString],
) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(wrong)) = error.get(kind) else { return None };
    // Otherwise the word is for a command with its own commands.
    let mut before = line.iter().skip(1).take_while(|word| *word != wrong.as_str());
    let is_first = before.all(|word| tree.find_subcommand(word).is_none());
    let is_meant = |guess: &str| match guess.split_once(' ') {
        None if guess.starts_with('-') => kind == ContextKind::InvalidArg && guess == wrong,
        None => kind == ContextKind::InvalidSubcommand && guess == wrong && is_first,
        Some((command, last)) => {
            let is_last = last == wrong || (last == ANY && !wrong.starts_with('-'));
            is_last && line.iter().any(|word| word == command)
        }
    };
    let (_, meant) = program.guesses.iter().chain(GUESSES).find(|(guess, _)| is_meant(guess))?;
    Some((*meant).to_owned())
}

/// Guesses that are made with every tool.
const GUESSES: &[(&str, &str)] = &[
    ("--json", "-o json"),
    ("--yaml", "-o yaml"),
    ("--once", "-c 1"),
    ("--no-headers", "-o plain"),
    ("--encoding", "--decode"),
    ("--insecure", "--tls=insecure"),
    ("--tls-ca", "--tls=ca=FILE"),
    ("--connect-timeout", "--timeout also bounds connecting"),
    ("--retry", "--wait-for-server waits until the server answers"),
    ("watch", "a listing repeats itself with -i, as in `... -i 2s`"),
    ("latency", "ping -c N -i DUR shows the distribution"),
    ("config", "doctor shows the settings and where they come from, context edits contexts"),
];

/// Stands for any word that is no flag.
const ANY: &str = "WORD";

/// The command that a flag has taken for its value.
fn value_left_out(error: &clap::Error, tree: &Command) -> Option<String> {
    let (Some(ContextValue::String(value)), Some(ContextValue::String(flag))) =
        (error.get(ContextKind::InvalidValue), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let is_command = error.kind() == ErrorKind::ValueValidation
        && flag.starts_with('-')
        && tree.find_subcommand(value).is_some();
    is_command.then(|| format!("{flag} needs a value before the command '{value}'"))
}

/// The flag with its value, if it takes one only after an equals sign, and the line has it as the next word.
fn value_apart(error: &clap::Error, tree: &Command, line: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let at = line.iter().position(|word| word == value.as_str())?;
    let long = line.get(at.checked_sub(1)?)?.to_str()?.strip_prefix("--")?;
    let takes_it = |flag: &Arg| flag.is_require_equals_set() && preset::is_long(flag, long);
    tree.get_arguments().any(takes_it).then(|| format!("--{long}={}", escape::line(value)))
}

/// Whether a flag may be meant by this misspelt or unfinished one.
pub(crate) fn is_near(wrong: &str, meant: &str) -> bool {
    meant.starts_with(wrong) || closest(wrong, std::iter::once(meant)).is_some()
}

/// The usage of the command of a line.
fn usage(tree: &Command, line: &[OsString]) -> StyledStr {
    let mut whole = tree.clone();
    whole.build();
    let deeper = |command, word| Command::find_subcommand(command, word).unwrap_or(command);
    line.iter().skip(1).fold(&whole, deeper).clone().render_usage()
}

/// The first example of the command of a line in its help.
fn example(tree: &Command, line: &[OsString]) -> Option<String> {
    let (mut command, mut path) = (tree, tree.get_name().to_owned());
    for word in line.iter().skip(1) {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
            path = format!("{path} {}", inner.get_name());
        }
    }
    let end = command.get_after_help()?.to_string();
    let begins =
        |line: &&str| line.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(' '));
    end.lines().map(str::trim).find(|line| begins(line) && !line.ends_with('\\')).map(str::to_owned)
}

/// The commands that have a flag, if they are few.
fn elsewhere(tree: &Command, flag: &str) -> Option<String> {
    const FEW: usize = 3;
    let has = |command: &&Command| !command.is_hide_set() && has_flag(command, flag);
    let names: Vec<&str> = tree.get_subcommands().filter(has).map(Command::get_name).collect();
    let is_said = (1..=FEW).contains(&names.len());
    is_said.then(|| format!("'{flag}' is a flag of {}", names.join(", ")))
}

/// The text of an error, in colours if `color`, with a broken number rule in plain words.
pub(crate) fn text(error: &clap::Error, color: bool) -> String {
    let text = error.render();
    let text = if color { text.ansi().to_string() } else { text.to_string() };
    if error.kind() != ErrorKind::ValueValidation {
        return text;
    }
    RULES.iter().fold(text, |text, (of_program, of_person)| text.replace(of_program, of_person))
}

/// The first paragraph of an error, which says what is wrong, in one line; usage and tips follow it.
pub(crate) fn sentence(error: &clap::Error) -> String {
    let text = text(error, false);
    let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The rules of numbers: in the parser's words, and in plain words.
const RULES: &[(&str, &str)] = &[
    ("invalid digit found in string", "it is not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("cannot parse integer from empty string", "it is empty"),
    ("number would be zero for non-zero type", "it is less than 1"),
    (" is not in 1..18446744073709551615", " is less than 1"),
    (" is not in 1..4294967295", " is less than 1"),
];

/// Escapes the words of the command line that the error quotes. Rendered, they could not be told from its own colours.
pub(crate) fn escape(error: &mut clap::Error) {
    let quoted: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| {
            let value = match value {
                ContextValue::String(word) => ContextValue::String(escape::line(word).into()),
                ContextValue::Strings(words) => {
                    let words = words.iter().map(|word| escape::line(word).into());
                    ContextValue::Strings(words.collect())
                }
                _ => return None,
            };
            Some((kind, value))
        })
        .collect();
    for (kind, value) in quoted {
        error.insert(kind, value);
    }
}

/// Whether some command has this flag.
fn has_flag(tree: &Command, written: &str) -> bool {
    any(tree, &|arg| {
        let long = arg.get_long().is_some_and(|long| written == format!("--{long}"));
        long || arg.get_short().is_some_and(|short| written == format!("-{short}"))
    })
}

/// The flag for a name, if its letter in the other case precedes this word.
fn other_case(tree: &Command, line: &[OsString], word: &str) -> Option<String> {
    let at = line.iter().position(|other| other == word)?;
    let before = line.get(at.checked_sub(1)?)?.to_str()?;
    let mut letters = before.strip_prefix('-')?.chars();
    let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
    let meant = if letter.is_lowercase() {
        letter.to_ascii_uppercase()
    } else {
        letter.to_ascii_lowercase()
    };
    let names = |arg: &Arg| arg.get_short() == Some(meant) && arg.get_action().takes_values();
    (meant != letter && any(tree, &names))
        .then(|| format!("-{letter} takes no value; -{meant} takes a name"))
}

fn any(tree: &Command, fits: &dyn Fn(&Arg) -> bool) -> bool {
    tree.get_arguments().any(fits) || tree.get_subcommands().any(|command| any(command, fits))
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;
    use crate::program::TOOL;

    fn said(words: &[&str]) -> String {
        let name = || Arg::new("queue").short('Q').long("queue");
        let quiet = Arg::new("quiet").short('q').global(true).action(ArgAction::SetTrue);
        let tls = Arg::new("tls").long("tls").num_args(0..=1).require_equals(true);
        let mut tree = Command::new("tool")
            .args([quiet, tls])
            .subcommand(Command::new("list").arg(Arg::new("GLOB").num_args(0..)))
            .subcommand(Command::new("ping"))
            .subcommand(Command::new("wait").arg(name()))
            .subcommand(
                Command::new("set")
                    .subcommand(Command::new("on").arg(Arg::new("KEY").required(true)))
                    .after_help("Examples:\n  tool set off\n  tool set on color\n  tool set on x"),
            )
            .subcommand(preset::grammar(("pinged", "ping -q")));
        let typed: Vec<OsString> = words.iter().map(OsString::from).collect();
        let line = preset::of_line(&tree, &typed).unwrap_or_else(|| typed.clone());
        let mut error = tree.try_get_matches_from_mut(&line).unwrap_err();
        correct(&mut error, &TOOL, &tree, (&line, &typed));
        error.to_string()
    }

    #[test]
    fn a_flag_of_another_command_is_not_a_value() {
        let of_another = said(&["tool", "list", "-Q", "x"]);
        assert!(of_another.contains("'-Q'") && !of_another.contains("tip:"), "{of_another}");
        let unknown = said(&["tool", "list", "--from"]);
        assert!(unknown.contains("'--from'") && !unknown.contains("tip:"), "{unknown}");
        let of_none = said(&["tool", "list", "-5"]);
        assert!(of_none.contains("'-- -5'"), "{of_none}");
    }

    #[test]
    fn explains_an_alias_in_errors() {
        let twice = said(&["tool", "pinged", "-q"]);
        assert!(twice.contains("'pinged' is short for 'ping -q'"), "{twice}");
        assert!(!said(&["tool", "ping", "-q", "-q"]).contains("short for"));
    }

    #[test]
    fn suggests_an_equals_sign_before_a_value() {
        let apart = said(&["tool", "--tls", "ca=x", "list"]);
        assert!(apart.contains("tip: --tls=ca=x"), "{apart}");
        assert!(!said(&["tool", "-q", "ca=x"]).contains("tip:"));
    }

    #[test]
    fn an_unfinished_line_gets_the_first_example_of_its_command() {
        let typed = said(&["tool", "set", "mail"]);
        assert!(typed.contains("tip: for example: tool set off"), "{typed}");
        let misspelt = said(&["tool", "set", "onn"]);
        assert!(misspelt.contains("'on'") && !misspelt.contains("example"), "{misspelt}");
        assert!(!said(&["tool", "unknown"]).contains("tip:"));
    }

    #[test]
    fn does_not_suggest_dissimilar_flags() {
        let tree = || {
            let wait = Arg::new("wait").long("wait-for-server");
            let to = || Arg::new("to").long("to");
            Command::new("tool")
                .arg(wait.global(true))
                .subcommand(Command::new("export"))
                .subcommand(Command::new("drain").arg(to()))
        };
        let said = |words: &[&str]| {
            let line: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut error = tree().try_get_matches_from(&line).unwrap_err();
            correct(&mut error, &TOOL, &tree(), (&line, &line));
            error.to_string()
        };
        let other = said(&["tool", "export", "--to", "x"]);
        assert!(other.contains("'--to' is a flag of drain"), "{other}");
        assert!(other.contains("Usage: tool export [OPTIONS]"), "{other}");
        assert!(!other.contains("wait-for-server"), "{other}");
        assert!(said(&["tool", "export", "--wait"]).contains("'--wait-for-server'"));
        assert!(said(&["tool", "export", "--json"]).contains("tip: -o json"));
        assert!(said(&["tool", "export", "--wait-for-sever"]).contains("'--wait-for-server'"));
    }

    #[test]
    fn suggests_commands_for_common_guesses() {
        let program = Program {
            guesses: &[
                ("purge", "tool clear"),
                ("wait --idle", "--for idle"),
                ("move WORD", "--to"),
            ],
            ..TOOL
        };
        let tree = || {
            let period = Arg::new("period").short('i').value_parser(clap::value_parser!(u64));
            let named = ["clear", "ping"].map(Command::new);
            Command::new("tool")
                .subcommands([Command::new("wait"), Command::new("move").arg(period)])
                .subcommand(Command::new("set").subcommand(Command::new("on")))
                .subcommands(named)
        };
        let said = |words: &[&str]| {
            let line: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut error = tree().try_get_matches_from(&line).unwrap_err();
            correct(&mut error, &program, &tree(), (&line, &line));
            error.to_string()
        };
        assert!(said(&["tool", "purge", "mail"]).contains("tip: tool clear"));
        assert!(said(&["tool", "purge", "ping"]).contains("tip: tool clear"));
        assert!(!said(&["tool", "set", "purge"]).contains("tool clear"));
        assert!(said(&["tool", "wait", "--idle"]).contains("tip: --for idle"));
        assert!(said(&["tool", "move", "a", "b"]).contains("tip: --to"));
        assert!(!said(&["tool", "move", "--idle"]).contains("--for idle"));
        let taken = said(&["tool", "move", "-i", "ping"]);
        assert!(taken.contains("needs a value before the command 'ping'"), "{taken}");
    }

    #[test]
    fn explains_an_invalid_number_in_plain_words() {
        let count = Arg::new("count").short('c').value_parser(clap::value_parser!(u64).range(1..));
        let mut tree = Command::new("tool").arg(count);
        for (word, rule) in [
            ("high", "'high' for '-c <count>': it is not a whole number"),
            ("0", "0 is less than 1"),
            ("99999999999999999999", "the number is too large"),
        ] {
            let error = tree.try_get_matches_from_mut(["tool", "-c", word]).unwrap_err();
            assert!(text(&error, false).contains(rule), "{}", text(&error, false));
        }
    }

    #[test]
    fn a_single_letter_is_not_a_misspelt_command() {
        assert!(!said(&["tool", "p"]).contains("ping"), "{}", said(&["tool", "p"]));
        assert!(said(&["tool", "pin"]).contains("'ping'"), "{}", said(&["tool", "pin"]));
        let mut tree = Command::new("tool");
        for name in ["tap", "stats-tube", "stats-job", "stats"] {
            tree = tree.subcommand(Command::new(name));
        }
        let line: Vec<OsString> = ["tool", "stat"].map(OsString::from).to_vec();
        let mut error = tree.try_get_matches_from_mut(&line).unwrap_err();
        correct(&mut error, &TOOL, &tree, (&line, &line));
        let text = error.to_string();
        assert!(text.contains("'stats'") && !text.contains("'tap'"), "{text}");
    }

    #[test]
    fn suggests_the_letter_in_the_other_case() {
        let said = said(&["tool", "ping", "-q", "/mail"]);
        assert!(said.contains("'/mail'") && said.contains("-Q takes a name"), "{said}");
    }
}
