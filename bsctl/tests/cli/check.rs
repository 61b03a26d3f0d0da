//! `check`: exit codes 0 to 3 and nothing else.

use std::time::Duration;

use beanstalk_client::{PutOptions, ReleaseOptions};
use fixtures::beanstalkd::{Seed, Server};
use fixtures::fault::Fault;

use crate::harness::*;

#[test]
fn prints_a_monitoring_line() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut worker = client(server.address());
    worker.watch("mail").unwrap();
    for _ in 0..12 {
        put(server.address(), "mail", "");
    }
    let line = ["check", "tube", "mail", "-w", "ready=100", "-c", "ready=1000"];
    let ran = bsctl(server.address(), &line).exits(0);
    let start = "BSCTL OK - mail: ready 12, buried 0, delayed 0, reserved 0 | 'mail_ready'=12;100;1000;0;\n";
    assert!(ran.out().starts_with(start), "{}", ran.out());
    let ran = bsctl(server.address(), &["check", "tube", "mail", "-w", "ready=5"]).exits(1);
    assert!(ran.out().starts_with("BSCTL WARNING - mail: ready 12 (range 5) | "), "{}", ran.out());
    let json = bsctl(server.address(), &["check", "server", "-c", "ready=5", "-o", "json"])
        .exits(2)
        .json();
    assert_eq!((&json["status"], &json["exit"]), (&"CRITICAL".into(), &2.into()));
    let text = bsctl(server.address(), &["check", "server", "-o", "table"]).exits(0);
    assert!(text.lines()[1].contains("ready 12"), "{}", text.out());
}

#[test]
fn ready_jobs_without_watchers_are_critical() {
    on_both(|address| {
        put(address, "orphan", "");
        let ran = bsctl(address, &["check", "tube", "orphan"]).exits(2);
        assert!(ran.out().contains("no workers"), "{}", ran.out());
        bsctl(address, &["check", "tube", "orphan", "-w", "workers=1:", "-c", "workers=0:"])
            .exits(1);
        bsctl(address, &["check", "tube", "orphan", "-c", "workers=0:"]).exits(0);
        bsctl(address, &["check", "tube", "no spaces"]).exits(3);
        bsctl(address, &["check", "tubes", "*"]).exits(2);
        bsctl(address, &["check", "tubes", "*", "!orph*"]).exits(0);
    });
}

/// Every connection watches `default` from the start: idle producers do, and so does the tool itself.
#[test]
fn figures_of_default_exclude_the_tool_and_idle_producers() {
    on_both(|address| {
        let mut producer = client(address);
        assert!(!producer.put("x", PutOptions::default()).unwrap().is_buried());
        // Connections of tools that have ended are gone when the server says so.
        let mut run = |connections: u64, line: &[&str]| {
            eventually("the tool has gone", || {
                (producer.stats().unwrap().current_connections == connections).then_some(())
            });
            bsctl(address, line)
        };
        let check = ["check", "tube", "default"];
        let ran = run(1, &check).exits(2);
        assert!(ran.out().contains("ready jobs but no workers"), "{}", ran.out());
        run(1, &["check", "tubes", "*", "-c", "workers=1:"]).exits(2);
        run(1, &["wait", "--for", "workers==0", "-t", "default"]).exits(0);
        let exported = run(1, &["exporter", "-c", "1"]).exits(0);
        let text = exported.out();
        for (figure, value) in [("current_watching", 1), ("workers_max", 0)] {
            let line = format!(
                "beanstalkd_tube_{figure}{{server=\"{address}\",tube=\"default\"}} {value}.0\n"
            );
            assert!(text.contains(&line), "{line}: {text}");
        }
        assert!(
            text.contains(&format!("_current_connections{{server=\"{address}\"}} 1.0\n")),
            "{text}"
        );
        let tubes = run(1, &["tubes", "-o", "json"]).exits(0).json();
        assert_eq!(
            (&tubes[0]["current-using"], &tubes[0]["current-watching"]),
            (&1.into(), &1.into())
        );
        assert_eq!(run(1, &["stats", "-o", "json"]).json()["current-connections"], 1);
        assert_eq!(
            run(1, &["stats-tube", "default", "-o", "json"]).json()[0]["current-watching"],
            1
        );
        let top = run(1, &["top", "-c", "1", "-o", "json"]).exits(0).json();
        assert_eq!(top["servers"][0]["draining"], false);
        assert_eq!(top["queues"][0]["problem"], "no workers");
        assert!(run(1, &["doctor"]).out().contains("no worker serves default"));

        // The server does not report whether a worker of another tube serves this one, too.
        let mut other = client(address);
        other.watch("mail").unwrap();
        other.ignore("default").unwrap();
        assert!(other.reserve_with_timeout(Duration::ZERO).unwrap().job().is_none());
        let ran = run(2, &check).exits(3);
        assert!(ran.out().contains("the server does not tell"), "{}", ran.out());
        run(2, &["check", "tube", "default", "-c", "workers=1:"]).exits(3);
        run(2, &["check", "tube", "default", "-c", "workers=5:"]).exits(2);
        run(2, &["check", "tube", "default", "-c", "workers=5"]).exits(0);
        let wait = ["wait", "--for", "workers>=1", "-t", "default", "--timeout"];
        late("last seen", |limit| run(2, &[&wait[..], &[limit]].concat())).exits(124);

        let mut worker = client(address);
        let job = worker.reserve_with_timeout(Duration::ZERO).unwrap().job().unwrap();
        worker.release(&job, ReleaseOptions::new(0)).unwrap();
        other.quit().unwrap();
        run(2, &check).exits(0);
        run(2, &["wait", "--for", "workers==1", "-t", "default"]).exits(0);
    });
}

