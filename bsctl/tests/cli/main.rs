//! `bsctl` as a process, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bounds;
mod bulk;
mod change;
mod check;
mod color;
mod consume;
mod damaged;
mod exits;
mod export;
#[cfg(unix)]
mod exporter;
mod fleet;
mod formats;
mod harness;
mod hostile;
mod inspect;
mod leaving;
mod names;
mod put;
mod repl_pipe;
#[cfg(unix)]
mod repl_pty;
mod roundtrip;
mod samples;
#[cfg(target_os = "linux")]
mod shortage;
mod tail;
#[cfg(unix)]
mod tap;
#[cfg(unix)]
mod top;
mod transfer;
mod wait;
#[cfg(unix)]
mod web;
#[cfg(not(windows))]
mod work;

ctl_contract::tool_contract!(
    bsctl::Bsctl,
    ctl_contract::Case {
        program: harness::PROGRAM,
        add: "put -t mail",
        add_to: "put -t",
        list: "tubes",
        move_to: "move --from mail --to-server",
        figures: "stats-tube mail",
        nothing: "jobs --tube none",
        work: "work -t mail",
        noun: "tube",
        metrics: "beanstalkd",
        jobs: |server| server.view().jobs,
        waits: |server| server.view().waiting,
        held: |server| server.view().reserved,
        pop: "pop -t mail",
        changes: &[
            ("put -t mail x", "put"),
            ("pop -t mail", "delete"),
            ("delete 1 --yes", "delete"),
            ("pause mail 1s", "pause-tube"),
        ],
        check: "check tube mail -c workers=0:",
        waiting: "ready",
        empty: "wait -t mail --for empty",
        samples: samples::SAMPLES,
        budget: ctl_contract::budget::Budget {
            commands: 36,
            flags: 95,
            global_flags: 16,
            help: 60,
            help_of_command: (30, 80),
        },
    }
);
