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
    bench, bury_all, bury_release, check, clear, delete, drain, export, exporter, import, job,
    jobs, kick, pause, peek, pop, populate, put, raw, reserve, retry, server, smoke, stats, tail,
    tap, top, transfer, tubes, wait, web, work,
};
use crate::link::Link;
use crate::program;
use crate::tool::{Bsctl, Session, Tool};

/// The server to use.
#[derive(Debug, Args)]
pub struct Server {
    /// Where the server listens.
    #[arg(
        short = 'a',
        long,
        short_alias = 's',
        alias = "server",
        global = true,
        value_name = "ADDR",
        help_heading = "Global options"
    )]
    #[arg(
        help = "Server address: host:port, [::1]:11300, unix:/path; comma-separated or repeated for several [default: 127.0.0.1:11300]"
    )]
    addr: Vec<String>,
}

impl Connect for Server {
    fn addresses(&self) -> Option<String> {
        (!self.addr.is_empty()).then(|| self.addr.join(","))
    }
}

/// Every command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Put jobs into a tube (put)
    #[command(visible_aliases = ["add", "enqueue"], after_help = put::HELP)]
    Put(Later<put::PutArgs>),
    /// Put test data (put)
    #[command(after_help = populate::HELP)]
    Populate(Later<populate::PopulateArgs>),
    /// Reserve jobs, then release or finish them (reserve-with-timeout, reserve-job)
    #[command(after_help = reserve::HELP)]
    Reserve(Later<reserve::ReserveArgs>),
    /// Take jobs for good: write them out, then delete them (reserve-with-timeout, delete)
    #[command(after_help = pop::HELP)]
    Pop(Later<pop::PopArgs>),
    /// Show jobs as they arrive (stats, stats-job, peek; reserve-with-timeout with --action)
    #[command(visible_alias = "follow", after_help = tail::HELP)]
    Tail(Later<tail::TailArgs>),
    /// Run a command for every job (reserve-with-timeout, touch, delete, release, bury)
    #[command(after_help = work::HELP)]
    Work(Later<Box<work::WorkArgs>>),
    /// Show jobs without changing them (peek, peek-ready, peek-delayed, peek-buried)
    #[command(after_help = peek::HELP)]
    Peek(Later<peek::PeekArgs>),
    /// List jobs (stats-job and peek for every id)
    #[command(visible_aliases = ["ls-jobs", "list"], after_help = jobs::HELP)]
    Jobs(Later<jobs::JobsArgs>),
    /// Show everything about one job (stats-job)
    #[command(visible_aliases = ["stats-job", "show"], after_help = job::HELP)]
    Job(Later<job::JobArgs>),
    /// List tubes with their job counts (list-tubes, stats-tube)
    #[command(visible_aliases = ["ls", "list-tubes"], after_help = tubes::HELP)]
    Tubes(Later<tubes::TubesArgs>),
    /// Show server statistics (stats)
    #[command(after_help = stats::HELP)]
    Stats(Later<stats::StatsArgs>),
    /// Show tube statistics (stats-tube)
    #[command(after_help = stats::TUBE_HELP)]
    StatsTube(Later<stats::StatsTubeArgs>),
    /// Show the server's version and features (stats, reserve-job)
    #[command(visible_aliases = ["info", "version", "whoami"], after_help = server::HELP)]
    Server(Later<server::ServerArgs>),
    /// Delete jobs by id (delete)
    #[command(visible_aliases = ["rm", "del"], after_help = delete::HELP)]
    Delete(Later<delete::DeleteArgs>),
    /// Make buried or delayed jobs ready again (kick, kick-job)
    #[command(after_help = kick::HELP)]
    Kick(Later<kick::KickArgs>),
    /// Bury jobs (reserve-job, bury)
    #[command(after_help = bury_release::BURY_HELP)]
    Bury(Later<bury_release::BuryArgs>),
    /// Make jobs ready or delayed (reserve-job, release)
    #[command(after_help = bury_release::RELEASE_HELP)]
    Release(Later<bury_release::ReleaseArgs>),
    /// Extend a reservation (REPL only)
    #[command(after_help = bury_release::TOUCH_HELP)]
    Touch(Later<bury_release::TouchArgs>),
    /// Pause a tube: its jobs cannot be reserved for a while (pause-tube)
    #[command(after_help = pause::PAUSE_HELP)]
    Pause(Later<pause::PauseArgs>),
    /// Resume a paused tube (pause-tube with 0)
    #[command(visible_alias = "unpause", after_help = pause::RESUME_HELP)]
    Resume(Later<pause::ResumeArgs>),
    /// Delete the jobs of tubes (reserve-with-timeout, peek-delayed, peek-buried, delete)
    #[command(visible_aliases = ["flush", "purge", "empty"], after_help = clear::HELP)]
    Clear(Later<clear::ClearArgs>),
    /// Move the jobs of tubes into a file or pipe (as clear, each written before it is deleted)
    #[command(after_help = drain::HELP)]
    Drain(Later<drain::DrainArgs>),
    /// Move jobs to another tube or server (as drain, each put there before it is deleted)
    #[command(after_help = transfer::MOVE_HELP)]
    Move(Later<transfer::MoveArgs>),
    /// Copy jobs to another tube or server (stats-job and peek for every id, put)
    #[command(after_help = transfer::COPY_HELP)]
    Copy(Later<transfer::CopyArgs>),
    /// Put the jobs of a tube again as new jobs (put, delete)
    #[command(after_help = transfer::REQUEUE_HELP)]
    Requeue(Later<transfer::RequeueArgs>),
    /// Kick all buried jobs of a tube (kick, kick-job)
    #[command(after_help = retry::HELP)]
    Retry(Later<retry::RetryArgs>),
    /// Bury the ready jobs of tubes (reserve-with-timeout, bury)
    #[command(after_help = bury_all::HELP)]
    BuryAll(Later<bury_all::BuryAllArgs>),
    /// Write jobs as NDJSON records (stats-job and peek for every id)
    #[command(after_help = export::HELP)]
    Export(Later<export::ExportArgs>),
    /// Put jobs from NDJSON records (put; reserve-job and bury for buried ones)
    #[command(after_help = import::HELP)]
    Import(Later<import::ImportArgs>),
    /// Check that client, network and server work together (put to stats-tube, in a tube of its own)
    #[command(after_help = smoke::HELP)]
    Smoke(SmokeArgs),
    /// Compare metrics with thresholds, for monitoring and CI (stats, stats-tube)
    #[command(after_help = check::HELP)]
    Check(Later<check::CheckArgs>),
    /// Monitor the tubes live: backlog, rates and problems (stats, list-tubes, stats-tube)
    #[command(after_help = top::HELP)]
    Top(Later<TopArgs>),
    /// Measure the server's throughput and latency (put, reserve-with-timeout, delete, in a tube of its own)
    #[command(after_help = bench::HELP)]
    Bench(Later<Box<bench::BenchArgs>>),
    /// Serve metrics for Prometheus and counts for autoscalers (stats, list-tubes, stats-tube)
    #[command(after_help = exporter::HELP)]
    Exporter(Later<ExporterArgs>),
    /// Serve a live web page of servers and queues (as top, and commands of this tool)
    #[command(after_help = web::HELP)]
    Web(Later<WebArgs>),
    /// Show the traffic between applications and the server by relaying it (any command)
    #[command(after_help = tap::HELP)]
    Tap(Later<TapArgs>),
    /// Wait until a condition is true (stats-tube, stats-job)
    #[command(after_help = wait::HELP)]
    Wait(Later<wait::WaitArgs>),
    /// Send one protocol line and print the reply (any command)
    #[command(after_help = raw::HELP)]
    Raw(Later<raw::RawArgs>),
}