/// Buried jobs and pauses are a problem for every command that judges.
#[test]
fn buried_jobs_and_pauses_warn_without_a_threshold() {
    let server = Server::start().unwrap();
    put_buried(server.address(), "mail", "x");
    let check =
        |more: &[&str]| bsctl(server.address(), &[&["check", "tube", "mail"], more].concat());
    assert!(check(&[]).exits(1).out().contains("mail: buried jobs"));
    check(&["-c", "buried=1"]).exits(0);
    check(&["-c", "buried=0"]).exits(2);
    bsctl(server.address(), &["pause", "mail", "1h"]).exits(0);
    assert!(check(&["-c", "buried=1"]).exits(1).out().contains("mail: paused"));
    check(&["-c", "buried=1", "-w", "pause-left=2h"]).exits(0);
}

/// A tube exists only while it is in use: the alert would be triggered by the last job.
#[test]
fn a_missing_tube_is_empty_by_default() {
    on_both(|address| {
        let check = |more: &[&str]| bsctl(address, &[&["check"], more].concat());
        let ran = check(&["tube", "none", "-c", "ready=10"]).exits(0);
        let line = "BSCTL OK - none: there is no tube none, ready 0, ";
        assert!(ran.out().starts_with(line), "{}", ran.out());
        assert!(ran.out().contains("| 'none_ready'=0;;10;0;\n"), "{}", ran.out());
        // A tube that does not exist needs no workers.
        check(&["tube", "none", "-c", "workers=1:"]).exits(2);
        check(&["tube", "none", "-c", "nonsense=1"]).exits(3);
        check(&["tube", "none", "--must-exist"]).exits(2);
        let ran = check(&["tubes", "no*", "-c", "ready=10"]).exits(0);
        assert_eq!(ran.out(), "BSCTL OK - tubes: no tube matches no*\n");
        check(&["tubes", "no*", "--must-exist"]).exits(2);
    });
}

#[test]
fn limits_output_for_many_tubes() {
    let server = Server::start().unwrap();
    let mut keeper = client(server.address());
    for number in 0..500 {
        let tube = format!("{number:03}-{}", "t".repeat(190));
        if number % 2 == 0 {
            keeper.watch(tube.as_str()).unwrap();
        }
        server.seed(Seed::new("").tube(tube)).unwrap();
    }
    let check = |more: &[&str]| bsctl(server.address(), &[&["check", "tubes", "*"], more].concat());
    let ran = check(&["-c", "ready=0", "-c", "workers=0:"]).exits(2);
    assert!(ran.out().len() <= 4096, "{} bytes", ran.out().len());
    assert!(
        ran.out().starts_with("BSCTL CRITICAL - 500 of 501 tubes critical: ready (range 0): 000-"),
        "{}",
        ran.out()
    );
    assert!(ran.out().contains(" and 490 more"), "{}", ran.out());
    assert!(ran.out().contains("_ready'=1;;0;0;"), "{}", ran.out());
    // Without a threshold, the figures are those that alert on their own.
    let ran = check(&[]).exits(2);
    assert!(!ran.out().contains("_buried'"), "{}", ran.out());
    let globs = ["![0-9]*", "!0*", "!1*", "!2*", "!3*", "!4*"];
    let ran = check(&globs);
    assert_eq!(ran.exits(0).out(), "BSCTL OK - 1 tube fine\n");
    assert!(
        check(&["-c", "ready=0", "-o", "json"]).exits(2).json()["metrics"]
            .as_array()
            .unwrap()
            .len()
            > 5000
    );
}

