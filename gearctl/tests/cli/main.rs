//! `gearctl` as a process, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod admin;
mod bounds;
mod check;
mod drain;
mod exits;
mod fleet;
mod harness;
mod hostile;
mod map;
mod names;
mod observe;
mod repl_pipe;
#[cfg(unix)]
mod repl_pty;
mod run;
mod samples;
#[cfg(target_os = "linux")]
mod shortage;
#[cfg(unix)]
mod tap;
mod third_party;
#[cfg(feature = "tls")]
mod tls;
mod transfer;
#[cfg(not(windows))]
mod work;

ctl_contract::tool_contract!(
    gearctl::Gearctl,
    ctl_contract::Case {
        program: harness::PROGRAM,
        add: "submit mail",
        add_to: "submit",
        list: "functions",
        move_to: "move --from mail --to-server",
        figures: "functions mail",
        nothing: "workers --function nobody",
        work: "work -f mail",
        noun: "function",
        metrics: "gearman",
        jobs: |server| server.view().jobs,
        waits: |server| server.view().sleeping,
        held: |server| server.view().running,
        pop: "drain mail --yes",
        changes: &[
            ("submit mail x", "SUBMIT_JOB_BG"),
            ("submit mail x y --in 1h", "SUBMIT_JOB_EPOCH"),
            ("run mail x", "SUBMIT_JOB"),
            ("function create new", "create"),
            ("function drop mail --yes --force", "drop"),
        ],
        check: "check function mail -c workers=0:",
        waiting: "queued",
        empty: "wait -f mail --for queued==0",
        samples: samples::SAMPLES,
        budget: ctl_contract::budget::Budget {
            commands: 32,
            flags: 106,
            global_flags: 16,
            help: 60,
            help_of_command: (30, 80),
        },
    }
);
