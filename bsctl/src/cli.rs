//! The grammar: one tree of commands for the command line, the REPL, completions, man pages and help.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ctl_core::args::GlobalArgs;

use crate::repl;
use crate::commands::{delete, peek, ping, pop, put, reserve};

/// Talk to beanstalkd: put, take, inspect and move jobs, from scripts and by hand.
#[derive(Debug, Parser)]
#[command(name = "bsctl", version, propagate_version = true, disable_help_subcommand = false)]
pub struct Cli {
    /// Server address [env: BSCTL_ADDR, BEANSTALKD_ADDR] [default: 127.0.0.1:11300]
    #[arg(short = 'a', long, global = true, value_name = "ADDR", help_heading = "Global options")]
    pub addr: Option<String>,

    /// Start an in-memory server for the duration of this command and use it
    #[arg(long, global = true, help_heading = "Global options")]
    pub embedded: bool,

    /// Flags of every command.
    #[command(flatten)]
    pub globals: GlobalArgs,

    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Every command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Put jobs into a tube (put)
    #[command(visible_aliases = ["add", "enqueue"], after_help = put::HELP)]
    Put(put::PutArgs),
    /// Take jobs and give them back or finish them (reserve-with-timeout, reserve-job)
    #[command(after_help = reserve::HELP)]
    Reserve(reserve::ReserveArgs),
    /// Take jobs for good: write, then delete (reserve-with-timeout, delete)
    #[command(after_help = pop::HELP)]
    Pop(pop::PopArgs),
    /// Look at jobs without touching them (peek, peek-ready, peek-delayed, peek-buried)
    #[command(after_help = peek::HELP)]
    Peek(peek::PeekArgs),
    /// Delete jobs by id (delete)
    #[command(visible_aliases = ["rm", "del"], after_help = delete::HELP)]
    Delete(delete::DeleteArgs),
    /// Measure a round trip to the server (list-tube-used)
    #[command(after_help = ping::HELP)]
    Ping(ping::PingArgs),
    /// Start a session: interactive, or a script from stdin, -f or -e
    #[command(visible_alias = "shell", after_help = repl::HELP)]
    Repl(repl::ReplArgs),
}

/// The grammar as a value, for the REPL, completions and man pages.
#[must_use]
pub fn command_tree() -> clap::Command {
    Cli::command()
}

/// Reads a command line; `line` begins with the program's name.
///
/// # Errors
/// What clap says: usage errors, and also `--help` and `--version`.
pub fn parse<I, T>(line: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    let mut tree = command_tree();
    let mut matches = tree.try_get_matches_from_mut(line)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut tree))
}
