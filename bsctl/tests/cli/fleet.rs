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
fn changes_tubes_on_every_server() {
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
fn reports_a_dead_server_and_continues_with_the_others() {
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
fn does_nothing_without_confirmation() {
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

#[test]
fn merges_lists_of_several_servers() {
    on_two(|one, two| {
        let both = format!("{one},{two}");
        put(one, "mail", "a");
        put_buried(two, "mail", "b");
        put(two, "sms", "c");
        let jobs = bsctl(&both, &["jobs", "-o", "json", "--with-body"]).exits(0).json();
        let of = |at: usize| (jobs[at]["server"].as_str(), jobs[at]["body"].as_str());
        let wanted = [(Some(one), Some("a")), (Some(two), Some("b")), (Some(two), Some("c"))];
        assert_eq!((0..3).map(of).collect::<Vec<_>>(), wanted, "{jobs}");
        let table = bsctl(&both, &["jobs", "-o", "table"]).exits(0);
        assert_eq!(table.out().matches("SERVER").count(), 1, "{}", table.out());
        let sorted = ["jobs", "-o", "plain", "--columns", "server,id", "--sort-by", "server"];
        assert_eq!(bsctl(&both, &sorted).exits(0).lines().len(), 3);
        let csv = bsctl(&both, &["stats-tube", "mail", "-o", "csv"]).exits(0);
        assert!(csv.out().starts_with("server,name,"), "{}", csv.out());
        assert_eq!(csv.lines().len(), 3);
        let none = bsctl(&both, &["jobs", "-t", "none", "-o", "json"]).exits(0);
        assert_eq!(none.out(), "[]\n");
        let peeked =
            bsctl(&both, &["peek", "--state", "buried", "-t", "mail", "-o", "ndjson"]).exits(1);
        assert_eq!(peeked.json()["server"], two);
        assert!(peeked.err.contains(one), "{}", peeked.err);
        let exported = bsctl(&both, &["export"]).exits(0);
        let third = Server::start().unwrap();
        bsctl_with(third.address(), &["import", "-"], &exported.bytes).exits(0);
        assert_eq!(client(third.address()).stats().unwrap().current_jobs_ready, 3);
        bsctl(&both, &["peek", "1"]).exits(2);
    });
}

#[test]
fn buries_and_pops_jobs_on_several_servers() {
    on_two(|one, two| {
        let both = format!("{one},{two}");
        for address in [one, two] {
            put(address, "mail", address);
        }
        let buried = bsctl(&both, &["bury-all", "-t", "mail", "--yes"]).exits(0);
        bsctl(&both, &["requeue", "mail", "--yes"]).exits(0);
        for address in [one, two] {
            assert_eq!(buried.err.matches(address).count(), 1, "{}", buried.err);
            let tube = client(address).stats_tube("mail").unwrap().unwrap();
            assert_eq!((tube.current_jobs_buried, tube.current_jobs_ready), (0, 1));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mail.ndjson");
        let to = file.to_str().unwrap();
        bsctl(&both, &["drain", "mail", "--yes", "--to", to]).exits(0);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        for address in [one, two] {
            assert!(text.contains(&format!("\"body\":\"{address}\"")), "{text}");
            assert_eq!(client(address).stats().unwrap().current_jobs_ready, 0);
        }
    });
}

#[test]
fn spreads_puts_over_several_servers() {
    on_two(|one, two| {
        let both = format!("{one},{two}");
        let lines: String = (0..500).map(|n| format!("{n}\n")).collect();
        let line = ["put", "-t", "mail", "--lines", "--batch", "10", "-o", "ndjson"];
        let ran = bsctl_with(&both, &line, lines.as_bytes()).exits(0);
        let count = |address: &str| {
            let told = ran.out().matches(address).count() as u64;
            assert_eq!(client(address).stats().unwrap().current_jobs_ready, told);
            told
        };
        assert_eq!(count(one) + count(two), 500);
        let dead = dead_address();
        let ran =
            bsctl(&format!("{dead},{one}"), &["put", "-t", "mail", "x", "-o", "json"]).exits(0);
        assert_eq!(ran.json()[0]["server"], one);
        assert!(ran.says("warning: ") && ran.err.contains(&dead), "{}", ran.err);
        // The format does not depend on which server happens to be down.
        let some = format!("{dead},{one}");
        let ran = bsctl(&some, &["put", "-t", "mail", "x"]).exits(0);
        assert!(ran.out().starts_with(&format!("{one}\t")), "{}", ran.out());
        let ran = bsctl(&some, &["put", "-t", "mail", "x", "-o", "name"]).exits(0);
        assert!(ran.out().starts_with(&format!("{one}//")), "{}", ran.out());
        bsctl(&format!("{dead},{}", dead_address()), &["put", "x"]).exits(69);
    });
}

#[test]
fn a_worker_serves_every_server() {
    on_two(|one, two| {
        let both = format!("{one},{},{two}", dead_address());
        for address in [one, two] {
            // Equal ids on both.
            put(address, "mail", address);
            put(address, "mail", "bad");
        }
        let script = "read -r body; [ \"$body\" != bad ]";
        let line = ["work", "-t", "mail", "-c", "4", "--max-releases", "0", "-o", "ndjson"];
        let ran = bsctl(&both, &[&line[..], &["--exec", "sh", "-c", script]].concat()).exits(0);
        for address in [one, two] {
            assert_eq!(ran.out().matches(address).count(), 2, "{}", ran.out());
            assert!(ran.err.contains(&format!("of mail at {address}")), "{}", ran.err);
            let stats = client(address).stats().unwrap();
            assert_eq!((stats.current_jobs_ready, stats.current_jobs_buried), (0, 1));
        }
    });
}
