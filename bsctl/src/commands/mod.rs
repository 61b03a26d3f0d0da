//! One file per command, or per family of commands: `bury_release` has `bury` and `release`.

pub mod bench;
pub mod bury_all;
pub mod bury_release;
pub mod check;
pub mod clear;
pub mod delete;
pub mod drain;
pub mod edit;
pub mod export;
pub mod exporter;
pub mod import;
pub mod job;
pub mod jobs;
pub mod kick;
pub mod pause;
pub mod peek;
pub mod pop;
pub mod put;
pub mod raw;
pub mod reserve;
pub mod server;
pub mod tail;
pub mod tap;
pub mod top;
pub mod transfer;
pub mod tubes;
pub mod wait;
pub mod web;
pub mod work;

use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::command::Table;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;
use ctl_core::{commands as kit, live};

use crate::tool::Bsctl;

/// Every command, in the groups and the order of the help.
pub(crate) const COMMANDS: Table<Bsctl> = ctl_core::commands! {
"Produce" {
    "put" | "add" | "enqueue" (put::PutArgs) = put::run, Creates, put::HELP, [Renames],
        "Put jobs into a tube";
}
"Consume" {
    "reserve" (reserve::ReserveArgs) = reserve::run,
        Creates if reserve::ReserveArgs::gives_back, else Destroys, reserve::HELP, [],
        "Reserve jobs, then release or finish them";
    "pop" (reserve::TakeArgs) = pop::run, Destroys, pop::HELP, [Renames],
        "Take jobs for good: write them out, then delete them";
    "tail" | "follow" (tail::TailArgs) = tail::run, Reads, tail::HELP, [],
        "Show jobs as they arrive";
    "work" (work::WorkArgs) = work::run, Destroys, work::HELP, [Absent],
        "Run a command for every job";
}
"Inspect" {
    "peek" (peek::PeekArgs) = peek::run, Reads, peek::HELP, [Repeats],
        "Show jobs without changing them";
    "jobs" | "ls-jobs" | "list" (jobs::JobsArgs) = jobs::run, Reads, jobs::HELP, [Repeats],
        "List jobs";
    "job" | "stats-job" | "show" (job::JobArgs) = job::run, Reads, job::HELP, [Repeats],
        "Show everything about one job";
    "tubes" | "ls" | "list-tubes" (tubes::TubesArgs) = tubes::run, Reads, tubes::HELP, [Repeats],
        "List tubes with their job counts"
        + "stats-tube" = "--all";
    "server" | "info" | "version" | "whoami" (server::ServerArgs) = server::run, Reads, server::HELP, [Repeats],
        "Show the server's version, features and statistics"
        + "stats" = "--all";
}
"Change state" {
    "delete" | "rm" | "del" (delete::DeleteArgs) = delete::run, Destroys, delete::HELP, [Renames],
        "Delete jobs by id";
    "kick" (kick::KickArgs) = kick::run, Destroys, kick::HELP, [],
        "Make buried or delayed jobs ready again"
        + "retry" = "--all --state buried";
    "edit" (edit::EditArgs) = edit::run, Destroys, edit::HELP, [],
        "Replace the body of a job";
    "bury" (bury_release::BuryArgs) = bury_release::bury, Destroys, bury_release::BURY_HELP, [],
        "Bury jobs"
        + "bury-all" = "--all";
    "release" (bury_release::ReleaseArgs) = bury_release::release, Destroys, bury_release::RELEASE_HELP, [],
        "Make jobs ready or delayed";
    "pause" (pause::PauseArgs) = pause::run, Destroys, pause::HELP, [],
        "Pause a tube: its jobs cannot be reserved for a while"
        + "resume" = "... 0";
}
"Bulk" {
    "clear" | "flush" | "purge" | "empty" (clear::ClearArgs) = clear::run, Destroys, clear::HELP, [Renames],
        "Delete the jobs of tubes";
    "drain" (drain::DrainArgs) = drain::run, Destroys, drain::HELP, [Renames],
        "Move the jobs of tubes into a file or pipe";
    "move" (transfer::MoveArgs) = transfer::run_move,
        Creates if transfer::MoveArgs::keeps, else Destroys, transfer::MOVE_HELP, [Renames],
        "Move or copy jobs to another tube or server"
        + "copy" = "--keep"
        + "requeue" = "--from $1 --to $1 --state buried";
    "export" (export::ExportArgs) = export::run, Reads, export::HELP, [],
        "Write jobs as records";
    "import" (import::ImportArgs) = import::run, Creates, import::HELP, [Renames],
        "Put jobs from records";
}
"Observe" {
    "top" (TopArgs) = |tool, args| live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD),
        Reads, top::HELP, [],
        "Monitor the tubes live: backlog, rates and problems";
    "check" (check::CheckArgs) = check::run, Reads, check::HELP, [],
        "Compare metrics with thresholds, for monitoring and CI" + "smoke" = "roundtrip";
    "wait" (wait::WaitArgs) = wait::run, Reads, wait::HELP, [],
        "Wait until a condition is true";
    "exporter" (ExporterArgs) = |tool, args| kit::exporter::run(tool, &args, &exporter::EXPORTS),
        Creates, exporter::HELP, [Absent],
        "Serve metrics for Prometheus and counts for autoscalers";
    "tap" (TapArgs) = |tool, args| kit::tap::run(tool, &args, tap::Lines::default),
        Creates, tap::HELP, [Absent],
        "Relay traffic between applications and the server, and show it";
    // The page asks for confirmation itself.
    "web" (WebArgs) = |tool, args| live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE),
        Creates, web::HELP, [Absent],
        "Serve a live web page of servers and queues";
    "bench" (bench::BenchArgs) = bench::run, Destroys, bench::HELP, [Absent],
        "Measure the server's throughput and latency"
        + "populate" = "put --keep";
}
"Tool" {
    "raw" (raw::RawArgs) = raw::run, Destroys, raw::HELP, [Secret],
        "Send one protocol line and print the reply";
}
};
