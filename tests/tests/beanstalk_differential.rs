//! The in-memory beanstalkd against the real one: the same bytes to both, the same replies back.
//!
//! Random sequences of commands on several connections go to a fresh in-memory server and a fresh
//! real one; after every step all replies must be equal, at the end the stats of the server, of
//! every tube and of every job too. What depends on the machine or on the time is masked. No
//! sequence depends on timing: its times to run, delays and pauses are minutes. Timing has
//! its own scripts, with margins of half a second and more.
//!
//! Usually it is the same 100 sequences, so that a run says something about the change it tests;
//! `DIFFERENTIAL_CASES=10000` runs as many new ones.

#[path = "beanstalk_differential/script.rs"]
mod script;
#[path = "beanstalk_differential/sequence.rs"]
mod sequence;
#[path = "beanstalk_differential/sides.rs"]
mod sides;

use std::sync::LazyLock;

use fixtures::{
    beanstalkd::{Server, Version},
    real::{Beanstalkd, RealServer},
};

use crate::{
    beanstalk_differential::{
        sequence::{Step, steps},
        sides::{Pair, Side},
    },
    differential::run_all,
};

/// Small enough that sequences meet `JOB_TOO_BIG`.
const MAX_JOB_SIZE: u32 = 300;

fn fresh_pair() -> Option<(Server, RealServer)> {
    let real = Beanstalkd::builder().arg("-z").arg(MAX_JOB_SIZE.to_string()).start()?;
    let memory = Server::builder()
        .version(version())
        .virtual_clock()
        .max_job_size(MAX_JOB_SIZE)
        .start()
        .unwrap();
    Some((memory, real))
}

/// The release that is installed.
fn version() -> Version {
    static VERSION: LazyLock<Version> = LazyLock::new(|| {
        let version = Beanstalkd::version().expect("beanstalkd names its version");
        let release = release(&version).parse();
        release.unwrap_or_else(|error| panic!("no comparison is possible: {error}"))
    });
    *VERSION
}

/// The release that a version was built from: what stands between releases says so behind a sign, as `1.13+6+g25085c5`.
fn release(version: &str) -> &str {
    let end = version.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    &version[..end.unwrap_or(version.len())]
}

#[test]
fn a_version_between_releases_is_compared_with_the_release_before_it() {
    for (version, expected) in [
        ("1.13+6+g25085c5", Some(Version::V1_13)),
        ("1.12-dirty", Some(Version::V1_12)),
        ("1.12", Some(Version::V1_12)),
        ("1.1", None),
        ("unknown", None),
    ] {
        assert_eq!(release(version).parse().ok(), expected, "{version}");
    }
}

#[test]
fn random_sequences_match_the_real_server() {
    if Beanstalkd::start().is_none() {
        eprintln!("skipped: beanstalkd is not installed");
        return;
    }
    let shown = |steps: &Vec<Step>| steps.iter().map(|step| format!("  {step:?}\n")).collect();
    run_all(100, 2000, &steps(), |steps| compare(steps), shown);
}

fn compare(steps: &[Step]) -> Result<(), String> {
    let (memory, real) = fresh_pair().expect("beanstalkd was there a moment ago");
    let mut pair = Pair::new(Side::in_memory(&memory), Side::real(&real));
    for (number, step) in steps.iter().enumerate() {
        pair.apply(step);
        pair.compare()
            .map_err(|difference| format!("after step {number}, {step:?}: {difference}"))?;
    }
    pair.compare_state()
}
