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
#[path = "sim/wire.rs"]
mod wire;
#[path = "sim/world.rs"]
mod world;

use outcome::{simulate, simulate_all};

#[test]
fn beanstalkd_loses_no_job_whatever_the_seed() {
    simulate_all("beanstalkd", beanstalk::run);
}

#[test]
fn gearmand_loses_no_job_whatever_the_seed() {
    simulate_all("gearmand", gearman::run);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..50 {
        for run in [|seed| simulate(seed, beanstalk::run), |seed| simulate(seed, gearman::run)] {
            let (once, again) = (run(seed), run(seed));
            assert_eq!(once.history.to_string(), again.history.to_string(), "seed {seed}");
            assert_eq!(once.trace, again.trace, "seed {seed}");
        }
    }
}
