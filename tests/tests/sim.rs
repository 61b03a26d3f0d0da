//! Deterministic simulation: the real clients, producers and workers and an in-memory server in one thread and in
//! virtual time, with a network that loses, splits and delays bytes as a seed determines. Each seed draws which kinds
//! of fault it has at all, and ends in a healed world, where each producer and each consumer has to complete a call,
//! and nothing may be left over.
//!
//! `SIM_SEEDS` sets how many seeds are run (100; of Adf.QueueServer 30), `SIM_FIRST` the first one (0); with
//! `SIM_WIRE` set, every byte that passes is printed. `SIM_CANCELLED` sets how many callers give up waiting for a job
//! (5,000). `just simulate` runs many more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, unreachable_pub)]

#[path = "sim/adf_queue.rs"]
mod adf_queue;
#[path = "sim/beanstalk.rs"]
mod beanstalk;
#[path = "sim/body.rs"]
mod body;
#[path = "sim/cancelled.rs"]
mod cancelled;
#[path = "sim/gearman.rs"]
mod gearman;
#[path = "sim/kinds.rs"]
mod kinds;
#[path = "sim/outcome.rs"]
mod outcome;
#[path = "sim/rng.rs"]
mod rng;
#[path = "sim/stage.rs"]
mod stage;
#[path = "sim/wire.rs"]
mod wire;
#[path = "sim/world.rs"]
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::history::{Report, Rule};
use outcome::{for_each_seed, setting, simulate, simulate_all};
use stage::Defect;

#[test]
fn beanstalkd_loses_no_job_for_any_seed() {
    simulate_all("beanstalkd", 100, |seed| beanstalk::run(seed, None));
}

#[test]
fn gearmand_loses_no_job_for_any_seed() {
    simulate_all("gearmand", 100, |seed| gearman::run(seed, None));
}

#[test]
fn adf_queue_loses_no_message_for_any_seed() {
    // A seed has ten times the faults of the others, and takes as much longer.
    simulate_all("adf_queue", 30, |seed| adf_queue::run(seed, None));
}

/// If the server preserves it: one producer, one worker that runs one message at a time, and no faults.
#[test]
fn adf_queue_keeps_the_order_for_any_seed() {
    for_each_seed(0..setting("SIM_SEEDS", 100).div_ceil(10), |seed| {
        let report = simulate(seed, adf_queue::in_order);
        assert_eq!((report.violations, report.delivered), (Vec::new(), 40), "seed {seed}");
    });
}

#[test]
fn an_abandoned_reserve_loses_no_job() {
    give_up("reserves", cancelled::reserves);
}

#[test]
fn an_abandoned_wait_of_a_worker_loses_no_job() {
    give_up("waits for the next job", cancelled::next_jobs);
}

/// Lets as many callers give up as the environment says, in parts with a seed each.
fn give_up<F: Future<Output = Report>>(what: &str, run: impl Fn(u64, u64, bool) -> F + Sync) {
    const PART: u64 = 2_500;
    let parts = setting("SIM_CANCELLED", 5_000).div_ceil(PART);
    let delivered = AtomicUsize::new(0);
    for_each_seed(0..parts, |seed| {
        let report = simulate(seed, |seed| run(seed, PART, false));
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        assert_eq!(report.acknowledged, report.delivered);
        delivered.fetch_add(report.delivered, Ordering::Relaxed);
    });
    let delivered = delivered.into_inner() as u64;
    println!("{} {what} were given up, and {delivered} jobs came", parts * PART);
    assert!(delivered > parts * PART / 10, "too few jobs: {delivered}");
}

/// One seed with a client that does wrong, or not.
fn each_protocol(seed: u64, defect: Option<Defect>) -> [outcome::Outcome; 3] {
    [
        simulate(seed, |seed| beanstalk::run(seed, defect)),
        simulate(seed, |seed| gearman::run(seed, defect)),
        simulate(seed, |seed| adf_queue::run(seed, defect)),
    ]
}

#[test]
fn detects_a_job_dropped_with_its_caller() {
    let mut rules = Vec::new();
    for seed in 0..5 {
        let reserves = simulate(seed, |seed| cancelled::reserves(seed, 300, true));
        let next_jobs = simulate(seed, |seed| cancelled::next_jobs(seed, 300, true));
        rules.extend(reserves.violations.iter().map(|violation| violation.rule));
        rules.extend(next_jobs.violations.iter().map(|violation| violation.rule));
    }
    // Its reservation is held forever, unless the connection ends later; a job that a worker drops fails.
    assert!(rules.contains(&Rule::Stuck) && rules.contains(&Rule::Lost), "{rules:?}");
    assert!(rules.iter().all(|rule| [Rule::Stuck, Rule::Lost].contains(rule)), "{rules:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..5 {
        let (once, again) = (each_protocol(seed, None), each_protocol(seed, None));
        for (once, again) in once.into_iter().zip(again) {
            assert_eq!(once.history.to_string(), again.history.to_string(), "seed {seed}");
            assert_eq!(once.trace, again.trace, "seed {seed}");
        }
    }
    for seed in 0..2 {
        let reserves = || simulate(seed, |seed| cancelled::reserves(seed, 300, false));
        assert_eq!(format!("{:?}", reserves()), format!("{:?}", reserves()), "seed {seed}");
        let next_jobs = || simulate(seed, |seed| cancelled::next_jobs(seed, 300, false));
        assert_eq!(format!("{:?}", next_jobs()), format!("{:?}", next_jobs()), "seed {seed}");
    }
}

/// The defects of clients, and the rules that each may break.
const DEFECTS: [(Defect, &[Rule]); 7] = [
    (Defect::Drops, &[Rule::Lost]),
    (Defect::Denies, &[Rule::Ghost]),
    (Defect::Repeats, &[Rule::Risen, Rule::Duplicated, Rule::Copied]),
    (Defect::Waits, &[Rule::Late]),
    (Defect::Forgets, &[Rule::Unfinished]),
    (Defect::Keeps, &[Rule::Stuck]),
    (Defect::Leaks, &[Rule::Leaked]),
];

#[test]
fn detects_a_defective_client_for_any_seed() {
    for (seed, (defect, rules)) in (0..2).flat_map(|seed| DEFECTS.map(|row| (seed, row))) {
        for outcome in each_protocol(seed, Some(defect)) {
            let broken = outcome.report.violations;
            assert!(!broken.is_empty(), "{defect:?} is not noticed with seed {seed}");
            for violation in broken {
                let is_meant = rules.contains(&violation.rule);
                assert!(is_meant, "{defect:?} with seed {seed}: {violation}");
            }
        }
    }
}