impl ctl_core::context::Tool for Bsctl {
    const PROGRAM: Program = program::PROGRAM;

    type Connect = Server;
    type Command = Command;
    type Link = Link;
    type Session = Session;

    fn run(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
        let in_session = tool.session.is_some();
        let place = if in_session { tool.link.place() } else { None };
        let result = execute(tool, command);
        if in_session && tool.link.is_connected() {
            // A lost connection is reported by the next command that needs it.
            let _ = tool.link.restore(&place.unwrap_or_default());
        }
        result
    }

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        server::diagnose(link)
    }

    fn nature(command: &Command) -> Nature {
        match command {
            Command::Tap(args) if args.replays() => Nature::Changes,
            Command::Tap(_) => Nature::Adds,
            Command::Reserve(args) if args.gives_back() => Nature::Adds,
            Command::Reserve(_) => Nature::Changes,
            Command::Export(args) if args.drains() => Nature::Changes,
            Command::Export(_) => Nature::Looks,
            Command::Tail(args) if args.only_looks() => Nature::LooksOn,
            Command::Tail(_) => Nature::Changes,
            Command::Peek(_)
            | Command::Jobs(_)
            | Command::Job(_)
            | Command::Tubes(_)
            | Command::Stats(_)
            | Command::StatsTube(_)
            | Command::Server(_)
            | Command::Check(_)
            | Command::Wait(_) => Nature::Looks,
            Command::Top(_) => Nature::LooksOn,
            // The page asks for confirmation itself.
            Command::Web(_) => Nature::Adds,
            Command::Put(_)
            | Command::Populate(_)
            | Command::Copy(_)
            | Command::Exporter(_)
            | Command::Import(_)
            | Command::Smoke(_)
            | Command::Touch(_) => Nature::Adds,
            Command::Pop(_)
            | Command::Work(_)
            | Command::Delete(_)
            | Command::Kick(_)
            | Command::Bury(_)
            | Command::Release(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Clear(_)
            | Command::Drain(_)
            | Command::Move(_)
            | Command::Requeue(_)
            | Command::Retry(_)
            | Command::BuryAll(_)
            | Command::Bench(_)
            | Command::Raw(_) => Nature::Changes,
        }
    }
}

