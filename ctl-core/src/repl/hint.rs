//! The grey text after the cursor: what the grammar still accepts.

use clap::{Arg, ArgAction, Command};

use super::place::{Place, value_name};
use crate::rules::preset::takes_value;
use crate::text::lexer;

/// What can still be typed after `text` (the whole line, the cursor at its end), such as
/// `[-p PRI] BODY…`. Arguments that have been typed already are left out. `None` if there is nothing to show.
pub fn hint(grammar: &Command, text: &str) -> Option<String> {
    let partial = lexer::partial(text.as_bytes())?;
    if partial.words.is_empty() || partial.literal {
        return None;
    }
    // In the middle of a word, only the next blank is certain.
    if !partial.current.is_empty() {
        return None;
    }
    let place = Place::after(grammar, &partial.words)?;
    if place.wants_verb() {
        return None;
    }
    let mut parts = Vec::new();
    if let Some(arg) = place.pending {
        parts.push(value_name(arg).to_owned());
    }
    let options = place.command.get_arguments().filter(|arg| !arg.is_positional());
    for arg in options.filter(|arg| is_worth_a_hint(arg)) {
        if !place.given.contains(arg.get_id().as_str()) {
            parts.push(option_hint(arg));
        }
    }
    let next = place.positional.map(|arg| arg.get_id().as_str());
    let positionals = place.command.get_positionals();
    for arg in positionals.skip_while(|arg| Some(arg.get_id().as_str()) != next) {
        parts.push(positional_hint(arg));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Only options of the command itself, because those that every command has would drown them.
fn is_worth_a_hint(arg: &Arg) -> bool {
    let helps = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    !arg.is_hide_set() && !arg.is_global_set() && !helps
}

fn option_hint(arg: &Arg) -> String {
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), _) => format!("-{short}"),
        (None, long) => format!("--{}", long.unwrap_or_default()),
    };
    if takes_value(arg) { format!("[{name} {}]", value_name(arg)) } else { format!("[{name}]") }
}

fn positional_hint(arg: &Arg) -> String {
    let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let name = format!("{}{}", value_name(arg), if many { "…" } else { "" });
    if arg.is_required_set() { name } else { format!("[{name}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grammar() -> Command {
        let mut grammar = Command::new("t")
            .no_binary_name(true)
            .arg(Arg::new("out").short('o').long("output").value_name("FMT").global(true))
            .subcommand(
                Command::new("put")
                    .arg(Arg::new("tube").short('t').long("tube").value_name("TUBE"))
                    .arg(Arg::new("pri").short('p').value_name("PRI"))
                    .arg(Arg::new("lines").long("lines").action(ArgAction::SetTrue))
                    .arg(
                        Arg::new("tls").long("tls").num_args(0..=1).require_equals(true).hide(true),
                    )
                    .arg(Arg::new("body").value_name("BODY").required(true).num_args(1..)),
            )
            .subcommand(
                Command::new("pause")
                    .arg(Arg::new("tube").value_name("TUBE").required(true))
                    .arg(Arg::new("delay").value_name("DUR")),
            );
        grammar.build();
        grammar
    }

    #[test]
    fn hints_shrink_as_arguments_are_typed() {
        let grammar = grammar();
        let at = |text| hint(&grammar, text).unwrap_or_default();
        assert_eq!(at("put "), "[-t TUBE] [-p PRI] [--lines] BODY…");
        assert_eq!(at("put -t "), "TUBE [-p PRI] [--lines] BODY…");
        assert_eq!(at("put -t mail --lines "), "[-p PRI] BODY…");
        assert_eq!(at("put -tmail -p1 x "), "[--lines] BODY…");
        // A value goes behind an equals sign, so the next word is none.
        assert_eq!(at("put --tls -t mail x --lines "), "[-p PRI] BODY…");
        assert_eq!(at("pause "), "TUBE [DUR]");
        assert_eq!(at("pause mail "), "[DUR]");
        assert_eq!(at("pause mail 3 "), "");
    }

    #[test]
    fn no_hint_inside_a_word_or_for_an_unknown_verb() {
        let grammar = grammar();
        for text in ["", "pu", "put", "put x", "nope ", "put \"a ", "put # "] {
            assert_eq!(hint(&grammar, text), None, "{text}");
        }
    }
}
