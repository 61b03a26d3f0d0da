//! `adfctl` as a process, against the in-memory server and the real one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

mod bounds;
mod check;
mod exits;
mod harness;
mod hostile;
mod http;
mod pull;
mod push;
mod queues;
mod repl_pipe;
#[cfg(unix)]
mod repl_pty;
mod smoke;
#[cfg(unix)]
mod work;

ctl_core::tool_contract!(
    adfctl::Adfctl,
    ctl_core::contract::Case {
        program: harness::PROGRAM,
        add: "push mail --create",
        add_to: "push --create",
        list: "queues",
        nothing: "queues nobody",
        jobs: |server| server.view().ready,
    }
);
