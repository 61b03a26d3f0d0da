//! `smoke` passes if everything works, and names the step that fails.

use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

const STEPS: [(&str, &str); 7] = [
    ("put", "put"),
    ("reserve", "reserve-with-timeout"),
    ("touch", "touch"),
    ("bury", "bury"),
    ("kick", "kick"),
    ("delete", "delete"),
    ("stats", "stats-tube"),
];

#[test]
fn every_step_passes_and_nothing_is_left() {
    on_both(|address| {
        let rows = bsctl(address, &["smoke", "-o", "json"]).exits(0).json();
        let steps: Vec<&str> =
            rows.as_array().unwrap().iter().map(|row| row["step"].as_str().unwrap()).collect();
        assert_eq!(steps, STEPS.map(|(step, _)| step));
        assert!(rows.as_array().unwrap().iter().all(|row| row["ok"] == true));
        let stats = client(address).stats().unwrap();
        assert_eq!(
            (stats.current_jobs_ready, stats.current_jobs_buried, stats.current_tubes),
            (0, 0, 1)
        );
    });
    bare(&["--embedded", "smoke"]).exits(0);
}

#[test]
fn a_step_that_fails_is_named_and_cleaned_up_after() {
    for (step, verb) in STEPS {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(1).of(verb).reply("INTERNAL_ERROR"));
        let rows = bsctl(server.address(), &["smoke", "-o", "json"]).exits(1).json();
        let last = rows.as_array().unwrap().last().unwrap().clone();
        assert_eq!((last["step"].as_str(), &last["ok"]), (Some(step), &false.into()));
        assert_eq!(last["got"], "INTERNAL_ERROR");
        let left = client(server.address()).stats().unwrap();
        let jobs = left.current_jobs_ready + left.current_jobs_buried + left.current_jobs_reserved;
        assert_eq!(jobs, 0, "{step}");
    }
}

#[test]
fn a_changed_body_is_a_failure() {
    let server = Server::start().unwrap();
    let wrong = b"RESERVED 1 3\r\nfoo\r\n".to_vec();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").reply_bytes(wrong));
    let rows = bsctl(server.address(), &["smoke", "-o", "json"]).exits(1).json();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[1]["ok"], false);
}

#[test]
fn a_broken_connection_has_its_own_code_and_the_row_says_where() {
    for (fault, code) in [
        (Fault::nth(1).of("bury").cut_after(0), 4),
        (Fault::nth(1).of("bury").hang(), 4),
        (Fault::nth(1).of("bury").reply_bytes(b"RESERVED x\r\n".to_vec()), 4),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(fault);
        let ran = bsctl(server.address(), &["smoke", "--timeout", "2s"]).exits(code);
        let last = ran.lines().last().copied().unwrap_or_default();
        assert!(last.starts_with("bury\t") && last.ends_with("\tfalse"), "{last}");
    }
}
