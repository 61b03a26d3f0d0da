//! The commands of this tool, beside those of every tool, and what runs them.

use clap::{Args, Subcommand};
use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::smoke::SmokeArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::{Later, Nature};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Connect;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;
use ctl_core::program::Program;

use crate::commands::{
    bench, cancel, check, drain, exporter, function, functions, import, job, jobs, map,
    peek_export, raw, run, server, shutdown, smoke, submit, tap, top, wait, web, work, workers,
};
use crate::link::Link;
use crate::program;
use crate::repl::session::Session;
use crate::tool::{Gearctl, Tool};

/// The servers to use.
#[derive(Debug, Args)]
pub struct Servers {
    /// Where the servers listen.
    #[arg(
        help = "Server address: host:port, [::1]:4730, unix:/path; comma-separated or repeated for several [default: 127.0.0.1:4730]"
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
    server: Vec<String>,
}

impl Connect for Servers {
    fn addresses(&self) -> Option<String> {
        (!self.server.is_empty()).then(|| self.server.join(","))
    }
}

/// Every command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Run jobs and print their results (SUBMIT_JOB)
    #[command(visible_aliases = ["do", "call"], after_help = run::HELP)]
    Run(Later<run::RunArgs>),
    /// Submit background jobs and print their handles (SUBMIT_JOB_BG, SUBMIT_JOB_EPOCH)
    #[command(visible_alias = "bg", after_help = submit::HELP)]
    Submit(Later<submit::SubmitArgs>),
    /// Run a job for every line and print a line for every result (SUBMIT_JOB)
    #[command(after_help = map::HELP)]
    Map(Later<map::MapArgs>),
    /// Serve functions: run a command for every job (CAN_DO, GRAB_JOB_ALL, WORK_COMPLETE)
    #[command(after_help = work::HELP)]
    Work(Later<work::WorkArgs>),
    /// Show whether the server knows a job, and its progress (GET_STATUS, GET_STATUS_UNIQUE)
    #[command(visible_alias = "job-status", after_help = job::HELP)]
    Job(Later<job::JobArgs>),
    /// List the server's jobs (show jobs)
    #[command(after_help = jobs::HELP)]
    Jobs(Later<jobs::JobsArgs>),
    /// List the unique ids of the server's jobs (show unique jobs)
    #[command(after_help = jobs::UNIQUE_HELP)]
    UniqueJobs(Later<jobs::UniqueJobsArgs>),
    /// Cancel queued jobs (cancel job)
    #[command(after_help = cancel::HELP)]
    Cancel(Later<cancel::CancelArgs>),
    /// List functions with their job and worker counts (status, prioritystatus)
    #[command(visible_aliases = ["ls", "status"], after_help = functions::HELP)]
    Functions(Later<functions::FunctionsArgs>),
    /// Create, drop or limit a function (create function, drop function, maxqueue)
    #[command(after_help = function::HELP)]
    Function(Later<function::FunctionArgs>),
    /// List the server's connections and their functions (workers)
    #[command(after_help = workers::HELP)]
    Workers(Later<workers::WorkersArgs>),
    /// Delete queued jobs (GRAB_JOB_UNIQ, WORK_COMPLETE, WORK_FAIL)
    #[command(visible_alias = "purge", after_help = drain::clear::HELP)]
    Clear(Later<drain::clear::ClearArgs>),
    /// Write queued jobs as records and remove them (GRAB_JOB_UNIQ, WORK_COMPLETE, WORK_FAIL)
    #[command(after_help = drain::HELP)]
    Drain(Later<drain::DrainArgs>),
    /// Move queued jobs to another function or server (as drain, each submitted there before it is ended)
    #[command(after_help = drain::relocate::HELP)]
    Move(Later<drain::relocate::MoveArgs>),
    /// Show the next jobs; the server may drop them because of it (GRAB_JOB_UNIQ)
    #[command(after_help = peek_export::PEEK_HELP)]
    Peek(Later<peek_export::PeekArgs>),
    /// Write queued jobs as records and give them back; the server may drop them (GRAB_JOB_UNIQ)
    #[command(after_help = peek_export::EXPORT_HELP)]
    Export(Later<peek_export::ExportArgs>),
    /// Submit jobs from records as background jobs (SUBMIT_JOB_BG)
    #[command(after_help = import::HELP)]
    Import(Later<import::ImportArgs>),
    /// Check that client, worker, network and server work together (SUBMIT_JOB to WORK_COMPLETE)
    #[command(after_help = smoke::HELP)]
    Smoke(SmokeArgs),
    /// Compare metrics with thresholds, for monitoring and CI (status, GET_STATUS, SUBMIT_JOB)
    #[command(after_help = check::HELP)]
    Check(Later<check::CheckArgs>),
    /// Monitor the functions live: backlog, rates and problems (status)
    #[command(after_help = top::HELP)]
    Top(Later<TopArgs>),
    /// Measure the server's throughput and latency (SUBMIT_JOB_BG, ECHO_REQ, SUBMIT_JOB, GRAB_JOB_UNIQ, with a function
    /// of its own)
    #[command(after_help = bench::HELP)]
    Bench(Later<Box<bench::BenchArgs>>),
    /// Serve metrics for Prometheus and counts for autoscalers (status)
    #[command(after_help = exporter::HELP)]
    Exporter(Later<ExporterArgs>),
    /// Serve a live web page of servers and queues (as top, and commands of this tool)
    #[command(after_help = web::HELP)]
    Web(Later<WebArgs>),
    /// Show the traffic between applications and the server by relaying it (any packet)
    #[command(after_help = tap::HELP)]
    Tap(Later<TapArgs>),
    /// Wait until a condition is true (status, GET_STATUS)
    #[command(after_help = wait::HELP)]
    Wait(Later<wait::WaitArgs>),
    /// Show the server's version and features (version, getpid, verbose, status, workers)
    #[command(visible_alias = "info", after_help = server::HELP)]
    Server(Later<server::ServerArgs>),
    /// Show the server's version (version)
    #[command(after_help = server::VERSION_HELP)]
    Version(Later<server::VersionArgs>),
    /// Show the server's process id (getpid)
    #[command(after_help = server::PID_HELP)]
    Pid(Later<server::PidArgs>),
    /// Show the server's log level (verbose)
    #[command(after_help = server::VERBOSE_HELP)]
    Verbose(Later<server::VerboseArgs>),
    /// Shut the server down, where it supports that (shutdown)
    #[command(after_help = shutdown::HELP)]
    Shutdown(Later<shutdown::ShutdownArgs>),
    /// Send a line of the text protocol or packets and print the replies (any command or packet)
    #[command(after_help = raw::HELP)]
    Raw(Later<raw::RawArgs>),
}

