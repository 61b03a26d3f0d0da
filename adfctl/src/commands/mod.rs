//! One file per command, or per family of commands: `settle` has `delete`, `lcancel`, `rcancel` and `recover`, and
//! `transfer` has `move` and `copy`.

pub mod bench;
pub mod check;
pub mod clear;
pub mod count;
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
pub mod settle;
pub mod smoke;
pub mod tap;
pub mod top;
pub mod transfer;
pub mod wait;
pub mod web;
pub mod work;

use ctl_core::commands as kit;
use ctl_core::commands::exporter::ExporterArgs;
use ctl_core::commands::smoke::SmokeArgs;
use ctl_core::commands::tap::TapArgs;
use ctl_core::context::command::Table;
use ctl_core::live;
use ctl_core::live::top::TopArgs;
use ctl_core::live::web::WebArgs;

use self::settle::Fate;
use crate::tool::Adfctl;

/// Every command, in the groups and the order of the help.
pub(crate) const COMMANDS: Table<Adfctl> = ctl_core::commands! {
"Produce" {
    "push" | "put" | "add" (push::PushArgs) = push::run, Creates, push::HELP, [Renames],
        "Push messages (rpush, lpush)";
}
"Consume" {
    "pull" (pull::PullArgs) = pull::run, Creates if pull::PullArgs::gives_back, else Destroys, pull::HELP, [],
        "Pull messages, then give them back or delete them (pull, lcancel, rcancel, delete)";
    "pop" (pop::PopArgs) = pop::run, Destroys, pop::HELP, [Renames],
        "Take messages for good: write them out, then delete them (pull, delete)";
    "work" (work::WorkArgs) = |tool, args| work::run(tool, &args), Destroys, work::HELP, [Absent],
        "Run a command for every message (pull, delete, lcancel, rcancel)";
}
"Settle messages pulled over HTTP" {
    "delete" (settle::SettleArgs) = |tool, args| settle::run(tool, &args, Fate::Delete),
        Destroys, settle::DELETE_HELP, [],
        "Delete a message pulled over HTTP (delete)";
    "lcancel" (settle::SettleArgs) = |tool, args| settle::run(tool, &args, Fate::Lcancel),
        Creates, settle::LCANCEL_HELP, [],
        "Put a message pulled over HTTP back at the left end (lcancel)";
    "rcancel" (settle::SettleArgs) = |tool, args| settle::run(tool, &args, Fate::Rcancel),
        Creates, settle::RCANCEL_HELP, [],
        "Put a message pulled over HTTP back at the right end (rcancel)";
    "recover" (settle::SettleArgs) = |tool, args| settle::run(tool, &args, Fate::Recover),
        Creates, settle::RECOVER_HELP, [],
        "Put back a message swallowed by an abandoned HTTP pull (lcancel)";
}
"Queues" {
    "queues" | "ls" | "list" (queues::QueuesArgs) = |tool, args| queues::run(tool, &args),
        Reads, queues::HELP, [Repeats],
        "List queues with their message counts (status page)";
    "count" (count::CountArgs) = |tool, args| count::run(tool, &args), Reads, count::HELP, [Repeats],
        "Count the ready messages of queues (count)";
    "queue" (queue::QueueArgs) = |tool, args| queue::run(tool, &args),
        Creates if queue::QueueArgs::only_adds, else Destroys, queue::HELP, [Renames],
        "Create or delete queues (createqueue, deletequeue)";
}
"Bulk" {
    "clear" | "flush" | "purge" | "empty" (clear::ClearArgs) = |tool, args| clear::run(tool, &args),
        Destroys, clear::HELP, [Renames],
        "Delete the ready messages of queues (clear)";
    "drain" (drain::DrainArgs) = |tool, args| drain::run(tool, &args), Destroys, drain::HELP, [Renames],
        "Move the messages of queues into a file or pipe (pull, delete)";
    "move" (transfer::TransferArgs) = |tool, args| transfer::run_move(tool, &args),
        Destroys, transfer::MOVE_HELP, [Renames],
        "Move messages to another queue or server (pull, rpush, delete)";
    "copy" (transfer::TransferArgs) = |tool, args| transfer::run_copy(tool, &args),
        Destroys, transfer::COPY_HELP, [Renames],
        "Copy messages to another queue or server, then give them back (pull, rpush)";
    "export" (export::ExportArgs) = |tool, args| export::run(tool, &args), Reads, export::HELP, [],
        "Write the messages of queues as records, then give them back (pull)";
    "import" (import::ImportArgs) = import::run, Creates, import::HELP, [Renames],
        "Push messages from records (rpush)";
}
"Observe" {
    "top" (TopArgs) = |tool, args| live::top::run(tool, &args, &exporter::EXPORTS, &top::BOARD),
        ReadsForever, top::HELP, [],
        "Monitor the queues live: backlog, rates and problems (status page)";
    "smoke" (SmokeArgs) = |tool, _| smoke::run(tool), Creates, smoke::HELP, [],
        "Check that client, network and server work together (createqueue to deletequeue, in a queue of its own)";
    "check" (check::CheckArgs) = |tool, args| check::run(tool, &args), Reads, check::HELP, [],
        "Compare metrics with thresholds, for monitoring and CI (status page)";
    "wait" (wait::WaitArgs) = |tool, args| wait::run(tool, &args), Reads, wait::HELP, [],
        "Wait until a condition is true (status page)";
    "exporter" (ExporterArgs) = |tool, args| kit::exporter::run(tool, &args, &exporter::EXPORTS),
        Creates, exporter::HELP, [Absent],
        "Serve metrics for Prometheus and counts for autoscalers (status page)";
    "tap" (TapArgs) = |tool, args| kit::tap::run(tool, &args, tap::Messages::default),
        Creates, tap::HELP, [Absent],
        "Show the traffic between applications and the server by relaying it (any action)";
    // The page asks for confirmation itself.
    "web" (WebArgs) = |tool, args| live::web::run(tool, &args, &exporter::EXPORTS, &top::BOARD, &web::SITE),
        Creates, web::HELP, [Absent],
        "Serve a live web page of servers and queues (as top, and commands of this tool)";
    "bench" (bench::BenchArgs) = bench::run, Destroys, bench::HELP, [Absent],
        "Measure the server's throughput and latency (rpush, pull, delete, count, in a queue of its own)";
}
"Tool" {
    "raw" (raw::RawArgs) = |tool, args| raw::run(tool, &args), Destroys, raw::HELP, [Secret],
        "Send one request and print the reply (any action but pull)";
}};
