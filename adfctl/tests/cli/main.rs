//! `adfctl` as a process, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bounds;
mod bulk;
mod check;
mod exits;
mod fleet;
mod harness;
mod hostile;
mod http;
mod names;
mod pull;
mod push;
mod queues;
#[cfg(unix)]
mod readme;
mod repl_pipe;
#[cfg(unix)]
mod repl_pty;
mod roundtrip;
mod samples;
#[cfg(unix)]
mod tap;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod transfer;
#[cfg(not(windows))]
mod work;

/// The commands that the contract and the tour use.
const CASE: ctl_contract::Case<adfctl::Adfctl> = ctl_contract::Case {
    program: harness::PROGRAM,
    add: "push mail --create",
    add_to: "push --create",
    list: "queues",
    move_to: "move --from mail --create --to-server",
    figures: "queues mail",
    nothing: "queues nobody",
    work: "work -Q mail",
    noun: "queue",
    metrics: "adfqueue",
    jobs: |server| server.view().ready,
    waits: |server| server.view().waiting,
    held: |server| server.view().pulled,
    pop: "pop mail",
    changes: &[
        ("push mail x", "rpush"),
        ("pop mail", "delete"),
        ("clear mail --yes", "clear"),
        ("queue create new", "createqueue"),
        ("queue delete mail --yes", "deletequeue"),
    ],
    check: "check queue mail -c waiting=0:",
    waiting: "ready",
    empty: "wait -Q mail --for empty",
    samples: samples::SAMPLES,
    budget: ctl_contract::budget::Budget {
        commands: 28,
        flags: 87,
        global_flags: 16,
        help: 60,
        help_of_command: (30, 80),
    },
};

ctl_contract::tool_contract!(adfctl::Adfctl, crate::CASE);
ctl_contract::kit_contract!(adfctl::Adfctl, crate::CASE);
