//! `bench` measures, is bounded, and leaves nothing behind.

use ctl_core::context::Tool;
use ctl_core::tool::cli;
use rustix::process::Signal;
use serde_json::Value;

use crate::Case;
use crate::program::{Ran, ended, signal};

/// The modes in the grammar, beginning with those that leave jobs in the queue until the end.
fn modes<T: Tool>() -> Vec<String> {
    let tree = cli::tree::<T>();
    let bench = tree.find_subcommand("bench").unwrap();
    let mode = bench.get_arguments().find(|argument| argument.get_id() == "mode").unwrap();
    mode.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// The last row, which is that of all clients.
fn all(ran: &Ran) -> Value {
    ran.json().as_array().unwrap().last().unwrap().clone()
}

/// With several clients; no job is left afterwards.
pub fn bench_measures_in_every_mode_and_cleans_up<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    for mode in modes::<T>() {
        let line = ["bench", &mode, "--count", "30", "-j", "3", "--size", "1..600", "-o", "json"];
        let ran = case.program.at(&address, &line).exits(0);
        let (rows, all) = (ran.json(), all(&ran));
        assert_eq!(rows.as_array().unwrap().len(), 4, "{mode}: {rows}");
        assert_eq!(
            (&all["client"], &all["ops"], &all["errors"]),
            (&"all".into(), &30.into(), &0.into())
        );
        let sum: u64 =
            rows.as_array().unwrap().iter().take(3).map(|row| row["ops"].as_u64().unwrap()).sum();
        assert_eq!(sum, 30, "{mode}");
        let times = ["min_ms", "p50_ms", "p99_ms", "p99_9_ms", "max_ms"];
        let times: Vec<f64> = times.iter().map(|key| all[key].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 0.0, "{mode}: {all}");
        assert_eq!((case.jobs)(&server), 0, "{mode} left jobs");
    }
    let left = case.run(&address, case.list, &["-o", "name"]).exits(0);
    assert!(!left.out().contains("bench"), "{}", left.out());
}

/// With a fixed rate, the run takes its time, and a late reply counts from when its operation was due.
pub fn bench_keeps_the_rate_of_an_open_loop<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let line = ["bench", "--count", "20", "--rate", "100", "-j", "2", "-o", "json"];
    let all = all(&case.program.at(&address, &line).exits(0));
    assert_eq!(all["ops"], 20);
    // The last operation is due after 190 ms.
    assert!(all["duration_seconds"].as_f64().unwrap() >= 0.19, "{all}");
}

/// Leaves the jobs of others alone.
pub fn bench_refuses_a_queue_that_holds_jobs<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    case.run(&address, case.add, &["precious"]).exits(0);
    let name = format!("--{}", case.noun);
    for mode in &modes::<T>()[..1] {
        let ran =
            case.program.at(&address, &["bench", mode, &name, "mail", "--count", "5"]).exits(2);
        assert!(ran.err.contains("mail"), "{}", ran.err);
    }
    assert_eq!((case.jobs)(&server), 1);
}

/// Ctrl-C prints what was measured so far, and leaves nothing behind.
pub fn bench_reports_partial_results_on_ctrl_c<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let line = [
        case.program.flag,
        &address,
        "bench",
        &modes::<T>()[0],
        "--rate",
        "1000",
        "--duration",
        "1h",
        "-o",
        "json",
    ];
    let child = case.program.command(&line).spawn().unwrap();
    crate::until(|| (case.jobs)(&server) >= 10);
    signal(&child, Signal::INT);
    let ran = ended(child).exits(130);
    assert!(all(&ran)["ops"].as_u64().unwrap() >= 1, "{}", ran.out());
    assert_eq!((case.jobs)(&server), 0, "{}", ran.err);
}

/// `--fail-if` and `-o csv`.
pub fn bench_fails_beyond_its_limits<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let run = |more: &[&str]| {
        case.program.at(&address, &[&["bench", "--count", "20", "-o", "json"], more].concat())
    };
    let rows = case.program.at(&address, &["bench", "--count", "20", "-o", "csv"]).exits(0);
    let lines = rows.lines();
    assert!(lines[0].starts_with("client,ops,errors,"), "{lines:?}");
    assert!(lines[1].starts_with("all,20,0,"), "{lines:?}");
    let slower = run(&["--fail-if", "rate<1000000000"]);
    assert!(slower.err.contains("the limit is rate<1000000000"), "{}", slower.err);
    let slower = slower.exits(1);
    assert_eq!(slower.error()["code"], "SLOWER");
    run(&["--fail-if", "max>0s"]).exits(1);
    run(&["--fail-if", "errors>0", "--fail-if", "p50>1h"]).exits(0);
    run(&["--fail-if", "p99>20%"]).exits(2);
    run(&["--fail-if", "p98>5ms"]).exits(2);
}

/// Bounds the number of operations, and what a server has to store.
pub fn it_is_bounded<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let (leaves, bench) =
        (&modes::<T>()[0], |more: &[&str]| case.program.at(&address, &[&["bench"], more].concat()));
    let ran = bench(&[leaves, "--count", "100000000"]).exits(2);
    assert!(ran.err.contains("1 GiB"), "{}", ran.err);
    bench(&["--size", "1g"]).exits(2);
    bench(&["--size", "9..1"]).exits(2);
    bench(&["--rate", "0"]).exits(2);
    bench(&["-j", "100000"]).exits(2);
    bench(&["--dry-run"]).exits(2);
    let quick = bench(&["--duration", "50ms", "--warmup", "10ms", "-o", "json"]).exits(0);
    assert!(all(&quick)["ops"].as_u64().is_some());
}
