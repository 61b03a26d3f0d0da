//! One file per command, or per family of commands: `peek_export` has `peek` and `export`, and `drain` has `clear` and
//! `move`.

pub mod bench;
pub mod cancel;
pub mod check;
pub mod drain;
pub mod exporter;
pub mod function;
pub mod functions;
mod held;
pub mod import;
pub mod job;
pub mod jobs;
pub mod map;
pub mod peek_export;
pub mod raw;
pub mod run;
pub mod server;
pub mod submit;
pub mod tap;
pub mod top;
pub mod wait;
pub mod web;
pub mod work;
pub mod workers;

use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::command::Table;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;
use ctl_core::{commands as kit, live};

use crate::tool::Gearctl;

/// Every command, in the groups and the order of the help.
pub(crate) const COMMANDS: Table<Gearctl> = ctl_core::commands! {
"Submit" {
    "run" | "do" | "call" (run::RunArgs) = run::run, Creates, run::HELP, [Renames],
        "Run jobs and print their results";
    "submit" | "bg" (submit::SubmitArgs) = submit::run, Creates, submit::HELP, [Renames],
        "Submit background jobs and print their handles";
    "map" (map::MapArgs) = map::run, Creates, map::HELP, [Renames],
        "Run a job for every line and print a line for every result";
}
"Work" {
    "work" (work::WorkArgs) = work::run, Destroys, work::HELP, [Renames],
        "Serve functions: run a command for every job";
}
"Jobs" {
    "job" | "job-status" (job::JobArgs) = job::run, Reads, job::HELP, [Repeats],
        "Show whether the server knows a job, and its progress";
    "jobs" (jobs::JobsArgs) = jobs::run, Reads, jobs::HELP, [Repeats],
        "List the server's jobs" + "unique-jobs" = "--unique-ids";
    "peek" (peek_export::PeekArgs) = peek_export::peek, Destroys, peek_export::PEEK_HELP, [],
        "Show the next jobs, at the risk that the server drops them";
    "cancel" (cancel::CancelArgs) = cancel::run, Destroys, cancel::HELP, [],
        "Cancel queued jobs";
}
"Functions and workers" {
    "functions" | "ls" | "status" (functions::FunctionsArgs) = functions::run, Reads, functions::HELP, [Repeats],
        "List functions with their job and worker counts";
    "function" (function::FunctionArgs) = function::run,
        Creates if function::FunctionArgs::only_adds, else Destroys, function::HELP, [Renames],
        "Create, drop or limit a function";
    "workers" (workers::WorkersArgs) = workers::run, Reads, workers::HELP, [Repeats],
        "List the server's connections and their functions";
}
"Bulk" {
    "clear" | "purge" (drain::clear::ClearArgs) = drain::clear::run, Destroys, drain::clear::HELP, [Renames],
        "Delete queued jobs";
    "drain" (drain::DrainArgs) = drain::run, Destroys, drain::HELP, [Renames],
        "Move queued jobs into a file or pipe";
    "move" (drain::relocate::MoveArgs) = drain::relocate::run, Destroys, drain::relocate::HELP, [Renames],
        "Move queued jobs to another function or server";
    "export" (peek_export::ExportArgs) = peek_export::export, Destroys, peek_export::EXPORT_HELP, [],
        "Write queued jobs as records, then give them back";
    "import" (import::ImportArgs) = import::run, Creates, import::HELP, [Renames],
        "Submit jobs from records as background jobs";
}
"Observe" {
    "top" (TopArgs) = |tool, args| live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD),
        Reads, top::HELP, [],
        "Monitor the functions live: backlog, rates and problems";
    "check" (check::CheckArgs) = check::run, Reads, check::HELP, [],
        "Compare metrics with thresholds, for monitoring and CI";
    "wait" (wait::WaitArgs) = wait::run, Reads, wait::HELP, [],
        "Wait until a condition is true";
    "exporter" (ExporterArgs) = |tool, args| kit::exporter::run(tool, &args, &exporter::EXPORTS),
        Creates, exporter::HELP, [Absent],
        "Serve metrics for Prometheus and counts for autoscalers";
    "tap" (TapArgs) = |tool, args| kit::tap::run(tool, &args, tap::Packets::default),
        Creates, tap::HELP, [Absent],
        "Relay traffic between applications and the server, and show it";
    // The page asks for confirmation itself.
    "web" (WebArgs) = |tool, args| live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE),
        Creates, web::HELP, [Absent],
        "Serve a live web page of servers and queues";
    "bench" (bench::BenchArgs) = bench::run, Destroys, bench::HELP, [Absent],
        "Measure the server's throughput and latency" + "smoke" = "roundtrip -c 1";
}
"Server" {
    "server" | "info" (server::ServerArgs) = server::run,
        Reads if server::ServerArgs::only_reads, else Destroys, server::HELP, [Repeats],
        "Show the server's version and features, or shut it down"
        + "version" = "version" + "pid" = "pid" + "verbose" = "verbose" + "shutdown" = "shutdown";
}
"Tool" {
    "raw" (raw::RawArgs) = raw::run, Destroys, raw::HELP, [Secret, Renames],
        "Send a line of the text protocol or packets and print the replies";
}
};