impl ctl_core::context::Tool for Gearctl {
    const PROGRAM: Program = program::PROGRAM;

    type Connect = Servers;
    type Command = Command;
    type Link = Link;
    type Session = Session;

    fn run(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
        match command {
            Command::Run(args) => run::run(tool, args.0),
            Command::Map(args) => map::run(tool, args.0),
            Command::Submit(args) => submit::run(tool, args.0),
            Command::Work(args) => work::run(tool, args.0),
            Command::Job(args) => job::run(tool, args.0),
            Command::Jobs(args) => jobs::run(tool, args.0),
            Command::UniqueJobs(args) => jobs::run_unique(tool, args.0),
            Command::Clear(args) => drain::clear::run(tool, args.0),
            Command::Drain(args) => drain::run(tool, args.0),
            Command::Move(args) => drain::relocate::run(tool, args.0),
            Command::Peek(args) => peek_export::peek(tool, args.0),
            Command::Export(args) => peek_export::export(tool, args.0),
            Command::Import(args) => import::run(tool, args.0),
            Command::Cancel(args) => cancel::run(tool, args.0),
            Command::Functions(args) => functions::run(tool, args.0),
            Command::Function(args) => function::run(tool, args.0),
            Command::Workers(args) => workers::run(tool, args.0),
            Command::Smoke(SmokeArgs {}) => smoke::run(tool),
            Command::Check(args) => check::run(tool, args.0),
            Command::Bench(args) => bench::run(tool, *args.0),
            Command::Wait(args) => wait::run(tool, args.0),
            Command::Top(args) => {
                ctl_core::live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD)
            }
            Command::Exporter(args) => {
                ctl_core::commands::exporter::run(tool, &args, &exporter::EXPORTS)
            }
            Command::Web(args) => {
                ctl_core::live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE)
            }
            Command::Tap(args) => ctl_core::commands::tap::run(
                tool,
                &args,
                tap::Packets::default,
                tap::Packets::default,
            ),
            Command::Server(args) => server::run(tool, args.0),
            Command::Version(args) => server::version(tool, args.0),
            Command::Pid(args) => server::pid(tool, args.0),
            Command::Verbose(args) => server::verbose(tool, args.0),
            Command::Shutdown(args) => shutdown::run(tool, args.0),
            Command::Raw(args) => raw::run(tool, args.0),
        }
    }

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        server::diagnose(link)
    }

    fn nature(command: &Command) -> Nature {
        match command {
            Command::Tap(args) if args.replays() => Nature::Changes,
            Command::Tap(_) => Nature::Adds,
            Command::Function(args) if args.only_adds() => Nature::Adds,
            Command::Function(_) => Nature::Changes,
            Command::Job(_)
            | Command::Jobs(_)
            | Command::UniqueJobs(_)
            | Command::Functions(_)
            | Command::Workers(_)
            | Command::Check(_)
            | Command::Wait(_)
            | Command::Server(_)
            | Command::Version(_)
            | Command::Pid(_)
            | Command::Verbose(_) => Nature::Looks,
            Command::Top(_) => Nature::LooksOn,
            // The page asks for confirmation itself.
            Command::Web(_) => Nature::Adds,
            Command::Run(_)
            | Command::Submit(_)
            | Command::Map(_)
            | Command::Import(_)
            | Command::Smoke(_)
            | Command::Exporter(_) => Nature::Adds,
            Command::Work(_)
            | Command::Cancel(_)
            | Command::Clear(_)
            | Command::Drain(_)
            | Command::Move(_)
            | Command::Peek(_)
            | Command::Export(_)
            | Command::Bench(_)
            | Command::Shutdown(_)
            | Command::Raw(_) => Nature::Changes,
        }
    }
}
