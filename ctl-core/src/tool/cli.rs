//! The grammar of every tool: its flags, its own commands, and the common ones.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::GlobalArgs;
use crate::commands::ping::PingArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::settings::context::ContextArgs;
use crate::commands::settings::doctor::DoctorArgs;
use crate::config::{SettingsArgs, keys};
use crate::context::command::{self, Ready};
use crate::context::{Effect, Tool, grammar};
use crate::link::tls::{self, TlsArgs};
use crate::program::Program;
use crate::repl::args::SessionArgs;
use crate::rules::preset::{self, Preset};
use crate::tool::docs::commands::{CompletionsArgs, DocsArgs};
use crate::tool::examples::{self, ExamplesArgs};
use crate::tool::shells::CompleteArgs;

/// A command line of a tool.
#[derive(Parser)]
#[command(max_term_width = 110)]
pub struct Cli<T: Tool> {
    /// Which servers.
    #[command(flatten)]
    pub connect: T::Connect,

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
    pub command: Option<Line<T>>,
}

/// A command.
pub enum Line<T: Tool> {
    /// One of the tool's own.
    Own(Ready<T>),
    /// One that every tool has.
    Common(Common),
}

impl<T: Tool> FromArgMatches for Line<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named =
            matches.subcommand().and_then(|(name, args)| Some((command::named(name)?, args)));
        match named {
            Some((row, args)) => row.ready(args).map(Self::Own),
            None => Common::from_arg_matches(matches).map(Self::Common),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Tool> Subcommand for Line<T> {
    fn augment_subcommands(tree: Command) -> Command {
        let common = Common::augment_subcommands(Command::new("common"));
        let is_named =
            |command: &&Command| grammar::is_named(command.get_name(), command.get_all_aliases());
        let common = common.get_subcommands().filter(is_named).cloned();
        tree.subcommands(command::grammars::<T>().chain(common).chain(command::short(SHORT)))
    }

    fn augment_subcommands_for_update(tree: Command) -> Command {
        Self::augment_subcommands(tree)
    }

    fn has_subcommand(name: &str) -> bool {
        command::named::<T>(name).is_some() || Common::has_subcommand(name)
    }
}

/// Words that are short for one of the commands of every tool with some of its arguments.
const SHORT: &[Preset] = &[("man", "completions man")];

/// The commands of every tool.
#[derive(Debug, Subcommand)]
pub enum Common {
    /// Measure round trips to the server
    Ping(PingArgs),
    /// Work in a session
    #[command(visible_alias = "shell")]
    Repl(SessionArgs),
    /// Run an in-memory server, standalone or for a command
    #[command(visible_alias = "mock")]
    Serve(ServeArgs),
    /// Manage contexts: named sets of settings, such as servers
    Context(ContextArgs),
    /// Diagnose settings and servers, and say how to fix what is wrong
    Doctor(DoctorArgs),
    /// Show cheat sheets: command lines that are ready to copy
    Examples(ExamplesArgs),
    /// Print a completion script for a shell, or the man pages
    Completions(CompletionsArgs),
    /// Say how a line of a shell can go on
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Print the sections of the README that are made from the grammar
    #[command(hide = true)]
    Docs(DocsArgs),
}

impl Common {
    /// The command's effect.
    #[must_use]
    pub fn effect(&self) -> Effect {
        let reads = |reads_only| if reads_only { Effect::Reads } else { Effect::Creates };
        match self {
            Self::Ping(_)
            | Self::Doctor(_)
            | Self::Examples(_)
            | Self::Complete(_)
            | Self::Docs(_) => Effect::Reads,
            Self::Completions(args) => reads(args.reads_only()),
            Self::Context(args) => reads(args.reads_only()),
            Self::Repl(_) | Self::Serve(_) => Effect::Creates,
        }
    }

    /// Whether the command works with an invalid configuration file.
    #[must_use]
    pub(crate) fn is_about_settings(&self) -> bool {
        match self {
            Self::Context(args) => args.works_without(),
            Self::Doctor(_)
            | Self::Examples(_)
            | Self::Completions(_)
            | Self::Complete(_)
            | Self::Docs(_) => true,
            Self::Ping(_) | Self::Repl(_) | Self::Serve(_) => false,
        }
    }
}

/// The grammar of a tool as a value: for parsing, sessions, completions and man pages.
#[must_use]
pub fn tree<T: Tool>() -> Command {
    base::<T>().mut_subcommands(handed_down)
}

fn base<T: Tool>() -> Command {
    let Program { name, version, about, tls, .. } = T::PROGRAM;
    let tree = Cli::<T>::command().name(name).version(version).about(about);
    with_help(tls::with_names(tree, &tls), &T::PROGRAM)
}

/// The end of a command's help is about all the commands below it, so it also ends theirs.
fn handed_down(command: Command) -> Command {
    let Some(end) = command.get_after_help().cloned() else {
        return command;
    };
    command.mut_subcommands(|inner| match inner.get_after_help() {
        Some(_) => inner,
        None => inner.after_help(end.clone()),
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

/// The flags that select the servers, as written.
#[must_use]
pub fn server_flags<T: Tool>() -> Vec<String> {
    let flags = T::Connect::augment_args(Command::new("connect"));
    let long = T::PROGRAM.servers.flag.trim_start_matches('-');
    let flag = flags.get_arguments().find(|flag| flag.get_long() == Some(long));
    let letters = flag.into_iter().flat_map(|flag| flag.get_short_and_visible_aliases());
    let letters = letters.flatten().map(|letter| format!("-{letter}"));
    letters.chain([T::PROGRAM.servers.flag.to_owned()]).collect()
}

trait Change {
    /// Changes a command, if the grammar has it.
    fn change(self, name: &str, change: impl FnOnce(Command) -> Command) -> Self;
}

impl Change for Command {
    fn change(self, name: &str, change: impl FnOnce(Command) -> Command) -> Self {
        match self.find_subcommand(name).is_some() {
            true => self.mut_subcommand(name, change),
            false => self,
        }
    }
}

/// Adds the tool's help texts to the common commands.
fn with_help(tree: Command, program: &Program) -> Command {
    let Program { name, help, .. } = program;
    let ping = help.ping;
    let (repl_about, repl, sessions) = help.repl;
    let repl = format!(
        "{repl}\n\n\
         A script (stdin, -f, -e) stops at the first error and exits with its code. # starts a comment, and <<END takes the\n\
         lines up to END as a body. CMD | SHELL COMMAND pipes results, CMD > FILE and CMD >> FILE write them to a file, CMD \\G\n\
         prints one value per line, and !CMD runs a shell command.\n\n\
         On a terminal, Tab completes, results taller than the screen go to $PAGER, and \\e opens $VISUAL or $EDITOR. Before\n\
         the first prompt, the commands in ~/.config/{name}/replrc are run.\n\nExamples:\n{sessions}"
    );
    let completions = format!(
        "Examples:\n  {name} completions bash > ~/.local/share/bash-completion/completions/{name}\n  \
         {name} completions zsh > ~/.zfunc/_{name}\n  \
         {name} completions fish > ~/.config/fish/completions/{name}.fish\n  \
         {name} completions nushell | save ($nu.user-autoload-dirs.0)/{name}.nu\n  \
         {name} man | man -l -\n  {name} man --out ~/.local/share/man/man1"
    );
    let examples = tree.find_subcommand("examples").cloned();
    let examples = examples.map(|examples| examples::with_topics(examples, program, &tree));
    tree.change("examples", |command| examples.unwrap_or(command))
        .change("doctor", |command| command.after_help(doctor_help(program)))
        .change("context", |command| command.after_help(contexts_help(program)))
        .change("ping", |command| {
            command.after_help(format!(
                "{ping}\n\nExamples:\n  {name} ping\n  {name} ping --count 1000 --interval 10ms"
            ))
        })
        .change("repl", |command| command.about(repl_about).after_help(repl))
        .change("serve", |command| command.after_help(help.serve))
        .change("completions", |command| command.after_help(completions))
}

fn contexts_help(program: &Program) -> String {
    let Program { name, prefix, servers, queue, .. } = program;
    let (short, default, queue) = (servers.short, servers.default, queue.key);
    let known: Vec<String> = keys::KEYS
        .iter()
        .map(|key| format!("  {:<16} {}", key.shown(program), key.form(program)))
        .collect();
    let known = known.join("\n");
    format!(
        "A context is a table in the configuration file: servers, how to reach them, and defaults for them.\n\
         Each setting comes from its flag, else from the context named by --context, else from the environment, else from\n\
         the context that {prefix}_CONTEXT names or that is selected, else from [defaults] in the file. `{name} context show`\n\
         shows which. In a protected context, every command that takes, changes or removes anything asks for the context's\n\
         name; --confirm=NAME answers that, --yes does not.\n\n\
         The file is the one named by --config or {prefix}_CONFIG, else $XDG_CONFIG_HOME/{name}/config.toml, else\n\
         ~/.config/{name}/config.toml. It is TOML: [defaults], a table [contexts.NAME] for each context, and context = \"NAME\"\n\
         for the selected one. A file that others can write is refused. Contexts and defaults take these settings:\n{known}\n\n\
         Examples:\n  {name} context add prod {short} {default} protected=true prompt-color=red\n  \
         {name} context edit prod timeout=2s {queue}=NAME\n  {name} context edit\n  {name} context select prod\n  {name} context show\n  \
         {name} context validate --connect\n  {name} context select -\n  {name} --context prod ping"
    )
}

fn doctor_help(program: &Program) -> String {
    let Program { name, prefix, .. } = program;
    format!(
        "Checks the configuration file, the effective settings and where each came from, the files they name, and unknown\n\
         {prefix}_* variables, and asks every server what it is and supports. It changes nothing. STATUS is ok, warning or\n\
         failed; the exit code is that of the most severe failure, and 0 if there are only warnings. In JSON, a server's\n\
         answer is under `server`.\n\nExamples:\n  {name} doctor\n  {name} doctor -o json\n  {name} --context prod doctor"
    )
}
