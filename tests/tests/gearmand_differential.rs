//! The in-memory gearmand against the real one: the same bytes to both, the same replies back.
//!
//! Random sequences of packets and text commands on several connections go to a fresh in-memory
//! server and a fresh real one; after every step all replies must be equal, and at the end the
//! lists of functions, jobs and workers too. Nothing in a sequence falls due while it runs. What
//! takes time has its own scripts.
//!
//! Usually it is the same 40 sequences of each kind, so that a run says something about the change it tests;
//! `DIFFERENTIAL_CASES=10000` runs as many new ones.

#[path = "gearmand_differential/sequence.rs"]
mod sequence;
#[path = "gearmand_differential/sides.rs"]
mod sides;

use fixtures::{
    gearmand::{Builder, Server},
    real::{Gearmand, GearmandBuilder},
};

use crate::{
    differential::run_all,
    gearmand_differential::{
        sequence::{Case, Options},
        sides::{Pair, Side},
    },
};

/// What handles start with on both sides, so that they and the order of lists are the same.
const PREFIX: &str = "H:x";

/// Both servers with the same options.
fn servers(options: &Options) -> (Builder, GearmandBuilder) {
    let mut memory = Server::builder()
        .job_handle_prefix(PREFIX)
        .threads(options.threads)
        .round_robin(options.round_robin)
        .exceptions(options.exceptions)
        .job_retries(options.job_retries)
        .worker_wakeup(options.worker_wakeup);
    memory = memory.log_capacity(0);
    let mut real = Gearmand::builder()
        .arg(format!("--job-handle-prefix={PREFIX}"))
        .arg(format!("--threads={}", options.threads))
        .arg(format!("--job-retries={}", options.job_retries))
        .arg(format!("--worker-wakeup={}", options.worker_wakeup));
    if options.round_robin {
        real = real.arg("--round-robin");
    }
    if options.exceptions {
        real = real.arg("--exceptions");
    }
    (memory, real)
}

fn run(case: &Case) -> Result<(), String> {
    let (memory, real) = servers(&case.options);
    let Some(real) = real.start() else { return Ok(()) };
    let memory = memory.start().unwrap();
    let mut pair =
        Pair::new(Side::new(memory.socket_addr().unwrap()), Side::new(real.socket_addr().unwrap()));
    for (number, step) in case.steps.iter().enumerate() {
        pair.apply(step);
        pair.compare().map_err(|wrong| format!("after step {number}, {step:?}: {wrong}"))?;
    }
    pair.compare_state()
}

fn check(threads: u32) {
    if Gearmand::start().is_none() {
        eprintln!("skipped: gearmand is not installed");
        return;
    }
    let shown = |case: &Case| {
        let steps: String = case.steps.iter().map(|step| format!("  {step:?}\n")).collect();
        format!("{:?}\n{steps}", case.options)
    };
    run_all(40, 2000, &sequence::cases(threads), run, shown);
}

#[test]
fn random_sequences_match_a_threaded_server() {
    check(4);
}

#[test]
fn random_sequences_match_a_single_threaded_server() {
    check(1);
}
