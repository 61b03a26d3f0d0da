//! Arguments that the parser learns only when their command is given: a tool has some fifty commands with a thousand
//! flags, and a command line needs those of one.

use std::cell::Cell;
use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Id};

thread_local! {
    static IS_LAZY: Cell<bool> = const { Cell::new(false) };
}

/// Builds a grammar for one command line: its commands learn their arguments when they are selected. Any other grammar,
/// such as that of help or completions, is whole.
pub(super) fn lazily(build: impl FnOnce() -> Command) -> Command {
    IS_LAZY.set(true);
    let built = build();
    IS_LAZY.set(false);
    built
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
        if IS_LAZY.get() { command.defer(A::augment_args) } else { A::augment_args(command) }
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
    use clap::{CommandFactory, Parser, Subcommand};

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
    }

    #[derive(Debug, Parser)]
    struct Tool {
        #[command(subcommand)]
        line: Line,
    }

    #[test]
    fn a_command_learns_its_arguments_when_it_is_given() {
        let (whole, lazy) = (Tool::command(), lazily(Tool::command));
        let flags = |tool: &Command| tool.find_subcommand("put").unwrap().get_arguments().count();
        assert_eq!((flags(&whole), flags(&lazy)), (1, 0));
        for tool in [whole, lazy] {
            let about = tool.find_subcommand("add").unwrap().get_about().unwrap().to_string();
            assert_eq!(about, "Put a job");
            let matches = tool.try_get_matches_from(["tool", "add", "--tube", "mail"]).unwrap();
            let Line::Put(args) = Tool::from_arg_matches(&matches).unwrap().line;
            assert_eq!(args.tube, "mail");
        }
    }
}
