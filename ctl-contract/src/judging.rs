//! `check` and `wait`: thresholds and time limits.

use std::time::{Duration, Instant};

use ctl_core::context::Tool;

use crate::Case;

/// In the syntax of monitoring plugins. One job waits.
pub fn check_judges_thresholds<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    for (range, flag, code) in
        [("1", "-w", 0), ("1", "-c", 0), ("2:", "-w", 1), ("~:0", "-c", 2), ("@1:2", "-c", 2)]
    {
        let threshold = format!("{}={range}", case.waiting);
        let ran = case.run(&address, case.check, &[flag, &threshold]);
        assert_eq!(ran.code, Some(code), "{flag} {threshold} {}", ran.out());
    }
}

/// Even if the environment is wrong: 2 would mean CRITICAL.
pub fn check_reports_unknown_on_any_error<T: Tool>(case: &Case<T>) {
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
        &["-o", "nonsense"],
        &["--embedded"],
    ] {
        let ran = case.program.at(&address, &[&check[..], more].concat()).exits(3);
        assert!(ran.out().starts_with(&start), "{more:?}: {}", ran.out());
    }
    // Even if nothing matches, so that nothing would be compared.
    let many = format!("{}s", case.noun);
    let nothing = ["check", &many, "none*", "-c", "nonsense=1"];
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

/// It ends, and not early.
pub fn wait_exits_124_on_timeout<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let start = Instant::now();
    let ran = case.run(&address, case.empty, &["--timeout", "1s", "-o", "json"]);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    let error = ran.exits(124).error_alone();
    assert_eq!((&error["code"], &error["exit"]), (&"TIMEOUT".into(), &124.into()));
    case.run(&address, case.pop, &[]).exits(0);
    case.run(&address, case.empty, &[]).exits(0);
}
