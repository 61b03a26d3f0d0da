//! `check`: verdicts, thresholds, exit codes.

use std::io::Read;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use fixtures::gearmand::Server;

use crate::harness::*;

#[test]
fn check_judges_functions_by_thresholds_and_workers() {
    on_both(|server| {
        let address = server.address();
        let check = |line: &[&str]| gearctl(address, &[&["check"], line].concat());
        let ok = check(&["server"]).exits(0);
        assert!(ok.out().starts_with("GEARCTL OK - server: queued 0"), "{}", ok.out());
        // A function exists only while it has jobs or workers.
        let ok = check(&["function", "f", "-c", "queued=10"]).exits(0);
        let line = "GEARCTL OK - f: there is no function f, queued 0, running 0, workers 0";
        assert!(ok.out().starts_with(line), "{}", ok.out());
        check(&["function", "f", "-c", "workers=1:"]).exits(2);
        check(&["function", "f", "--must-exist"]).exits(2);
        check(&["functions", "f*", "--must-exist"]).exits(2);
        queue(address, "f", b"x");
        let lonely = check(&["function", "f"]).exits(2);
        assert!(
            lonely.out().contains("queued jobs but no workers")
                && lonely.out().contains("'f_queued'=1;;;0;")
        );
        check(&["function", "f", "-w", "workers=1:", "-c", "workers=0:"]).exits(1);
        let ok = ["function", "f", "-c", "workers=0:"];
        check(&ok).exits(0);
        check(&[&ok[..], &["-w", "queued=0"]].concat()).exits(1);
        check(&[&ok[..], &["-w", "queued=0", "-c", "queued=@1:5"]].concat()).exits(2);
        check(&[&ok[..], &["-w", "nonsense=0"]].concat()).exits(3);
        check(&["functions", "f*", "!f"]).exits(0);
        let lonely = check(&["server"]).exits(2);
        assert!(lonely.out().contains("queued jobs but no workers"), "{}", lonely.out());
        check(&["server", "-c", "workers=0:"]).exits(0);
        let json = check(&["functions", "*", "-o", "json"]).exits(2).json();
        assert_eq!(
            (&json["status"], &json["metrics"][0]["queue"]),
            (&"CRITICAL".into(), &"f".into())
        );
    });
}

#[test]
fn check_roundtrip_distinguishes_server_and_worker() {
    on_both(|server| {
        let address = server.address();
        let line = ["-s", address, "work", "-f", "up", "--shell", "tr a-z A-Z"];
        let worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "up", 1);
        let check = |line: &[&str]| gearctl(address, &[&["check", "roundtrip"], line].concat());
        // The usual time of 2 s is little on a busy machine.
        let patient = |line: &[&str]| check(&[line, &["--timeout", "60"]].concat());
        patient(&[]).exits(0);
        patient(&["up", "--send", "x", "--expect", "X"]).exits(0);
        let other = patient(&["up", "--send", "x", "--expect", "x"]).exits(2);
        assert!(other.out().contains("UNEXPECTED_RESULT: worker roundtrip"), "{}", other.out());
        assert!(other.out().contains("result: X"), "{}", other.out());
        patient(&["up", "--send", "worker=5 jobs=7", "--expect", "*JOBS=?"]).exits(0);
        let verdict = patient(&["up", "--send", "1:late|age=5;1;9\x1b\nmore"]).exits(1);
        let said = verdict.out();
        assert!(said.starts_with("GEARCTL WARNING - up: LATE, rtt "), "{said}");
        assert!(said.ends_with(" AGE=5;1;9\\x1b\n") && said.contains("| 'up_rtt'="), "{said}");
        patient(&["up", "--send", "0:fine", "-c", "rtt=@0:60000"]).exits(2);
        drop(worker);
        workers(address, "up", 0);
        // However often it fails, it leaves one job, which a worker removes.
        let in_time = |limit: &str| check(&["up", "--timeout", limit]);
        late("TIMEOUT: worker roundtrip", in_time).exits(2);
        eventually("the loss of the client", || {
            let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
            jobs[0]["ignored"].as_bool().filter(|ignored| *ignored)
        });
        late("TIMEOUT: worker roundtrip: the job of an earlier", in_time).exits(2);
        assert_eq!(queued(address, "up"), 1);
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "up", 1);
        eventually("a worker that has asked", || (queued(address, "up") == 0).then_some(()));
        patient(&["up", "--send", "x", "--expect", "X"]).exits(0);
    });
    let server = Server::start().unwrap();
    let line = ["check", "roundtrip", "up", "--timeout", "1"];
    gearctl(server.address(), &line).exits(2);
    gearctl(server.address(), &[&line[..], &["--on-timeout", "unknown"]].concat()).exits(3);
}

#[test]
fn check_reports_priorities_on_request() {
    let server = Server::start().unwrap();
    let run = |words: &[&str]| gearctl(server.address(), words);
    run(&["submit", "mail", "x", "--priority", "high"]).exits(0);
    run(&["submit", "mail", "y"]).exits(0);
    for what in [&["server"][..], &["function", "mail"], &["functions", "m*"]] {
        let check = |threshold: &str| {
            run(&[&["check"], what, &["-c", "workers=0:", "-c", threshold]].concat())
        };
        assert!(check("queued-high=0").exits(2).out().contains("queued-high"), "{what:?}");
        check("queued-high=1").exits(0);
        check("queued-low=0").exits(0);
    }
    assert!(!run(&["check", "server"]).out().contains("queued-high"));
}

/// A server that answers nothing before it was asked both questions: a check that waits for one answer first waits in
/// vain.
#[test]
fn check_queries_a_silent_server_concurrently() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new((Mutex::new([false; 2]), Condvar::new()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, asked) = (stream.unwrap(), Arc::clone(&asked));
            thread::spawn(move || {
                let mut start = [0; 6];
                let _ = stream.read_exact(&mut start);
                let (seen, news) = &*asked;
                let mut seen = seen.lock().unwrap();
                seen[0] |= start.starts_with(b"\0REQ");
                seen[1] |= start == *b"status";
                news.notify_all();
                drop(news.wait_while(seen, |seen| seen.contains(&false)).unwrap());
            });
        }
    });
    let verdict = gearctl(&address, &["check", "server", "--timeout", "20s"]).exits(2);
    assert!(!verdict.out().contains("TIMEOUT"), "{}", verdict.out());
    assert!(verdict.out().contains("server ping"), "{}", verdict.out());
}