fn execute(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Put(args) => put::run(tool, args.0),
        Command::Populate(args) => populate::run(tool, args.0),
        Command::Reserve(args) => reserve::run(tool, args.0),
        Command::Pop(args) => pop::run(tool, args.0),
        Command::Tail(args) => tail::run(tool, args.0),
        Command::Work(args) => work::run(tool, *args.0),
        Command::Peek(args) => peek::run(tool, args.0),
        Command::Jobs(args) => jobs::run(tool, args.0),
        Command::Job(args) => job::run(tool, args.0),
        Command::Tubes(args) => tubes::run(tool, args.0),
        Command::Stats(args) => stats::run(tool, args.0),
        Command::StatsTube(args) => stats::run_tube(tool, args.0),
        Command::Server(args) => server::run(tool, args.0),
        Command::Delete(args) => delete::run(tool, args.0),
        Command::Kick(args) => kick::run(tool, args.0),
        Command::Bury(args) => bury_release::bury(tool, args.0),
        Command::Release(args) => bury_release::release(tool, args.0),
        Command::Touch(args) => bury_release::touch(tool, args.0),
        Command::Pause(args) => pause::pause(tool, args.0),
        Command::Resume(args) => pause::resume(tool, args.0),
        Command::Clear(args) => clear::run(tool, args.0),
        Command::Drain(args) => drain::run(tool, args.0),
        Command::Move(args) => transfer::run_move(tool, args.0),
        Command::Copy(args) => transfer::run_copy(tool, args.0),
        Command::Requeue(args) => transfer::run_requeue(tool, args.0),
        Command::Retry(args) => retry::run(tool, args.0),
        Command::BuryAll(args) => bury_all::run(tool, args.0),
        Command::Export(args) => export::run(tool, args.0),
        Command::Import(args) => import::run(tool, args.0),
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
        Command::Tap(args) => {
            ctl_core::commands::tap::run(tool, &args, tap::Lines::default, tap::Lines::default)
        }
        Command::Raw(args) => raw::run(tool, args.0),
    }
}