#[test]
fn alerts_carry_no_hints() {
    let ran = bsctl(&dead_address(), &["check", "server"]).exits(2);
    assert!(!ran.out().contains("start beanstalkd"), "{}", ran.out());
    assert_eq!(ran.lines().len(), 1, "{}", ran.out());
}

#[test]
fn a_silent_server_is_critical_unless_configured() {
    let silent = || {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(1).of("stats").hang());
        server
    };
    let server = silent();
    bsctl(server.address(), &["check", "server", "--timeout", "1s"]).exits(2);
    let server = silent();
    let line = ["check", "server", "--timeout", "1s", "--on-timeout", "unknown"];
    bsctl(server.address(), &line).exits(3);
}

#[test]
fn checks_a_job_by_id() {
    on_both(|address| {
        let (ready, buried) = (put(address, "t", "x"), put_buried(address, "t", "y"));
        let (ready, buried) = (ready.to_string(), buried.to_string());
        let check = |more: &[&str]| bsctl(address, &[&["check", "job"], more].concat());
        check(&[&ready, "-c", "age=600", "-c", "ready=1:"]).exits(0);
        let ran = check(&[&ready, &buried, "-w", "buried=0"]).exits(1);
        assert!(ran.out().contains(&format!("job {buried}")), "{}", ran.out());
        let ran = check(&["999"]).exits(0);
        assert!(ran.out().starts_with("BSCTL OK - job 999: there is no job 999"), "{}", ran.out());
        check(&["999", &ready, "--must-exist"]).exits(2);
        check(&["x"]).exits(3);
        check(&[&ready, "-c", "workers=1:"]).exits(3);
    });
}

#[test]
fn measures_rates_only_for_thresholds() {
    on_both(|address| {
        let without = bsctl(address, &["check", "server"]).exits(0);
        assert!(!without.out().contains("timeouts/s"), "{}", without.out());
        let document = bsctl(address, &["check", "server", "-o", "json"]).exits(0);
        assert!(document.out().contains("binlog-lag"), "{}", document.out());
        let ran = bsctl(address, &["check", "server", "-c", "timeouts/s=0"]).exits(0);
        assert!(ran.out().contains("'timeouts/s'=0"), "{}", ran.out());
    });
}

#[test]
fn time_thresholds_have_units() {
    let server = Server::builder().virtual_clock().start().unwrap();
    put(server.address(), "mail", "x");
    server.advance(std::time::Duration::from_secs(700));
    let check = |warning: &str| {
        bsctl(server.address(), &["check", "tube", "mail", "-c", "workers=0:", "-w", warning])
    };
    let ran = check("oldest-age=10m").exits(1);
    assert!(ran.out().contains("oldest-age 700s (range 600)"), "{}", ran.out());
    assert!(ran.out().contains("'mail_oldest-age'=700s;600;"), "{}", ran.out());
    check("oldest-age=1h").exits(0);
    check("rtt=10s").exits(0);
    let ran = check("ready=10m").exits(3);
    assert!(format!("{}{}", ran.out(), ran.err).contains("is a time range"), "{}", ran.err);
}

#[test]
fn counts_matching_jobs() {
    on_both(|address| {
        put(address, "t", "one");
        put(address, "t", "two");
        let check = |more: &[&str]| {
            bsctl(address, &[&["check", "tube", "t", "-c", "workers=0:"], more].concat())
        };
        let ran = check(&["--filter", "body~=tw", "-c", "matching=0"]).exits(2);
        assert!(ran.out().contains("matching 1 (range 0)"), "{}", ran.out());
        check(&["--filter", "body~=thr", "-c", "matching=0"]).exits(0);
        check(&["--filter", "age>1h", "-c", "matching=0"]).exits(0);
        // A filter without its own threshold is not left out of what others alert about.
        let ran = check(&["--filter", "body~=tw", "-w", "ready=0"]).exits(1);
        assert!(ran.out().contains("'t_matching'=1;"), "{}", ran.out());
        check(&["--filter", "nonsense"]).exits(3);
        check(&["-c", "matching=0"]).exits(3);
        let args = ["check", "tube", "none", "--filter", "size>1", "-c", "matching=0"];
        bsctl(address, &args).exits(0);
    });
}
