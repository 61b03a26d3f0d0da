//! Deterministic simulation: the real clients, producers and workers and an in-memory server in one thread and in virtual
//! time, with a network that loses, splits and holds up bytes as a seed says.
//!
//! `SIM_SEEDS` sets how many seeds are run (1,000), `SIM_FIRST` the first one (0); with `SIM_WIRE` set every byte that
//! passes is printed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

#[path = "sim/beanstalk.rs"]
mod beanstalk;
#[path = "sim/gearman.rs"]
mod gearman;
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

use fixtures::history::Rule;
use outcome::{simulate, simulate_all};
use stage::Defect;

#[test]
fn beanstalkd_loses_no_job_whatever_the_seed() {
    simulate_all("beanstalkd", |seed| beanstalk::run(seed, None));
}

#[test]
fn gearmand_loses_no_job_whatever_the_seed() {
    simulate_all("gearmand", |seed| gearman::run(seed, None));
}

/// One seed with a client that does wrong, or not.
fn each_protocol(seed: u64, defect: Option<Defect>) -> [outcome::Outcome; 2] {
    [
        simulate(seed, |seed| beanstalk::run(seed, defect)),
        simulate(seed, |seed| gearman::run(seed, defect)),
    ]
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..25 {
        let (once, again) = (each_protocol(seed, None), each_protocol(seed, None));
        for (once, again) in once.into_iter().zip(again) {
            assert_eq!(once.history.to_string(), again.history.to_string(), "seed {seed}");
            assert_eq!(once.trace, again.trace, "seed {seed}");
        }
    }
}

#[test]
fn a_client_with_a_defect_breaks_a_rule_whatever_the_seed() {
    for (seed, defect) in (0..3).flat_map(|seed| Defect::ALL.map(|defect| (seed, defect))) {
        let rules: &[Rule] = match defect {
            Defect::Drops => &[Rule::Lost],
            Defect::Denies => &[Rule::Ghost],
            Defect::Repeats => &[Rule::Risen, Rule::Duplicated],
            Defect::Waits => &[Rule::Late],
            Defect::Forgets => &[Rule::Unfinished],
            Defect::Keeps => &[Rule::Stuck],
            Defect::Leaks => &[Rule::Leaked],
        };
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
