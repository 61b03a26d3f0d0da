//! A grammar for one command line: a tool has some fifty commands with a thousand flags, and a line needs those of one.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Id};

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

/// Those of the commands of `all` that the grammar has, added to `tree`.
pub(crate) fn add_commands(tree: Command, all: &Command) -> Command {
    let commands = all.get_subcommands();
    LINE.with_borrow(|line| match line {
        Some(line) => tree.subcommands(commands.filter(|command| is_named(command, line)).cloned()),
        None => tree.subcommands(commands.cloned()),
    })
}

fn is_named(command: &Command, line: &[OsString]) -> bool {
    let mut names = std::iter::once(command.get_name()).chain(command.get_all_aliases());
    names.any(|name| line.iter().any(|word| word == OsStr::new(name)))
}

/// The arguments of a command, as they are.
#[derive(Debug)]
pub struct Later<A>(pub A);

impl<A> Deref for Later<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A: Args> Args for Later<A> {
    fn group_id() -> Option<Id> {
        A::group_id()
    }

    fn augment_args(command: Command) -> Command {
        match LINE.with_borrow(Option::is_some) {
            true => command.defer(A::augment_args),
            false => A::augment_args(command),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(command)
    }
}

impl<A: FromArgMatches> FromArgMatches for Later<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;

    #[derive(Debug, Args)]
    struct Put {
        #[arg(long)]
        tube: String,
    }

    #[derive(Debug, Subcommand)]
    enum Line {
        /// Put a job
        #[command(visible_alias = "add")]
        Put(Later<Put>),
        /// Show the tubes
        Tubes,
    }

    fn tool() -> Command {
        add_commands(Command::new("tool"), &Line::augment_subcommands(Command::new("all")))
    }

    #[test]
    fn a_line_has_the_grammar_of_its_command_only() {
        let line = ["tool", "add", "--tube", "mail"].map(OsString::from);
        let (whole, lazy) = (tool(), of_line(&line, tool));
        let names = |tool: &Command| -> Vec<String> {
            tool.get_subcommands().map(|command| command.get_name().to_owned()).collect()
        };
        let flags = |tool: &Command| tool.find_subcommand("put").unwrap().get_arguments().count();
        assert_eq!((names(&whole).len(), flags(&whole)), (2, 1));
        assert_eq!((names(&lazy), flags(&lazy)), (vec!["put".to_owned()], 0));
        for tool in [whole, lazy] {
            let about = tool.find_subcommand("add").unwrap().get_about().unwrap().to_string();
            assert_eq!(about, "Put a job");
            let matches = tool.try_get_matches_from(&line).unwrap();
            let Line::Put(args) = Line::from_arg_matches(&matches).unwrap() else { panic!() };
            assert_eq!(args.tube, "mail");
        }
        assert_eq!(names(&tool()).len(), 2, "the next one is whole again");
    }
}
