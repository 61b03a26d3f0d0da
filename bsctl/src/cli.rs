//! The grammar: one tree of commands for the command line, the REPL, completions, man pages and help.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ctl_core::args::GlobalArgs;
use ctl_core::program::Program;

use crate::commands::{
    check, clear, delete, docs as documents, drain, export, finish, import, job, jobs, kick, pause,
    peek, ping, pop, put, raw, reserve, serve, server, smoke, stats, tubes, wait, watch, work,
};
use crate::repl;
use crate::tool::PREFIX;

/// Talk to beanstalkd: put, take, inspect and move jobs, from scripts and by hand.
#[derive(Debug, Parser)]
#[command(name = "bsctl", version, max_term_width = 110)]
pub struct Cli {
    /// Where the server listens.
    #[arg(short = 'a', long, global = true, value_name = "ADDR", help_heading = "Global options")]
    #[arg(help = "Server address: host:port, [::1]:11300, unix:/path [default: 127.0.0.1:11300]")]
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
    /// Run a command for every job (reserve-with-timeout, touch, delete, release, bury)
    #[command(after_help = work::HELP)]
    Work(Box<work::WorkArgs>),
    /// Look at jobs without touching them (peek, peek-ready, peek-delayed, peek-buried)
    #[command(after_help = peek::HELP)]
    Peek(peek::PeekArgs),
    /// List jobs (stats-job and peek for every id)
    #[command(visible_aliases = ["ls-jobs", "list"], after_help = jobs::HELP)]
    Jobs(jobs::JobsArgs),
    /// Show everything about one job (stats-job)
    #[command(visible_aliases = ["stats-job", "show"], after_help = job::HELP)]
    Job(job::JobArgs),
    /// List tubes with their numbers of jobs (list-tubes, stats-tube)
    #[command(visible_aliases = ["ls", "list-tubes"], after_help = tubes::HELP)]
    Tubes(tubes::TubesArgs),
    /// Show the server's statistics (stats)
    #[command(after_help = stats::HELP)]
    Stats(stats::StatsArgs),
    /// Show the statistics of tubes (stats-tube)
    #[command(after_help = stats::TUBE_HELP)]
    StatsTube(stats::StatsTubeArgs),
    /// Show what the server is and supports (stats, reserve-job)
    #[command(visible_aliases = ["info", "version", "whoami"], after_help = server::HELP)]
    Server(server::ServerArgs),
    /// Delete jobs by id (delete)
    #[command(visible_aliases = ["rm", "del"], after_help = delete::HELP)]
    Delete(delete::DeleteArgs),
    /// Bring buried or delayed jobs back to ready (kick, kick-job)
    #[command(after_help = kick::HELP)]
    Kick(kick::KickArgs),
    /// Set jobs aside (reserve-job, bury)
    #[command(after_help = finish::BURY_HELP)]
    Bury(finish::BuryArgs),
    /// Make jobs ready or delayed (reserve-job, release)
    #[command(after_help = finish::RELEASE_HELP)]
    Release(finish::ReleaseArgs),
    /// Explain why a job can be touched only in a session (touch)
    #[command(after_help = finish::TOUCH_HELP)]
    Touch(finish::TouchArgs),
    /// Keep the jobs of a tube from being reserved for a while (pause-tube)
    #[command(after_help = pause::PAUSE_HELP)]
    Pause(pause::PauseArgs),
    /// End a pause (pause-tube with 0)
    #[command(visible_alias = "unpause", after_help = pause::RESUME_HELP)]
    Resume(pause::ResumeArgs),
    /// Delete the jobs of tubes (reserve-with-timeout, peek-delayed, peek-buried, delete)
    #[command(visible_aliases = ["flush", "purge", "empty"], after_help = clear::HELP)]
    Clear(clear::ClearArgs),
    /// Move the jobs of tubes into a file or pipe (as clear, written before deleted)
    #[command(after_help = drain::HELP)]
    Drain(drain::DrainArgs),
    /// Write jobs as NDJSON records (stats-job and peek for every id)
    #[command(after_help = export::HELP)]
    Export(export::ExportArgs),
    /// Put the jobs of NDJSON records (put; reserve-job and bury for buried ones)
    #[command(after_help = import::HELP)]
    Import(import::ImportArgs),
    /// Check that client, network and server work together (put to stats-tube, in a tube of its own)
    #[command(after_help = smoke::HELP)]
    Smoke(smoke::SmokeArgs),
    /// Compare metrics with thresholds, for monitoring and CI (stats, stats-tube)
    #[command(after_help = check::HELP)]
    Check(check::CheckArgs),
    /// Wait until a condition is true (stats-tube, stats-job)
    #[command(after_help = wait::HELP)]
    Wait(wait::WaitArgs),
    /// Measure a round trip to the server (list-tube-used)
    #[command(after_help = ping::HELP)]
    Ping(ping::PingArgs),
    /// Repeat a command that only looks
    #[command(after_help = watch::HELP)]
    Watch(watch::WatchArgs),
    /// Work in a session: one connection, completion, history, scripts
    #[command(visible_alias = "shell", after_help = repl::HELP)]
    Repl(repl::ReplArgs),
    /// Send one protocol line and print the reply (any command)
    #[command(after_help = raw::HELP)]
    Raw(raw::RawArgs),
    /// Run an in-memory server, alone or for a command
    #[command(visible_alias = "mock", after_help = serve::HELP)]
    Serve(serve::ServeArgs),
    /// Print a completion script for a shell
    #[command(after_help = documents::COMPLETIONS_HELP)]
    Completions(documents::CompletionsArgs),
    /// Print or write the man pages
    #[command(after_help = documents::MAN_HELP)]
    Man(documents::ManArgs),
    /// Print the sections of the README that are made from the grammar
    #[command(hide = true)]
    Docs(documents::DocsArgs),
}

/// What the tool is called and how its commands are grouped.
pub const PROGRAM: Program = Program {
    name: "bsctl",
    prefix: PREFIX,
    tree: command_tree,
    groups: &[
        ("Produce", &["put"]),
        ("Consume", &["reserve", "pop", "work"]),
        ("Inspect", &["peek", "jobs", "job", "tubes", "stats", "stats-tube", "server"]),
        ("Change state", &["delete", "kick", "bury", "release", "touch", "pause", "resume"]),
        ("Bulk", &["clear", "drain", "export", "import"]),
        ("Observe", &["smoke", "check", "wait", "ping", "watch"]),
        ("Tool", &["repl", "raw", "serve", "completions", "man"]),
    ],
    environment: &[
        ("BSCTL_ADDR", "server address, when -a is not given; then BEANSTALKD_ADDR"),
        ("BSCTL_TIMEOUT", "as --timeout"),
        ("BSCTL_OUTPUT", "as --output"),
        ("BSCTL_LOG", "what is logged, as RUST_LOG: debug, or bsctl=info,bsctl::protocol=trace"),
        ("BSCTL_CONFIRM_ABOVE", "kick --all asks above this number of jobs [default: 100]"),
        ("BSCTL_HISTFILE", "history of the REPL; empty or /dev/null for none"),
        ("BSCTL_PAGER, PAGER", "pager of the REPL [default: less]"),
        ("VISUAL, EDITOR", "editor of the REPL [default: vi]"),
        ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours, when --color is not given"),
    ],
};

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
