//! One file per command, or per family of commands: `transfer` has `move` and `copy`, and `settle` what ends a pull, such
//! as `delete` and `recover`.

pub mod bench;
pub mod check;
pub mod clear;
pub mod drain;
pub mod export;
pub mod exporter;
pub mod import;
pub mod pop;
pub mod pull;
pub mod push;
pub mod queue;
pub mod queues;
pub mod raw;
pub mod roundtrip;
pub mod settle;
pub mod tap;
pub mod top;
pub mod transfer;
pub mod wait;
pub mod web;
pub mod work;

use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::command::Table;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;
use ctl_core::{commands as kit, live};

use crate::tool::Adfctl;

/// Every command, in the groups and the order of the help.
pub(crate) const COMMANDS: Table<Adfctl> = ctl_core::commands! {
"Produce" {
    "push" | "put" | "add" (push::PushArgs) = push::run, Creates, push::HELP, [Renames],
        "Push messages";
}
"Consume" {
    "pull" (pull::PullArgs) = pull::run, Creates if pull::PullArgs::gives_back, else Destroys, pull::HELP, [],
        "Pull messages, then give them back or delete them";
    "pop" (pull::TakeArgs) = pop::run, Destroys, pop::HELP, [Renames],
        "Take messages for good: write them out, then delete them";
    "work" (work::WorkArgs) = |tool, args| work::run(tool, &args), Destroys, work::HELP, [Absent],
        "Run a command for every message";
    "settle" (settle::SettleArgs) = |tool, args| settle::run(tool, &args),
        Creates if settle::SettleArgs::gives_back, else Destroys, settle::HELP, [],
        "Delete a message that was pulled over HTTP, or put it back"
        + "delete" = "delete" + "lcancel" = "left" + "rcancel" = "right" + "recover" = "left";
}
"Queues" {
    "queues" | "ls" | "list" | "count" (queues::QueuesArgs) = |tool, args| queues::run(tool, &args),
        Reads, queues::HELP, [Repeats],
        "List queues with their message counts";
    "queue" (queue::QueueArgs) = |tool, args| queue::run(tool, &args),
        Creates if queue::QueueArgs::only_adds, else Destroys, queue::HELP, [Renames],
        "Create or delete queues";
}
"Bulk" {
    "clear" | "flush" | "purge" | "empty" (clear::ClearArgs) = clear::run,
        Destroys, clear::HELP, [Renames],
        "Delete the ready messages of queues";
    "drain" (drain::DrainArgs) = |tool, args| drain::run(tool, &args), Destroys, drain::HELP, [Renames],
        "Move the messages of queues into a file or pipe";
    "move" (transfer::TransferArgs) = |tool, args| transfer::run(tool, &args),
        Destroys, transfer::HELP, [Renames],
        "Move or copy messages to another queue or server"
        + "copy" = "--keep";
    "export" (export::ExportArgs) = |tool, args| export::run(tool, &args), Reads, export::HELP, [],
        "Write the messages of queues as records, then give them back";
    "import" (import::ImportArgs) = import::run, Creates, import::HELP, [Renames],
        "Push messages from records";
}
"Observe" {
    "top" (TopArgs) = |tool, args| live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD),
        Reads, top::HELP, [],
        "Monitor the queues live: backlog, rates and problems";
    "check" (check::CheckArgs) = |tool, args| check::run(tool, &args), Reads, check::HELP, [],
        "Compare metrics with thresholds, for monitoring and CI" + "smoke" = "roundtrip";
    "wait" (wait::WaitArgs) = |tool, args| wait::run(tool, &args), Reads, wait::HELP, [],
        "Wait until a condition is true";
    "exporter" (ExporterArgs) = |tool, args| kit::exporter::run(tool, &args, &exporter::EXPORTS),
        Creates, exporter::HELP, [Absent],
        "Serve metrics for Prometheus and counts for autoscalers";
    "tap" (TapArgs) = |tool, args| kit::tap::run(tool, &args, tap::Messages::default),
        Creates, tap::HELP, [Absent],
        "Relay traffic between applications and the server, and show it";
    // The page asks for confirmation itself.
    "web" (WebArgs) = |tool, args| live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE),
        Creates, web::HELP, [Absent],
        "Serve a live web page of servers and queues";
    "bench" (bench::BenchArgs) = bench::run, Destroys, bench::HELP, [Absent],
        "Measure the server's throughput and latency";
}
"Tool" {
    "raw" (raw::RawArgs) = |tool, args| raw::run(tool, &args), Destroys, raw::HELP, [Secret],
        "Send one request and print the reply";
}};
