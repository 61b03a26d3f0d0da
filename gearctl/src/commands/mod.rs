//! One file per command, or per family of commands: `peek_export` has `peek` and `export`, `jobs` has `unique-jobs`,
//! `drain` has `clear` and `move`, and `server` has `version`, `pid` and `verbose`.

pub mod bench;
pub mod cancel;
pub mod check;
pub mod drain;
pub mod exporter;
pub mod function;
pub mod functions;
pub mod import;
pub mod job;
pub mod jobs;
pub mod map;
pub mod peek_export;
pub mod raw;
pub mod run;
pub mod server;
pub mod shutdown;
pub mod smoke;
pub mod submit;
pub mod tap;
pub mod top;
pub mod wait;
pub mod web;
pub mod work;
pub mod workers;

use ctl_core::commands as kit;
use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::smoke::SmokeArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::command::Table;
use ctl_core::live;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;

use crate::tool::Gearctl;

/// Every command, in the groups and the order of the help.
pub(crate) const COMMANDS: Table<Gearctl> = ctl_core::commands! {
"Submit" {
    "run" | "do" | "call" (run::RunArgs) = run::run, Creates, run::HELP, [Renames],
        "Run jobs and print their results (SUBMIT_JOB)";
    "submit" | "bg" (submit::SubmitArgs) = submit::run, Creates, submit::HELP, [Renames],
        "Submit background jobs and print their handles (SUBMIT_JOB_BG, SUBMIT_JOB_EPOCH)";
    "map" (map::MapArgs) = map::run, Creates, map::HELP, [Renames],
        "Run a job for every line and print a line for every result (SUBMIT_JOB)";
}
"Work" {
    "work" (work::WorkArgs) = work::run, Destroys, work::HELP, [Renames],
        "Serve functions: run a command for every job (CAN_DO, GRAB_JOB_ALL, WORK_COMPLETE)";
}
"Jobs" {
    "job" | "job-status" (job::JobArgs) = job::run, Reads, job::HELP, [Repeats],
        "Show whether the server knows a job, and its progress (GET_STATUS, GET_STATUS_UNIQUE)";
    "jobs" (jobs::JobsArgs) = jobs::run, Reads, jobs::HELP, [Repeats],
        "List the server's jobs (show jobs)";
    "unique-jobs" (jobs::UniqueJobsArgs) = jobs::run_unique, Reads, jobs::UNIQUE_HELP, [Repeats],
        "List the unique ids of the server's jobs (show unique jobs)";
    "peek" (peek_export::PeekArgs) = peek_export::peek, Destroys, peek_export::PEEK_HELP, [],
        "Show the next jobs; the server may drop them because of it (GRAB_JOB_UNIQ)";
    "cancel" (cancel::CancelArgs) = cancel::run, Destroys, cancel::HELP, [],
        "Cancel queued jobs (cancel job)";
}
"Functions and workers" {
    "functions" | "ls" | "status" (functions::FunctionsArgs) = functions::run, Reads, functions::HELP, [Repeats],
        "List functions with their job and worker counts (status, prioritystatus)";
    "function" (function::FunctionArgs) = function::run,
        Creates if function::FunctionArgs::only_adds, else Destroys, function::HELP, [Renames],
        "Create, drop or limit a function (create function, drop function, maxqueue)";
    "workers" (workers::WorkersArgs) = workers::run, Reads, workers::HELP, [Repeats],
        "List the server's connections and their functions (workers)";
}
"Bulk" {
    "clear" | "purge" (drain::clear::ClearArgs) = drain::clear::run, Destroys, drain::clear::HELP, [Renames],
        "Delete queued jobs (GRAB_JOB_UNIQ, WORK_COMPLETE, WORK_FAIL)";
    "drain" (drain::DrainArgs) = drain::run, Destroys, drain::HELP, [Renames],
        "Write queued jobs as records and remove them (GRAB_JOB_UNIQ, WORK_COMPLETE, WORK_FAIL)";
    "move" (drain::relocate::MoveArgs) = drain::relocate::run, Destroys, drain::relocate::HELP, [Renames],
        "Move queued jobs to another function or server (as drain, each submitted there before it is ended)";
    "export" (peek_export::ExportArgs) = peek_export::export, Destroys, peek_export::EXPORT_HELP, [],
        "Write queued jobs as records and give them back; the server may drop them (GRAB_JOB_UNIQ)";
    "import" (import::ImportArgs) = import::run, Creates, import::HELP, [Renames],
        "Submit jobs from records as background jobs (SUBMIT_JOB_BG)";
}
"Observe" {
    "top" (TopArgs) = |tool, args| live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD),
        ReadsForever, top::HELP, [],
        "Monitor the functions live: backlog, rates and problems (status)";
    "smoke" (SmokeArgs) = |tool, _| smoke::run(tool), Creates, smoke::HELP, [Renames],
        "Check that client, worker, network and server work together (SUBMIT_JOB to WORK_COMPLETE)";
    "check" (check::CheckArgs) = check::run, Reads, check::HELP, [],
        "Compare metrics with thresholds, for monitoring and CI (status, GET_STATUS, SUBMIT_JOB)";
    "wait" (wait::WaitArgs) = wait::run, Reads, wait::HELP, [],
        "Wait until a condition is true (status, GET_STATUS)";
    "exporter" (ExporterArgs) = |tool, args| kit::exporter::run(tool, &args, &exporter::EXPORTS),
        Creates, exporter::HELP, [Absent],
        "Serve metrics for Prometheus and counts for autoscalers (status)";
    "tap" (TapArgs) = |tool, args| kit::tap::run(tool, &args, tap::Packets::default),
        Creates, tap::HELP, [Absent],
        "Show the traffic between applications and the server by relaying it (any packet)";
    // The page asks for confirmation itself.
    "web" (WebArgs) = |tool, args| live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE),
        Creates, web::HELP, [Absent],
        "Serve a live web page of servers and queues (as top, and commands of this tool)";
    "bench" (bench::BenchArgs) = bench::run, Destroys, bench::HELP, [Absent],
        "Measure the server's throughput and latency (SUBMIT_JOB_BG, ECHO_REQ, SUBMIT_JOB, GRAB_JOB_UNIQ, with a function of its own)";
}
"Server" {
    "server" | "info" (server::ServerArgs) = server::run, Reads, server::HELP, [Repeats],
        "Show the server's version and features (version, getpid, verbose, status, workers)";
    "version" (server::VersionArgs) = server::version, Reads, server::VERSION_HELP, [Repeats],
        "Show the server's version (version)";
    "pid" (server::PidArgs) = server::pid, Reads, server::PID_HELP, [Repeats],
        "Show the server's process id (getpid)";
    "verbose" (server::VerboseArgs) = server::verbose, Reads, server::VERBOSE_HELP, [Repeats],
        "Show the server's log level (verbose)";
    "shutdown" (shutdown::ShutdownArgs) = shutdown::run, Destroys, shutdown::HELP, [],
        "Shut the server down, where it supports that (shutdown)";
}
"Tool" {
    "raw" (raw::RawArgs) = raw::run, Destroys, raw::HELP, [Secret, Renames],
        "Send a line of the text protocol or packets and print the replies (any command or packet)";
}
};
