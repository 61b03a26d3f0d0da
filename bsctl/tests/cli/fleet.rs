//! Several servers, one of which may be dead.

use fixtures::beanstalkd::Server;
use fixtures::real::Beanstalkd;

use crate::harness::*;

/// Runs a scenario with two servers of each kind.
fn on_two(scenario: impl Fn(&str, &str)) {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    scenario(one.address(), two.address());
    if let (Some(one), Some(two)) = (Beanstalkd::start(), Beanstalkd::start()) {
        scenario(one.address(), two.address());
    }
}

#[test]
fn what_changes_tubes_by_name_is_done_on_every_server() {
    on_two(|one, two| {
        let both = format!("{one},{two}");
        for address in [one, two] {
            put_buried(address, "mail", "x");
            put(address, "mail", "y");
        }
        put_buried(two, "mail", "z");
        let ran = bsctl(&both, &["kick", "mail", "--all", "--dry-run"]).exits(0);
        let said =
            |count: &str, server: &str| format!("{server}: would kick {count} in tube mail\n");
        assert_eq!(ran.out(), said("1 job", one) + &said("2 jobs", two));
        let report = bsctl(&both, &["retry", "mail", "-o", "json"]).exits(0).json();
        let of = |at: usize| (report[at]["server"].clone(), report[at]["succeeded"].clone());
        assert_eq!((of(0), of(1)), ((one.into(), 1.into()), (two.into(), 2.into())));
        let ran = bsctl(&both, &["pause", "mail", "1h", "-o", "ndjson"]).exits(0);
        assert_eq!(ran.lines().len(), 2, "{}", ran.out());
        for address in [one, two] {
            let tube = client(address).stats_tube("mail").unwrap().unwrap();
            assert_eq!((tube.current_jobs_buried, tube.pause), (0, 3600));
        }
        let ran = bsctl(&both, &["resume", "mail", "-o", "plain"]).exits(0);
        assert_eq!(ran.out(), format!("{one}\tmail\t0\n{two}\tmail\t0\n"));
        bsctl(&both, &["clear", "mail", "--yes"]).exits(0);
        for address in [one, two] {
            let stats = client(address).stats().unwrap();
            assert_eq!(stats.current_jobs_ready, 0);
        }
    });
}

#[test]
fn a_dead_server_is_told_and_the_others_go_on() {
    let (dead, server) = (dead_address(), Server::start().unwrap());
    let address = server.address();
    put(address, "mail", "x");
    for list in [format!("{dead},{address}"), format!("{address},{dead}")] {
        let ran = bsctl(&list, &["pause", "mail", "1s", "-o", "json"]).exits(69);
        assert_eq!(ran.json().as_array().unwrap().len(), 1);
        assert_eq!(ran.json()[0]["server"], address);
        assert!(ran.err.contains(&dead), "{}", ran.err);
    }
    let ran = bsctl(&format!("{dead},{}", dead_address()), &["pause", "mail", "1s", "-o", "json"]);
    let ran = ran.exits(69);
    assert_eq!(ran.bytes, b"");
    assert_eq!(ran.error()["code"], "UNAVAILABLE");
}

#[test]
fn nothing_is_done_on_any_server_without_an_answer() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let both = format!("{},{}", one.address(), two.address());
    for server in [&one, &two] {
        put(server.address(), "mail", "x");
    }
    bsctl(&both, &["clear", "mail"]).exits(2);
    bsctl(&both, &["clear", "--all-tubes", "--yes"]).exits(2);
    bsctl(&both, &["kick", "--job", "1"]).exits(2);
    for server in [&one, &two] {
        assert_eq!(client(server.address()).stats().unwrap().current_jobs_ready, 1);
    }
}
