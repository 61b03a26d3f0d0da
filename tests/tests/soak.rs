//! The soak, for seconds instead of minutes: real servers that are killed again and again, bad networks, and every kind
//! of client at work. See `examples/soak`.
#![allow(unreachable_pub)]

#[path = "../examples/soak/trend.rs"]
mod trend;

use std::process::Command;

use fixtures::built;
use serde_json::Value;
use trend::Trend;

/// Runs a soak and returns its exit code and its summary.
fn soak(arguments: &[&str]) -> (i32, Value) {
    built::example("beanstalk-client", "resilient_consumer").unwrap();
    built::example("gearman-client", "resilient_worker").unwrap();
    built::example("adf-queue-client", "resilient_handler").unwrap();
    built::binary("queue-toolkit-fixtures", "mock-adfqueue").unwrap();
    let output = Command::new(built::example(env!("CARGO_PKG_NAME"), "soak").unwrap())
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let code = output.status.code().expect("it ends by itself");
    let summary = serde_json::from_slice(&output.stdout);
    (code, summary.unwrap_or_else(|error| panic!("exit code {code}, and no summary: {error}")))
}

/// A run that keeps everything that has to be kept. What a long one has to have survived, the soak itself demands.
fn survives(protocol: &str, more: &[&str]) {
    let short = ["--seconds", "2", "--kill-every", "1", "--rate", "150", "--seed", "1"];
    let (code, summary) = soak(&[&[protocol], &short[..], more].concat());
    assert_eq!(code, 0, "{summary:#}");
    let figure = |name: &str| summary["figures"][name].as_u64().unwrap();
    for name in ["jobs acknowledged", "kills of the server"] {
        assert!(figure(name) > 0, "{name}: {summary:#}");
    }
    assert_eq!(figure("jobs left in the server"), 0, "{summary:#}");
}

#[test]
fn clients_and_workers_survive_kills_of_beanstalkd() {
    if fixtures::real::Beanstalkd::start().is_some() {
        survives("beanstalkd", &[]);
    }
}

/// Its ids start again at 1 after each kill: a command with an old id would hit another job.
#[test]
fn no_job_is_confused_after_beanstalkd_restarts_empty() {
    if fixtures::real::Beanstalkd::start().is_some() {
        survives("beanstalkd", &["--without-log"]);
    }
}

#[test]
fn clients_and_workers_survive_kills_of_gearmand() {
    if fixtures::real::Gearmand::start().is_some() {
        survives("gearmand", &[]);
    }
}

/// It keeps nothing when killed. The server is `mock-adfqueue`, or the program that `ADF_QUEUE_PROGRAM` names.
#[test]
fn clients_and_workers_survive_kills_of_adf_queue() {
    survives("adf-queue", &[]);
}

#[test]
fn detects_an_adf_queue_server_that_loses_messages() {
    is_noticed(&["adf-queue"]);
}

#[test]
fn detects_a_server_that_loses_jobs() {
    if fixtures::real::Beanstalkd::start().is_some() {
        is_noticed(&["beanstalkd", "--without-log"]);
    }
}

/// A server that forgets when killed counts as one that loses jobs. A kill may hit an empty server, which has nothing
/// to lose: such a run is good, and the next one follows.
fn is_noticed(server: &[&str]) {
    for seed in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        let short = ["--seconds", "2", "--kill-every", "1", "--miss-forgotten", "--seed", seed];
        let (code, summary) = soak(&[server, &short[..]].concat());
        if is_lossy(&summary) {
            assert_eq!(code, 1, "{summary:#}");
            return;
        }
        assert_eq!(code, 0, "{summary:#}");
    }
    panic!("no loss was detected");
}

/// Whether jobs were missed.
fn is_lossy(summary: &Value) -> bool {
    let is_loss = |problem: &Value| problem.as_str().unwrap().starts_with("Lost: ");
    summary["problems"].as_array().unwrap().iter().any(is_loss)
}

#[test]
fn distinguishes_growth_from_fluctuation() {
    let trend = |value: fn(u64) -> u64| {
        let values: Vec<u64> = (0..180).map(value).collect();
        Trend::of("memory", "KiB", &values, 16 * 1024).unwrap()
    };
    let grows = |value| trend(value).grows();
    assert!(!grows(|_| 20_000));
    assert!(!grows(|n| 20_000 + n * 7919 % 50_000), "up and down");
    assert!(!grows(|n| 20_000 + 5_000 * u64::from(n > 90)), "one step within the margin");
    // 1000 jobs in 10 s that leave 32 bytes each.
    assert!(grows(|n| 20_000 + n * 320));
    assert!(Trend::of("memory", "KiB", &[1, 2, 3], 0).is_none());
    let Trend { name, unit, first, median, last, max, .. } = trend(|n| 100 + n);
    assert_eq!((name, unit, first, median, last, max), ("memory", "KiB", 100, 190, 279, 279));
}
