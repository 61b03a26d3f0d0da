//! The grammar: one tree of commands for the command line, the REPL, completions, man pages and help.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ctl_core::args::GlobalArgs;
use ctl_core::program::Program;

use crate::commands::{
    cancel, check, docs as documents, drain, function, functions, job, jobs, map, ping, raw, run,
    serve, server, shutdown, smoke, submit, wait, watch, work, workers,
};
use crate::repl;
use crate::tls::TlsArgs;
use crate::tool::PREFIX;

/// Talk to Gearman job servers: submit jobs, look at them, administer servers.
#[derive(Debug, Parser)]
#[command(name = "gearctl", version, max_term_width = 110)]
pub struct Cli {
    /// Where the servers listen.
    #[arg(
        help = "Server address: host:port, [::1]:4730, unix:/path; several with commas, or the flag again [default: 127.0.0.1:4730]"
    )]
    #[arg(
        short = 's',
        long = "server",
        short_alias = 'a',
        alias = "addr",
        global = true,
        value_name = "ADDR",
        help_heading = "Global options"
    )]
    pub server: Vec<String>,

    /// Start an in-memory server for the duration of this command and use it
    #[arg(long, global = true, help_heading = "Global options")]
    pub embedded: bool,

    /// Flags of TLS.
    #[command(flatten)]
    pub tls: TlsArgs,

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
    /// Run jobs and print their results (SUBMIT_JOB)
    #[command(visible_aliases = ["do", "call"], after_help = run::HELP)]
    Run(run::RunArgs),
    /// Submit background jobs and print their handles (SUBMIT_JOB_BG, SUBMIT_JOB_EPOCH)
    #[command(visible_alias = "bg", after_help = submit::HELP)]
    Submit(submit::SubmitArgs),
    /// Run a job for every line, and print a line for every result (SUBMIT_JOB)
    #[command(after_help = map::HELP)]
    Map(map::MapArgs),
    /// Serve functions: run a command for every job (CAN_DO, GRAB_JOB_ALL, WORK_COMPLETE)
    #[command(after_help = work::HELP)]
    Work(work::WorkArgs),
    /// Show whether the server knows a job, and how far it is (GET_STATUS, GET_STATUS_UNIQUE)
    #[command(visible_alias = "job-status", after_help = job::HELP)]
    Job(job::JobArgs),
    /// List the jobs of the server (show jobs)
    #[command(after_help = jobs::HELP)]
    Jobs(jobs::JobsArgs),
    /// List the unique ids of the jobs of the server (show unique jobs)
    #[command(after_help = jobs::UNIQUE_HELP)]
    UniqueJobs(jobs::UniqueJobsArgs),
    /// Take queued jobs away (cancel job)
    #[command(after_help = cancel::HELP)]
    Cancel(cancel::CancelArgs),
    /// List functions with their numbers of jobs and workers (status, prioritystatus)
    #[command(visible_aliases = ["ls", "status"], after_help = functions::HELP)]
    Functions(functions::FunctionsArgs),
    /// Create, drop or limit a function (create function, drop function, maxqueue)
    #[command(after_help = function::HELP)]
    Function(function::FunctionArgs),
    /// List the connections of the server and what they can do (workers)
    #[command(after_help = workers::HELP)]
    Workers(workers::WorkersArgs),
    /// Take the queued jobs of functions away (GRAB_JOB_UNIQ, WORK_COMPLETE, WORK_FAIL)
    #[command(visible_aliases = ["clear", "purge"], after_help = drain::HELP)]
    Drain(drain::DrainArgs),
    /// Check that client, worker, network and server work together (SUBMIT_JOB to WORK_COMPLETE)
    #[command(after_help = smoke::HELP)]
    Smoke(smoke::SmokeArgs),
    /// Compare metrics with thresholds, for monitoring and CI (status, GET_STATUS, SUBMIT_JOB)
    #[command(after_help = check::HELP)]
    Check(check::CheckArgs),
    /// Wait until a condition is true (status, GET_STATUS)
    #[command(after_help = wait::HELP)]
    Wait(wait::WaitArgs),
    /// Measure a round trip to the server (ECHO_REQ, or GET_STATUS where that is unanswered)
    #[command(after_help = ping::HELP)]
    Ping(ping::PingArgs),
    /// Repeat a command that only looks
    #[command(after_help = watch::HELP)]
    Watch(watch::WatchArgs),
    /// Show what the server is and supports (version, getpid, verbose, status, workers)
    #[command(visible_alias = "info", after_help = server::HELP)]
    Server(server::ServerArgs),
    /// Show the server's version (version)
    Version(server::VersionArgs),
    /// Show the server's process id (getpid)
    Pid(server::PidArgs),
    /// Show what the server logs (verbose)
    Verbose(server::VerboseArgs),
    /// End the server, where it can be asked to (shutdown)
    #[command(after_help = shutdown::HELP)]
    Shutdown(shutdown::ShutdownArgs),
    /// Work in a session: connections that last, completion, history, scripts
    #[command(visible_alias = "shell", after_help = repl::HELP)]
    Repl(repl::ReplArgs),
    /// Send a line of the text protocol or packets, and print what comes back (any command or packet)
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
    name: "gearctl",
    prefix: PREFIX,
    tree: command_tree,
    groups: &[
        ("Submit", &["run", "submit", "map"]),
        ("Work", &["work"]),
        ("Jobs", &["job", "jobs", "unique-jobs", "cancel"]),
        ("Functions and workers", &["functions", "function", "workers"]),
        ("Bulk", &["drain"]),
        ("Observe", &["smoke", "check", "wait", "ping", "watch"]),
        ("Server", &["server", "version", "pid", "verbose", "shutdown"]),
        ("Tool", &["repl", "raw", "serve", "completions", "man"]),
    ],
    environment: &[
        (
            "GEARCTL_SERVER",
            "server addresses, when -s is not given; then GEARMAN_SERVER, GEARMAN_SERVERS",
        ),
        (
            "GEARMAND_CA_CERTIFICATE, GEARMAN_CLIENT_PEM, GEARMAN_CLIENT_KEY",
            "files for TLS, as --tls-ca, --tls-cert, --tls-key",
        ),
        ("GEARCTL_TLS_CRL", "as --tls-crl"),
        ("GEARCTL_TIMEOUT", "as --timeout"),
        ("GEARCTL_OUTPUT", "as --output"),
        ("GEARCTL_LOG", "what is logged, as RUST_LOG: debug, or gearctl::protocol=trace"),
        ("GEARCTL_HISTFILE", "history of the REPL; empty or /dev/null for none"),
        ("GEARCTL_PAGER, PAGER", "pager of the REPL [default: less]"),
        ("VISUAL, EDITOR", "editor of the REPL [default: vi]"),
        ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours, when --color is not given"),
    ],
};

/// The grammar as a value, for completions and man pages.
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
