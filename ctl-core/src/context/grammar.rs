//! A grammar for one command line: a tool has some fifty commands with a thousand flags, and a line needs those of one.

use std::cell::RefCell;
use std::ffi::OsString;

use clap::Command;

thread_local! {
    /// The words of the line that a grammar is built for.
    static LINE: RefCell<Option<Vec<OsString>>> = const { RefCell::new(None) };
}

/// Builds the grammar of this line: it has only the commands that a word of the line names, and they learn their
/// arguments when they are selected. Any other grammar, such as that of help or completions, is whole.
pub(crate) fn of_line(line: &[OsString], build: impl FnOnce() -> Command) -> Command {
    LINE.set(Some(line.to_vec()));
    let built = build();
    LINE.set(None);
    built
}

/// Whether a word of the line names a command that has these names, or any line may.
pub(crate) fn is_named<'n>(name: &'n str, aliases: impl Iterator<Item = &'n str>) -> bool {
    let mut names = std::iter::once(name).chain(aliases);
    LINE.with_borrow(|line| match line {
        Some(line) => names.any(|name| line.iter().any(|word| word == name)),
        None => true,
    })
}

/// A command with these arguments, when it is selected.
pub(crate) fn with_arguments(command: Command, arguments: fn(Command) -> Command) -> Command {
    match LINE.with_borrow(Option::is_some) {
        true => command.defer(arguments),
        false => arguments(command),
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn put(command: Command) -> Command {
        command.arg(Arg::new("tube").long("tube"))
    }

    fn tool() -> Command {
        let commands =
            [("put", "add", put as fn(Command) -> Command), ("tubes", "ls", |tubes| tubes)];
        let named =
            commands.into_iter().filter(|(name, alias, _)| is_named(name, [*alias].into_iter()));
        Command::new("tool").subcommands(named.map(|(name, alias, arguments)| {
            with_arguments(Command::new(name), arguments).visible_alias(alias)
        }))
    }

    #[test]
    fn a_line_builds_only_its_commands_grammar() {
        let line = ["tool", "add", "--tube", "mail"].map(OsString::from);
        let (whole, lazy) = (tool(), of_line(&line, tool));
        let names = |tool: &Command| -> Vec<String> {
            tool.get_subcommands().map(|command| command.get_name().to_owned()).collect()
        };
        let flags = |tool: &Command| tool.find_subcommand("put").unwrap().get_arguments().count();
        assert_eq!((names(&whole).len(), flags(&whole)), (2, 1));
        assert_eq!((names(&lazy), flags(&lazy)), (vec!["put".to_owned()], 0));
        for tool in [whole, lazy] {
            let matches = tool.try_get_matches_from(&line).unwrap();
            let (name, put) = matches.subcommand().unwrap();
            assert_eq!((name, put.get_one("tube")), ("put", Some(&"mail".to_owned())));
        }
        assert_eq!(names(&tool()).len(), 2, "the next one is whole again");
    }
}
