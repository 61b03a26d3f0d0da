//! `move`, `copy`, `requeue`, `retry`, `bury-all`, and the filters and pace of bulk commands.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use beanstalk_client::{JobStats, PutOptions};
use fixtures::beanstalkd::{Server, Version};
use fixtures::fault::Fault;

use crate::harness::*;

/// A job in each state that can be moved, and a reserved one.
fn of_every_state(address: &str) -> beanstalk_client::blocking::Client {
    put(address, "a", "held");
    let mut holder = client(address);
    holder.watch("a").unwrap();
    holder.reserve().unwrap().job().unwrap();
    let options = PutOptions::default().priority(7u32).ttr(Duration::from_secs(9));
    put_with(address, "a", "r1", options);
    put(address, "a", "r2");
    put_delayed(address, "a", "d");
    put_buried(address, "a", "b");
    holder
}

#[test]
fn move_keeps_job_properties_and_skips_reserved_jobs() {
    on_both(|address| {
        let _holder = of_every_state(address);
        let line = ["move", "--from", "a", "--to", "b", "-o", "json"];
        let ran = bsctl(address, &line).exits(2);
        assert!(
            ran.err.contains("move 4 jobs (2 ready, 1 delayed, 1 buried) from tube a"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("to tube b"), "{}", ran.err);
        let dry = bsctl(address, &[&line[..], &["--dry-run"]].concat()).exits(0).json();
        assert_eq!(dry["jobs"], 4);
        let ran = bsctl(address, &[&line[..], &["--yes"]].concat()).exits(0);
        assert_eq!((&ran.json()["succeeded"], &ran.json()["attempted"]), (&4.into(), &4.into()));
        assert!(ran.err.contains("1 reserved job stays with its worker"), "{}", ran.err);
        assert_eq!(
            places(address),
            ["b b buried", "d b delayed", "held a reserved", "r1 b ready", "r2 b ready"]
        );
        let jobs: BTreeMap<_, _> = all(address).into_iter().collect();
        assert_eq!((jobs["r1"].pri.get(), jobs["r1"].ttr), (7, 9));
        assert_eq!((jobs["b"].pri.get(), jobs["b"].kicks), (1024, 0));
        assert!((3000..=3600).contains(&jobs["d"].time_left), "{:?}", jobs["d"]);
    });
}

/// `put --ndjson` reads the delay of a record, so a delay of the tool's own would keep such a job away.
#[test]
fn moved_buried_jobs_keep_their_delay_and_stay_hidden() {
    on_both(|address| {
        put_buried(address, "a", "x");
        let address_of_worker = address.to_owned();
        let worker = thread::spawn(move || {
            let mut worker = client(&address_of_worker);
            worker.watch("b").unwrap();
            worker.reserve().unwrap().job().unwrap().body.to_vec()
        });
        let tube = || client(address).stats_tube("b").unwrap();
        while tube().is_none_or(|tube| tube.current_waiting != 1) {
            thread::yield_now();
        }
        bsctl(address, &["copy", "--from", "a", "--to", "b"]).exits(0);
        bsctl(address, &["move", "--from", "a", "--to", "b", "--yes"]).exits(0);
        let copies = all(address);
        assert!(copies.iter().all(|(_, copy)| copy.state.as_str() == "buried"), "{copies:?}");
        let delays: Vec<_> = copies.iter().map(|(_, copy)| copy.delay).collect();
        assert_eq!((delays, tube().unwrap().pause_time_left), (vec![3600, 3600], 0));
        put(address, "b", "work");
        assert_eq!(worker.join().unwrap(), b"work");
    });
}

#[test]
fn move_to_another_server_with_other_options() {
    on_both(|address| {
        let target = Server::start().unwrap();
        let _holder = of_every_state(address);
        let to = target.address();
        let line = [
            "move",
            "--from",
            "a",
            "--to-server",
            to,
            "--delay",
            "0",
            "--pri",
            "3",
            "--ttr",
            "5m",
            "--yes",
        ];
        bsctl(address, &line).exits(0);
        assert_eq!(places(address), ["held a reserved"]);
        assert_eq!(places(to), ["b a ready", "d a ready", "r1 a ready", "r2 a ready"]);
        assert!(all(to).iter().all(|(_, stats)| (stats.pri.get(), stats.ttr) == (3, 300)));
    });
}

#[test]
fn jobs_keep_their_order() {
    on_both(|address| {
        fill(address, "a", 100, false);
        bsctl(address, &["move", "--from", "a", "--to", "b", "--yes", "--batch", "30"]).exits(0);
        let order = bsctl(address, &["pop", "-t", "b", "-c", "100", "-o", "raw"]).exits(0);
        let expected: String = (0..100).map(|n| format!("body {n}")).collect();
        assert_eq!(order.out(), expected);
    });
}

#[test]
fn filters_select_jobs_for_bulk_commands() {
    on_both(|address| {
        for (body, pri) in [("keep", 5u32), ("x1", 50), ("x2", 500), ("x3", 5000)] {
            put_with(address, "a", body, PutOptions::default().priority(pri));
        }
        put_buried(address, "a", "x4");
        put_buried(address, "a", "old");
        let line =
            ["move", "--from", "a", "--to", "b", "--filter", "body~=^x", "--filter", "pri<=1024"];
        let ran = bsctl(address, &line).exits(2);
        assert!(
            ran.err.contains("3 jobs from tube a matching 'body~=^x' and 'pri<=1024'"),
            "{}",
            ran.err
        );
        bsctl(address, &[&line[..], &["--yes"]].concat()).exits(0);
        assert_eq!(
            places(address),
            [
                "keep a ready",
                "old a buried",
                "x1 b ready",
                "x2 b ready",
                "x3 a ready",
                "x4 b buried"
            ]
        );
        let untouched = &all(address)[0].1;
        assert_eq!((untouched.reserves, untouched.releases), (0, 0), "others are left alone");
        let drained = bsctl(address, &["drain", "b", "--filter", "pri<100", "--yes"]).exits(0);
        assert_eq!(drained.lines().len(), 1);
        assert!(drained.out().contains("\"x1\""), "{}", drained.out());
        bsctl(address, &["clear", "b", "--filter", "state==ready", "--yes"]).exits(0);
        bsctl(address, &["clear", "a", "--filter", "age>1h", "--yes"]).exits(0);
        bsctl(address, &["bury-all", "-t", "a", "--filter", "body==keep", "--yes"]).exits(0);
        bsctl(address, &["kick", "b", "--all", "--filter", "buries>0"]).exits(0);
        bsctl(address, &["retry", "a", "--filter", "body==old"]).exits(0);
        bsctl(address, &["retry", "nowhere", "--filter", "body==old"]).exits(1);
        assert_eq!(places(address), ["keep a buried", "old a ready", "x3 a ready", "x4 b ready"]);
        let all = bsctl(address, &["export", "--state", "ready", "--filter", "tube==a"]).exits(0);
        assert_eq!(all.lines().len(), 2);
        bsctl(address, &["clear", "a", "--until-empty", "--filter", "pri<1", "--yes"]).exits(2);
    });
}

#[test]
fn copy_leaves_the_source_unchanged() {
    on_both(|address| {
        let _holder = of_every_state(address);
        let before = all(address);
        let report =
            bsctl(address, &["copy", "--from", "a", "--to", "b", "-o", "json"]).exits(0).json();
        assert_eq!(report["succeeded"], 4);
        let (copies, originals): (Vec<_>, Vec<_>) =
            all(address).into_iter().partition(|(_, stats)| stats.tube == "b");
        let counters = |jobs: &[(String, JobStats)]| -> Vec<_> {
            jobs.iter()
                .map(|(body, s)| (body.clone(), s.state.to_string(), s.reserves, s.kicks))
                .collect()
        };
        assert_eq!(counters(&originals), counters(&before));
        let states: Vec<_> = copies.iter().map(|(body, s)| format!("{body} {}", s.state)).collect();
        assert_eq!(states, ["b buried", "d delayed", "r1 ready", "r2 ready"]);
        let ran = bsctl(address, &["copy", "--from", "a", "--to", "a"]).exits(2);
        assert!(ran.err.contains("the same tube"), "{}", ran.err);
    });
}

#[test]
fn requeue_recreates_each_job_once() {
    on_both(|address| {
        let old = put_buried(address, "a", "b");
        put_buried(address, "a", "c");
        let waiting = put_delayed(address, "a", "d");
        bsctl(address, &["requeue", "a", "--yes"]).exits(0);
        assert_eq!(state(address, old), "gone");
        assert_eq!(places(address), ["b a ready", "c a ready", "d a delayed"]);
        let line =
            ["move", "--from", "a", "--to", "a", "--state", "ready,delayed", "--pri", "1", "--yes"];
        let report = bsctl(address, &[&line[..], &["-o", "json"]].concat()).exits(0).json();
        assert_eq!(report["succeeded"], 3);
        assert_eq!(state(address, waiting), "gone");
        assert_eq!(places(address), ["b a ready", "c a ready", "d a ready"]);
        assert!(all(address).iter().all(|(_, stats)| stats.pri.get() == 1));
        bsctl(address, &[&line[..], &["--until-empty"]].concat()).exits(2);
        bsctl(address, &["requeue", "a", "--state", "ready", "--yes"]).exits(2);
        bsctl(address, &["requeue", "-n", "--pri", "5", "a"]).exits(0);
        bsctl(address, &["requeue", "--yes"]).exits(2);
    });
}

#[test]
fn bury_all_then_retry_restores_jobs() {
    on_both(|address| {
        for n in 0..5u32 {
            put_with(address, "a", n.to_string(), PutOptions::default().priority(n));
        }
        // A tube that is named twice is counted once.
        let ran = bsctl(address, &["bury-all", "-t", "a", "-t", "a", "-c", "4"]).exits(2);
        assert!(ran.err.contains("bury 4 of 5 jobs (5 ready) from tube a"), "{}", ran.err);
        bsctl(address, &["bury-all", "-t", "a", "--yes", "-c", "4"]).exits(0);
        let states: Vec<_> =
            all(address).iter().map(|(_, s)| (s.state.to_string(), s.pri.get())).collect();
        let buried = |pri| ("buried".to_owned(), pri);
        assert_eq!(states, [buried(0), buried(1), buried(2), buried(3), ("ready".to_owned(), 4)]);
        bsctl(address, &["retry", "a"]).exits(0);
        assert!(all(address).iter().all(|(_, s)| s.state.as_str() == "ready"));
        bsctl(address, &["pause", "a", "1h"]).exits(0);
        bsctl(address, &["bury-all", "-t", "a", "--yes"]).exits(0);
        assert!(
            all(address).iter().all(|(_, s)| s.state.as_str() == "buried"),
            "also while paused"
        );
    });
}

#[test]
fn a_job_taken_during_a_move_is_not_duplicated() {
    let server = Server::start().unwrap();
    let address = server.address();
    put_buried(address, "a", "x");
    server.faults().add(Fault::nth(1).of("delete").reply("NOT_FOUND"));
    let report = bsctl(address, &["move", "--from", "a", "--to", "b", "--yes", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!((&report["succeeded"], &report["skipped"]), (&0.into(), &1.into()));
    assert_eq!(places(address), ["x a buried"], "its copy was taken back");
}

#[test]
fn recognizes_the_same_server_by_another_name() {
    on_both(|address| {
        put(address, "a", "x");
        let alias = format!("localhost:{}", address.rsplit(':').next().unwrap());
        let ran = bsctl(address, &["move", "--from", "a", "--to-server", &alias, "--yes"]).exits(2);
        assert!(ran.err.contains("source and target are the same tube: a"), "{}", ran.err);
        let line = ["move", "--from", "a", "--to", "b", "--to-server", &alias, "--yes", "-v"];
        bsctl(address, &line).exits(0);
        assert_eq!(bsctl(address, &["pop", "-t", "b", "-o", "raw"]).exits(0).out(), "x");
    });
}

#[test]
fn a_lost_connection_names_possible_duplicates() {
    let (server, target) = (Server::start().unwrap(), Server::start().unwrap());
    let (address, to) = (server.address(), target.address());
    let ids: Vec<_> = (0..5).map(|n| put(address, "a", n.to_string())).collect();
    // The third put arrives, but its answer does not.
    target.faults().add(Fault::nth(3).of("put").cut_after(0));
    let line = ["move", "--from", "a", "--to-server", to, "--yes", "-o", "json"];
    let ran = bsctl(address, &line).exits(4);
    let message = ran.error_alone()["message"].to_string();
    let named = format!("job {} may now exist both", ids[2]);
    assert!(message.contains(&named) || message.contains(&format!("jobs {}", ids[2])), "{message}");
    let everything: Vec<String> = [places(address), places(to)].concat();
    for n in 0..5 {
        assert!(everything.iter().any(|place| place.starts_with(&n.to_string())), "{everything:?}");
    }
    // Running the same command again moves the rest.
    bsctl(address, &["move", "--from", "a", "--to-server", to, "--yes"]).exits(0);
    assert!(places(address).is_empty());
    let bodies: std::collections::BTreeSet<_> = all(to).into_iter().map(|(body, _)| body).collect();
    assert_eq!(bodies.len(), 5);
}

#[test]
fn jobs_the_target_refuses_stay() {
    let (server, target) = (Server::start().unwrap(), Server::start().unwrap());
    let (address, to) = (server.address(), target.address());
    for n in 0..3 {
        put(address, "a", n.to_string());
    }
    target.faults().add(Fault::nth(2).of("put").reply("DRAINING"));
    let line = ["move", "--from", "a", "--to-server", to, "--yes"];
    bsctl(address, &line).exits(3);
    assert_eq!(
        (places(address), places(to)),
        (vec!["1 a ready".into()], vec!["0 a ready".into(), "2 a ready".into()])
    );
    let old = Server::builder().version(Version::V1_11).start().unwrap();
    put_buried(address, "b", "x");
    let ran =
        bsctl(address, &["move", "--from", "b", "--to-server", old.address(), "--yes"]).exits(76);
    assert!(ran.err.contains("-d 0"), "{}", ran.err);
    bsctl(address, &["move", "--from", "b", "--to-server", old.address(), "--yes", "-d", "0"])
        .exits(0);
    assert_eq!(places(old.address()), ["x b ready"]);
    let ran =
        bsctl(address, &["move", "--from", "a", "--to-server", &dead_address(), "--yes"]).exits(69);
    assert!(ran.err.contains("127.0.0.1"), "{}", ran.err);
    assert_eq!(places(address), ["1 a ready"]);
}

/// Only the head of a list of delayed or buried jobs is shown by the server.
#[test]
fn an_unmovable_job_does_not_block_others() {
    for put in [put_buried, put_delayed] {
        let source = Server::start().unwrap();
        let target = Server::builder().max_job_size(10).start().unwrap();
        for body in ["larger than the target takes", "0", "1", "2", "3", "4"] {
            put(source.address(), "a", body);
        }
        let line = ["move", "--from", "a", "--to-server", target.address(), "--yes", "-o", "json"];
        let report = bsctl(source.address(), &line).exits(3).json();
        assert_eq!((&report["succeeded"], &report["failed"]), (&5.into(), &1.into()), "{report}");
        assert_eq!((all(source.address()).len(), all(target.address()).len()), (1, 5));
    }
}

/// It would come back to the head of its tube when its time expires, and take the place of another one each time.
#[test]
fn tries_an_unmovable_job_once() {
    let source = Server::start().unwrap();
    let target = Server::builder().max_job_size(10).start().unwrap();
    let short = PutOptions::default().ttr(Duration::from_secs(2));
    put_with(source.address(), "a", "larger than the target takes", short);
    for n in 0..30 {
        put_with(source.address(), "a", n.to_string(), short);
    }
    let to = ["--to-server", target.address(), "--rate", "12/s", "--yes", "-o", "json"];
    let report =
        bsctl(source.address(), &[&["move", "--from", "a"], &to[..]].concat()).exits(3).json();
    assert_eq!((&report["succeeded"], &report["failed"]), (&30.into(), &1.into()), "{report}");
    assert_eq!(all(source.address()).len(), 1);
}

/// Killed in the middle, every job is at its source or at its target.
#[cfg(unix)]
#[test]
fn a_killed_move_loses_nothing() {
    on_both(|address| {
        const JOBS: usize = 600;
        fill(address, "a", JOBS, false);
        let target = Server::start().unwrap();
        let line = [
            "-a",
            address,
            "move",
            "--from",
            "a",
            "--to-server",
            target.address(),
            "--yes",
            "--batch",
            "7",
        ];
        let mut child = command(&line).spawn().unwrap();
        // Some have arrived, and many have not.
        assert!(target.wait_for(Duration::from_secs(60), |view| view.jobs >= 50));
        child.kill().unwrap();
        child.wait().unwrap();
        // The server gives back what the killed process held, once it notices that it has gone.
        eventually("the reserved jobs", || {
            (client(address).stats().unwrap().current_jobs_reserved == 0).then_some(())
        });
        let mut bodies: Vec<String> = [all(address), all(target.address())]
            .concat()
            .into_iter()
            .map(|(body, _)| body)
            .collect();
        bodies.sort_unstable();
        let doubled = bodies.len();
        bodies.dedup();
        assert_eq!(bodies.len(), JOBS, "none is lost");
        assert!(doubled - JOBS <= 7, "at most a batch is there twice: {}", doubled - JOBS);
    });
}

#[test]
fn honours_the_rate_limit() {
    let server = Server::start().unwrap();
    let address = server.address();
    let took = |line: &str| {
        let start = Instant::now();
        bsctl(address, &line.split(' ').collect::<Vec<_>>()).exits(0);
        start.elapsed()
    };
    // Four jobs have three pauses of a tenth of a second between them, however fast the machine.
    let least = Duration::from_millis(300);
    assert!(took("put -t a x --repeat 4 --batch 1 --rate 10/s") >= least);
    assert!(took("move --from a --to b --yes --rate 600/m") >= least);
    assert!(took("clear b --yes --rate 10") >= least);
}

/// The target is lost while the copies are being buried.
#[test]
fn names_copies_left_unburied_by_a_lost_connection() {
    for (verb, nth) in [("reserve-job", 2), ("reserve-job", 3), ("bury", 2)] {
        let (source, target) = (Server::start().unwrap(), Server::start().unwrap());
        for body in ["x", "y", "z"] {
            put_buried(source.address(), "a", body);
        }
        target.faults().add(Fault::nth(nth).of(verb).cut_after(0));
        let line = ["copy", "--from", "a", "--to-server", target.address()];
        let ran = bsctl(source.address(), &line).exits(4);
        let named =
            ran.err.split_once("(job").unwrap().1.split_once(" may now exist both").unwrap().0;
        let copied = ran.err.split_once("before that: copied ").unwrap().1;
        let copied: usize = copied.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(copied + named.split(", ").count(), 3, "{verb} {nth}: {}", ran.err);
        assert!(!ran.err.contains("failed in"), "{verb} {nth}: {}", ran.err);
        let ready = places(target.address()).iter().filter(|place| *place != "x a buried").count();
        assert!(ready <= named.split(", ").count(), "{verb} {nth}: {}", ran.err);
    }
}
