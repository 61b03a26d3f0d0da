//! `check` and `wait`: thresholds and time limits.

use std::time::{Duration, Instant};

use ctl_core::tool::Tool;

use crate::Case;

/// In the syntax of monitoring plugins.
pub fn thresholds_are_judged_by_table<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    let check: Vec<&str> = case.check.split(' ').collect();
    let mut there = 0;
    for (count, verdicts) in [
        (1, [0, 1, 0, 1, 0]),
        (9, [0, 1, 0, 1, 0]),
        (10, [0, 0, 0, 0, 1]),
        (15, [1, 0, 1, 0, 1]),
        (20, [1, 0, 1, 0, 1]),
        (21, [1, 0, 1, 1, 0]),
    ] {
        for _ in there..count {
            case.program.at(&address, &add).exits(0);
        }
        there = count;
        for (range, outside) in ["10", "10:", "~:10", "10:20", "@10:20"].into_iter().zip(verdicts) {
            let threshold = format!("{}={range}", case.waiting);
            for (flag, code) in [("-w", outside), ("-c", 2 * outside)] {
                let ran = case.program.at(&address, &[&check[..], &[flag, &threshold]].concat());
                assert_eq!(ran.code, Some(code), "{count} {flag} {threshold} {}", ran.out());
            }
        }
    }
}

/// Even if the environment is wrong: 2 would mean CRITICAL.
pub fn whatever_is_wrong_with_a_check_is_unknown<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let check: Vec<&str> = case.check.split(' ').collect();
    let (flag, prefix) = (case.program.flag, case.program.prefix);
    let start = format!("{prefix} UNKNOWN - ");
    let threshold = format!("{}=20:10", case.waiting);
    for more in [
        &["--no-such-flag"][..],
        &["-w", case.waiting],
        &["-w", &threshold],
        &["-w", "nonsense=1"],
        &["--timeout", "soon"],
        &["--format", "nonsense"],
        &["--embedded"],
    ] {
        let ran = case.program.at(&address, &[&check[..], more].concat()).exits(3);
        assert!(ran.out().starts_with(&start), "{more:?}: {}", ran.out());
    }
    // Even if nothing matches, so that nothing would be compared.
    let many = format!("{}s", case.noun);
    let nothing = ["check", &many, "none*", "--missing", "ok", "-c", "nonsense=1"];
    for line in [&["check"][..], &["check", "nonsense"], &nothing] {
        let ran = case.program.at(&address, line).exits(3);
        assert!(ran.out().starts_with(&start), "{line:?}: {}", ran.out());
    }
    for (name, value) in [("OUTPUT", "jsn"), ("TIMEOUT", "soon"), ("CONFIG", "/does/not/exist")] {
        let mut command = case.program.command(&[&[flag, &address], &check[..]].concat());
        let child = command.env(format!("{prefix}_{name}"), value).spawn().unwrap();
        let ran = crate::program::ended(child).exits(3);
        assert!(ran.out().starts_with(&start), "{name}: {}", ran.out());
    }
}

/// Neither early nor far too late.
pub fn a_wait_that_runs_out_is_124_and_not_early<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    case.program.at(&address, &add).exits(0);
    let wait: Vec<&str> = case.empty.split(' ').chain(["--timeout", "1s", "-o", "json"]).collect();
    let start = Instant::now();
    let error = case.program.at(&address, &wait).exits(124).error_alone();
    let took = start.elapsed();
    // It takes 1.5 s on an idle machine; only an unbounded wait takes longer than this.
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!((&error["code"], &error["exit"]), (&"TIMEOUT".into(), &124.into()));
    let pop: Vec<&str> = case.pop.split(' ').collect();
    case.program.at(&address, &pop).exits(0);
    let wait: Vec<&str> = case.empty.split(' ').collect();
    case.program.at(&address, &wait).exits(0);
}
