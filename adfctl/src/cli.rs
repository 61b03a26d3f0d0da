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

use crate::commands::settle::Fate;
use crate::commands::{
    bench, check, clear, count, drain, export, exporter, import, pop, pull, push, queue, queues,
    raw, settle, smoke, tap, top, transfer, wait, web, work,
};
use crate::error;
use crate::link::Link;
use crate::program;
use crate::tool::{Adfctl, Session, Tool};

/// The server to use, and the transport.
#[derive(Debug, Args)]
pub struct Server {
    /// Where the server listens.
    #[arg(short = 's', long, short_alias = 'a', alias = "addr", global = true)]
    #[arg(value_name = "ADDR", help_heading = "Global options")]
    #[arg(
        help = "Server address: host:port, adf://, adf+json://, http://, http+json://, unix:/path; comma-separated or repeated for several [default: 127.0.0.1:6230]"
    )]
    server: Vec<String>,

    /// Transport to use, overriding the address
    #[arg(long, global = true, value_name = "TRANSPORT", help_heading = "Global options")]
    #[arg(value_parser = ["ws-bin", "ws-json", "http-bin", "http-json"])]
    transport: Option<String>,
}

impl Connect for Server {
    fn addresses(&self) -> Option<String> {
        (!self.server.is_empty()).then(|| self.server.join(","))
    }

    fn transport(&self) -> Option<String> {
        self.transport.clone()
    }
}

/// Every command.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Push messages (rpush, lpush)
    #[command(visible_aliases = ["put", "add"], after_help = push::HELP)]
    Push(Later<push::PushArgs>),
    /// Pull messages, then give them back or delete them (pull, lcancel, rcancel, delete)
    #[command(after_help = pull::HELP)]
    Pull(Later<pull::PullArgs>),
    /// Take messages for good: write them out, then delete them (pull, delete)
    #[command(after_help = pop::HELP)]
    Pop(Later<pop::PopArgs>),
    /// Run a command for every message (pull, delete, lcancel, rcancel)
    #[command(after_help = work::HELP)]
    Work(Later<Box<work::WorkArgs>>),
    /// Delete a message pulled over HTTP (delete)
    #[command(after_help = settle::DELETE_HELP)]
    Delete(Later<settle::SettleArgs>),
    /// Put a message pulled over HTTP back at the left end (lcancel)
    #[command(after_help = settle::LCANCEL_HELP)]
    Lcancel(Later<settle::SettleArgs>),
    /// Put a message pulled over HTTP back at the right end (rcancel)
    #[command(after_help = settle::RCANCEL_HELP)]
    Rcancel(Later<settle::SettleArgs>),
    /// Put back a message swallowed by an abandoned HTTP pull (lcancel)
    #[command(after_help = settle::RECOVER_HELP)]
    Recover(Later<settle::SettleArgs>),
    /// List queues with their message counts (status page)
    #[command(visible_aliases = ["ls", "list"], after_help = queues::HELP)]
    Queues(Later<queues::QueuesArgs>),
    /// Count the ready messages of queues (count)
    #[command(after_help = count::HELP)]
    Count(Later<count::CountArgs>),
    /// Create or delete queues (createqueue, deletequeue)
    #[command(after_help = queue::HELP)]
    Queue(Later<queue::QueueArgs>),
    /// Delete the ready messages of queues (clear)
    #[command(visible_aliases = ["flush", "purge", "empty"], after_help = clear::HELP)]
    Clear(Later<clear::ClearArgs>),
    /// Move the messages of queues into a file or pipe (pull, delete)
    #[command(after_help = drain::HELP)]
    Drain(Later<drain::DrainArgs>),
    /// Move messages to another queue or server (pull, rpush, delete)
    #[command(after_help = transfer::MOVE_HELP)]
    Move(Later<transfer::TransferArgs>),
    /// Copy messages to another queue or server, then give them back (pull, rpush)
    #[command(after_help = transfer::COPY_HELP)]
    Copy(Later<transfer::TransferArgs>),
    /// Write the messages of queues as records, then give them back (pull)
    #[command(after_help = export::HELP)]
    Export(Later<export::ExportArgs>),
    /// Push messages from records (rpush)
    #[command(after_help = import::HELP)]
    Import(Later<import::ImportArgs>),
    /// Check that client, network and server work together (createqueue to deletequeue, in a queue of its own)
    #[command(after_help = smoke::HELP)]
    Smoke(SmokeArgs),
    /// Compare metrics with thresholds, for monitoring and CI (status page)
    #[command(after_help = check::HELP)]
    Check(Later<check::CheckArgs>),
    /// Monitor the queues live: backlog, rates and problems (status page)
    #[command(after_help = top::HELP)]
    Top(Later<TopArgs>),
    /// Measure the server's throughput and latency (rpush, pull, delete, count, in a queue of its own)
    #[command(after_help = bench::HELP)]
    Bench(Later<Box<bench::BenchArgs>>),
    /// Serve metrics for Prometheus and counts for autoscalers (status page)
    #[command(after_help = exporter::HELP)]
    Exporter(Later<ExporterArgs>),
    /// Serve a live web page of servers and queues (as top, and commands of this tool)
    #[command(after_help = web::HELP)]
    Web(Later<WebArgs>),
    /// Show the traffic between applications and the server by relaying it (any action)
    #[command(after_help = tap::HELP)]
    Tap(Later<TapArgs>),
    /// Wait until a condition is true (status page)
    #[command(after_help = wait::HELP)]
    Wait(Later<wait::WaitArgs>),
    /// Send one request and print the reply (any action but pull)
    #[command(after_help = raw::HELP)]
    Raw(Later<raw::RawArgs>),
}

