//! `check roundtrip` passes if everything works, and names the step that fails.

use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

#[test]
fn passes_every_step_and_cleans_up() {
    on_both(|address| {
        put(address, "default", "others");
        bsctl(address, &["check", "roundtrip"]).exits(0);
        bsctl(address, &["check", "roundtrip", "-c", "rtt=0"]).exits(2);
        let stats = client(address).stats().unwrap();
        assert_eq!(
            (stats.current_jobs_ready, stats.current_jobs_buried, stats.current_tubes),
            (1, 0, 1)
        );
    });
}

#[test]
fn names_the_failing_step_and_cleans_up() {
    for (step, verb) in [
        ("put", "put"),
        ("reserve", "reserve-with-timeout"),
        ("touch", "touch"),
        ("bury", "bury"),
        ("kick", "kick"),
        ("delete", "delete"),
        ("stats", "stats-tube"),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(1).of(verb).reply("INTERNAL_ERROR"));
        let ran = bsctl(server.address(), &["check", "roundtrip"]).exits(2);
        let why = format!("roundtrip: {step}: INTERNAL_ERROR, not ");
        assert!(ran.out().contains(&why), "{}", ran.out());
        let left = client(server.address()).stats().unwrap();
        let jobs = left.current_jobs_ready + left.current_jobs_buried + left.current_jobs_reserved;
        assert_eq!(jobs, 0, "{step}");
    }
}

#[test]
fn detects_a_changed_body() {
    let server = Server::start().unwrap();
    let wrong = b"RESERVED 1 3\r\nfoo\r\n".to_vec();
    server.faults().add(Fault::nth(1).of("reserve-with-timeout").reply_bytes(wrong));
    let ran = bsctl(server.address(), &["check", "roundtrip"]).exits(2);
    assert!(ran.out().contains("reserve: RESERVED 1 3, not "), "{}", ran.out());
}

#[test]
fn names_the_step_of_a_broken_connection() {
    for fault in [
        Fault::nth(1).of("bury").cut_after(0),
        Fault::nth(1).of("bury").hang(),
        Fault::nth(1).of("bury").reply_bytes(b"RESERVED x\r\n".to_vec()),
    ] {
        late("roundtrip: bury: ", |limit| {
            let server = Server::start().unwrap();
            server.faults().add(fault.clone());
            bsctl(server.address(), &["check", "roundtrip", "--timeout", limit]).exits(2)
        });
    }
}
