//! The grammar of every tool: its flags and its commands.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};

use crate::args::GlobalArgs;
use crate::config::SettingsArgs;
use crate::context::command::Ready;
use crate::context::{Tool, grammar};
use crate::link::tls::{self, TlsArgs};
use crate::link::{self, ServerArgs};
use crate::program::Program;
use crate::rules::preset;
use crate::tool::help;

/// A command line of a tool.
#[derive(Parser)]
#[command(max_term_width = 110, disable_help_subcommand = true)]
pub struct Cli<T: Tool> {
    /// Which servers.
    #[command(flatten)]
    pub connect: ServerArgs,

    /// Start an in-memory server for this command and use it
    #[arg(long, global = true, help_heading = "Global options")]
    pub embedded: bool,

    /// Flags of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Where settings come from.
    #[command(flatten)]
    pub settings: SettingsArgs,

    /// Flags of every command.
    #[command(flatten)]
    pub globals: GlobalArgs,

    /// What to do.
    #[command(subcommand)]
    pub command: Option<Ready<T>>,
}

/// The grammar of a tool as a value: for parsing, sessions, completions and man pages.
#[must_use]
pub fn tree<T: Tool>() -> Command {
    base::<T>().mut_subcommands(handed_down)
}

fn base<T: Tool>() -> Command {
    let Program { name, version, about, servers, tls, .. } = T::PROGRAM;
    let tree = Cli::<T>::command().name(name).version(version).about(about);
    let tree = tls::with_names(link::with_servers(tree, &servers), &tls);
    let explained = tree.find_subcommand("help").cloned();
    match explained.map(|command| help::with_topics(command, &T::PROGRAM, &tree)) {
        Some(command) => tree.mut_subcommand("help", |_| command.hide(false)),
        None => tree,
    }
}

/// The end of a command's help is about all the commands below it, so it also ends theirs.
fn handed_down(command: Command) -> Command {
    let end = command.get_after_help().cloned();
    command.mut_subcommands(|inner| {
        let own = inner.get_after_help().cloned();
        inner.after_help(Resettable::from(own.or_else(|| end.clone())))
    })
}

/// Parses a command line, and also returns its words; `line` begins with the program's name.
///
/// # Errors
/// The errors of clap: usage errors, and also `--help` and `--version`.
pub fn parse<T: Tool>(
    line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<(Cli<T>, ArgMatches), clap::Error> {
    let mut line: Vec<OsString> = line.into_iter().map(Into::into).collect();
    let mut named = grammar::of_line(&line, base::<T>);
    if let Some(expanded) = preset::of_line(&named, &line) {
        line = expanded;
        named = grammar::of_line(&line, base::<T>);
    }
    match parse_by(named, &line) {
        // Help and suggestions may be about any command.
        Err(error) if error.kind() != ErrorKind::DisplayVersion => parse_by(tree::<T>(), &line),
        parsed => parsed,
    }
}

fn parse_by<T: Tool>(
    mut tree: Command,
    line: &[OsString],
) -> Result<(Cli<T>, ArgMatches), clap::Error> {
    let matches = tree.try_get_matches_from_mut(line)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut tree))?;
    Ok((cli, matches))
}