impl ctl_core::context::Tool for Adfctl {
    const PROGRAM: Program = program::PROGRAM;

    type Connect = Server;
    type Command = Command;
    type Link = Link;
    type Session = Session;

    fn run(tool: &mut Tool, command: Command) -> Result<Exit, CliError> {
        let result = match command {
            Command::Push(args) => push::run(tool, args.0),
            Command::Pull(args) => pull::run(tool, args.0),
            Command::Pop(args) => pop::run(tool, args.0),
            Command::Work(args) => work::run(tool, &args),
            Command::Delete(args) => settle::run(tool, &args, Fate::Delete),
            Command::Lcancel(args) => settle::run(tool, &args, Fate::Lcancel),
            Command::Rcancel(args) => settle::run(tool, &args, Fate::Rcancel),
            Command::Recover(args) => settle::run(tool, &args, Fate::Recover),
            Command::Queues(args) => queues::run(tool, &args),
            Command::Count(args) => count::run(tool, &args),
            Command::Queue(args) => queue::run(tool, &args),
            Command::Clear(args) => clear::run(tool, &args),
            Command::Drain(args) => drain::run(tool, &args),
            Command::Move(args) => transfer::run_move(tool, &args),
            Command::Copy(args) => transfer::run_copy(tool, &args),
            Command::Export(args) => export::run(tool, &args),
            Command::Import(args) => import::run(tool, args.0),
            Command::Smoke(SmokeArgs {}) => smoke::run(tool),
            Command::Check(args) => check::run(tool, &args),
            Command::Bench(args) => bench::run(tool, *args.0),
            Command::Wait(args) => wait::run(tool, &args),
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
                tap::Messages::default,
                tap::Replayed::default,
            ),
            Command::Raw(args) => raw::run(tool, &args),
        };
        result.map_err(|error| error::with_near_queue(&mut tool.link, error))
    }

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        queues::diagnose(link)
    }

    fn nature(command: &Command) -> Nature {
        match command {
            Command::Tap(args) if args.replays() => Nature::Changes,
            Command::Tap(_) => Nature::Adds,
            Command::Pull(args) if args.gives_back() => Nature::Adds,
            Command::Pull(_) => Nature::Changes,
            Command::Queue(args) if args.only_adds() => Nature::Adds,
            Command::Queue(_) => Nature::Changes,
            Command::Queues(_)
            | Command::Count(_)
            | Command::Export(_)
            | Command::Check(_)
            | Command::Wait(_) => Nature::Looks,
            Command::Top(_) => Nature::LooksOn,
            // The page asks for confirmation itself.
            Command::Web(_) => Nature::Adds,
            Command::Push(_)
            | Command::Exporter(_)
            | Command::Import(_)
            | Command::Smoke(_)
            | Command::Lcancel(_)
            | Command::Rcancel(_)
            | Command::Recover(_) => Nature::Adds,
            Command::Pop(_)
            | Command::Work(_)
            | Command::Delete(_)
            | Command::Clear(_)
            | Command::Drain(_)
            | Command::Move(_)
            | Command::Copy(_)
            | Command::Bench(_)
            | Command::Raw(_) => Nature::Changes,
        }
    }
}
