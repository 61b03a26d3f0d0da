//! Several servers, one of which may be dead.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fixtures::{Dark, fault::Fault, gearmand::Server};
use serde_json::json;

use crate::harness::*;

/// Two servers, a dead one before them, and the list of all.
struct Fleet {
    dead: String,
    one: Server,
    two: Server,
}

impl Fleet {
    fn start() -> Self {
        let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
        Self { dead: dead_address(), one, two }
    }

    fn alive(&self) -> String {
        format!("{},{}", self.one.address(), self.two.address())
    }

    fn all(&self) -> String {
        format!("{},{}", self.dead, self.alive())
    }
}

/// It was asked again and again whether it answers, with growing delays, before anything was submitted to the other.
#[test]
fn does_not_wait_for_an_absent_server_at_startup() {
    let (server, listener) = (Server::start().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let away = listener.local_addr().unwrap().to_string();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    thread::spawn(move || {
        // Each ends at once.
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    for both in [format!("{away},{}", server.address()), format!("{},{away}", server.address())] {
        attempts.store(0, Ordering::SeqCst);
        let ran = gearctl(&both, &["submit", "mail", "x"]).exits(0);
        assert!(ran.err.contains("no job goes there"), "{}", ran.err);
        let attempts = attempts.load(Ordering::SeqCst);
        assert!(attempts <= 4, "{attempts} connections");
    }
}

/// A host that is switched off answers nothing, for as long as a command would wait for its connection.
#[test]
fn does_not_wait_for_an_unresponsive_server_beside_another() {
    let (server, dark) = (Server::start().unwrap(), Dark::start().unwrap());
    let dark = dark.address();
    for both in [format!("{dark},{}", server.address()), format!("{},{dark}", server.address())] {
        gearctl(&both, &["submit", "mail", "x"]).exits(0);
    }
    assert_eq!(server.view().jobs, 2);
}

#[test]
fn listings_query_every_server() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    queue(one, "mail", b"x");
    queue(two, "mail", b"y");
    let expected = format!("{one}\tmail\t1\t1\t0\t0\n{two}\tmail\t1\t1\t0\t0\n");
    assert_eq!(gearctl(&fleet.alive(), &["functions"]).exits(0).out(), expected);
    let ran = gearctl(&fleet.all(), &["functions"]).exits(69);
    assert_eq!(ran.out(), expected);
    assert_eq!(ran.err.matches(&fleet.dead).count(), 1, "{}", ran.err);
    let rows = gearctl(&fleet.alive(), &["workers", "-o", "json"]).exits(0).json();
    assert!(rows.as_array().unwrap().iter().any(|row| row["server"] == two), "{rows}");
    let rows = gearctl(&fleet.all(), &["jobs", "-o", "json"]).exits(69).json();
    let servers: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["server"]).collect();
    assert_eq!(servers, [&json!(one), &json!(two)]);
    // With a single server, nothing changes.
    assert_eq!(gearctl(one, &["functions"]).exits(0).out(), "mail\t1\t1\t0\t0\n");
    let dead = format!("{},{}", fleet.dead, dead_address());
    assert_eq!(gearctl(&dead, &["functions", "-o", "json"]).exits(69).error_alone()["exit"], 69);
}

#[test]
fn check_reports_the_worst_server() {
    let fleet = Fleet::start();
    let check = |servers: &str, what: &[&str]| gearctl(servers, &[&["check"], what].concat());
    assert!(check(&fleet.alive(), &["server"]).exits(0).out().contains("2 servers fine"));
    let said = check(&fleet.all(), &["server", "-c", "queued=5"]).exits(2);
    assert!(said.out().contains(&fleet.dead), "{}", said.out());
    let figure = format!("'{}_queued'=0;", fleet.two.address());
    assert!(said.out().contains(&figure), "what came is reported, too: {}", said.out());
    queue(fleet.two.address(), "mail", b"x");
    let said = check(&fleet.alive(), &["function", "mail", "-c", "queued=0"]).exits(2);
    let subject = format!("mail on {} ", fleet.two.address());
    assert!(said.out().contains(&subject), "{}", said.out());
}

#[test]
fn ping_names_the_dead_server() {
    let fleet = Fleet::start();
    let ran = gearctl(&fleet.all(), &["ping", "-o", "json"]).exits(69);
    let rows = ran.json();
    assert_eq!(rows[0]["server"], fleet.dead.as_str());
    assert!(rows[0]["error"].is_string() && rows[0].get("duration_ms").is_none(), "{rows}");
    assert!(
        rows[2]["duration_ms"].is_number() && rows[2]["server"] == fleet.two.address(),
        "{rows}"
    );
    let summary = format!("{}: 0 of 1 answered", fleet.dead);
    assert!(ran.says(&summary), "{}", ran.err);
}

#[test]
fn finds_and_cancels_a_job_on_any_server() {
    let fleet = Fleet::start();
    // Only the second server knows the first one.
    queue(fleet.one.address(), "mail", b"x");
    queue(fleet.two.address(), "mail", b"y");
    let handle = queue(fleet.two.address(), "mail", b"z");
    let job = gearctl(&fleet.all(), &["job", &handle, "-o", "json"]).exits(0);
    assert_eq!(job.json()["server"], fleet.two.address());
    assert!(job.err.contains(&fleet.dead), "{}", job.err);
    gearctl(&fleet.all(), &["cancel", &handle]).exits(0);
    assert!(gearctl(&fleet.alive(), &["job", "H:none:1"]).exits(1).err.contains("no server knows"));
    // The dead one may have it.
    gearctl(&fleet.all(), &["job", "H:none:1"]).exits(69);
    gearctl(&fleet.all(), &["cancel", "H:none:1"]).exits(69);
    gearctl(&fleet.alive(), &["cancel", "H:none:1"]).exits(1);
}

#[test]
fn server_queries_all_servers() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    for what in ["server", "version", "pid", "verbose"] {
        let rows = gearctl(&fleet.all(), &[what, "-o", "json"]).exits(69).json();
        let servers: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["server"]).collect();
        assert_eq!(servers, [&json!(one), &json!(two)], "{what}");
        let key = if what == "server" { "version" } else { what };
        assert!(rows.as_array().unwrap().iter().all(|row| !row[key].is_null()), "{rows}");
    }
    queue(two, "mail", b"x");
    let rows = gearctl(&fleet.alive(), &["unique-jobs", "-o", "json"]).exits(0).json();
    assert_eq!(rows[0]["server"], two, "{rows}");
}

#[test]
fn changes_functions_on_every_server_that_has_them() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    let names =
        |address: &str| gearctl(address, &["functions", "-o", "name"]).exits(0).out().to_owned();
    let ran = gearctl(&fleet.all(), &["function", "create", "mail", "-o", "json"]).exits(69);
    assert_eq!(ran.json()["servers"], json!([one, two]));
    assert_eq!((names(one), names(two)), ("mail\n".into(), "mail\n".into()));
    gearctl(one, &["function", "create", "sms"]).exits(0);
    let ran = gearctl(&fleet.alive(), &["function", "drop", "sms", "-o", "json"]).exits(0);
    assert_eq!(ran.json()["servers"], json!([one]));
    let ran = gearctl(&fleet.alive(), &["function", "maxqueue", "sms", "5"]).exits(1);
    assert!(ran.err.contains("sms") && ran.err.contains("function create"), "{}", ran.err);
    // A server that must not is named, and the other one is updated.
    queue(two, "mail", b"x");
    let ran = gearctl(&fleet.alive(), &["function", "drop", "mail"]).exits(1);
    assert!(ran.err.contains(two) && ran.err.contains("1 job"), "{}", ran.err);
    assert_eq!((names(one), names(two)), ("".into(), "mail\n".into()));
}

#[test]
fn a_condition_sums_all_servers() {
    let fleet = Fleet::start();
    let wait = |limit: &str, servers: &str, what: &[&str]| {
        gearctl(servers, &[&["wait", "--timeout", limit, "-i", "1ms"], what].concat())
    };
    let (one, two) = (fleet.one.address(), fleet.two.address());
    wait("60s", &fleet.alive(), &["--for", "queued==0", "-f", "mail"]).exits(0);
    queue(two, "mail", b"x");
    let handle = gearctl(two, &["jobs", "-o", "id"]).exits(0);
    let done = format!("handle-done={}", handle.lines()[0]);
    // The first server alone would be empty.
    let in_vain = [
        (fleet.alive(), &["--for", "idle", "-f", "mail"][..], "total 1"),
        (fleet.all(), &["--for", "server"], ""),
        (fleet.alive(), &["--for", &done, "--assume-done"], ""),
    ];
    at_once(in_vain, |(servers, what, seen)| {
        late(seen, |limit| wait(limit, &servers, what)).exits(124);
    });
    queue(one, "mail", b"x");
    wait("60s", &fleet.alive(), &["--for", "queued==2", "-f", "mail"]).exits(0);
    wait("60s", &fleet.alive(), &["--for", "server"]).exits(0);
}

#[test]
fn single_server_commands_refuse_several() {
    let fleet = Fleet::start();
    for line in [
        &["raw", "version"][..],
        &["bench", "submit", "--count", "1"],
        &["move", "--from", "a", "--to", "b"],
    ] {
        let ran = gearctl(&fleet.alive(), line).exits(2);
        assert!(
            ran.err.contains("takes a single server, but 2 are given"),
            "{line:?}: {}",
            ran.err
        );
    }
}

#[test]
fn takes_jobs_from_every_server() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    let fill = || [(one, b"x"), (two, b"y")].map(|(server, body)| queue(server, "mail", body));
    fill();
    let bodies = |ran: Ran| {
        let rows = ran.objects();
        // A handle names a job of one server only.
        for row in &rows {
            assert_eq!(row["server"], if row["body"] == "x" { one } else { two }, "{row}");
        }
        rows.iter().map(|row| row["body"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let run = |line: &[&str], exit| gearctl(&fleet.all(), &[line, &["--yes"]].concat()).exits(exit);
    assert_eq!(bodies(run(&["peek", "mail", "-c", "5", "-o", "ndjson"], 69)), ["x", "y"]);
    assert_eq!(bodies(run(&["peek", "mail", "-o", "ndjson"], 69)), ["x"]);
    assert_eq!(bodies(run(&["export", "mail"], 69)), ["x", "y"]);
    let asked = gearctl(&fleet.alive(), &["drain", "mail"]).exits(2);
    let each = format!("1 job of mail at {one}, 1 job of mail at {two} without");
    assert!(asked.err.contains(&each), "{}", asked.err);
    let ran = run(&["drain", "mail", "--to", "-"], 69);
    assert_eq!(ran.err.matches(&fleet.dead).count(), 1, "{}", ran.err);
    assert_eq!(bodies(ran), ["x", "y"]);
    fill();
    gearctl(&fleet.alive(), &["drain", "mail", "-c", "1", "--yes"]).exits(0);
    let totals = gearctl(&fleet.alive(), &["functions", "mail", "--columns", "total"]).exits(0);
    assert_eq!(totals.out(), "0\n1\n");
}

/// A server that accepts connections, reads and never answers; and the bytes it has read.
fn silent_server() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap().to_string(), Arc::default());
    let read = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, read) = (stream.unwrap(), Arc::<Mutex<Vec<u8>>>::clone(&read));
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    read.lock().unwrap().extend_from_slice(&bytes[..count]);
                }
            });
        }
    });
    (address, seen)
}

/// It would queue the job once it resumes.
#[test]
fn submits_around_a_silent_server() {
    let (fleet, (silent, seen)) = (Fleet::start(), silent_server());
    let all = format!("{},{silent},{}", fleet.dead, fleet.one.address());
    let ran = gearctl(&all, &["submit", "mail", "x"]).exits(0);
    assert!(ran.out().starts_with(&format!("{}//H:", fleet.one.address())), "{}", ran.out());
    assert!(ran.err.contains(&format!("{silent} does not answer: no job")), "{}", ran.err);
    assert_eq!(ran.err.matches(&fleet.dead).count(), 1, "{}", ran.err);
    let worker = ["-s", fleet.one.address(), "work", "-f", "up", "--shell", "tr a-z A-Z"];
    let _worker = Running::of(command(&worker).spawn().unwrap());
    assert_eq!(gearctl(&all, &["run", "up", "x"]).exits(0).out(), "X");
    assert_eq!(gearctl_with(&all, &["map", "up", "-j", "2"], b"y\n").exits(0).out(), "Y\n");
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && !seen.windows(4).any(|bytes| bytes == b"mail"));
    assert!(!seen.windows(2).any(|bytes| bytes == b"up"));
}

/// The client chooses the server by the id of the job, and does not say which one it was.
#[test]
fn names_a_server_that_falls_silent_with_a_job() {
    let ran = late(" does not answer)", |limit| {
        let (server, other) = (Server::start().unwrap(), Server::start().unwrap());
        let faults = other.faults();
        faults.add(Fault::always().of("SUBMIT_JOB_BG").hang());
        let both = format!("{},{}", other.address(), server.address());
        let mut late = (0..32).map(|n| {
            faults.add(Fault::nth(2).of("GET_STATUS").hang());
            gearctl(&both, &["submit", "mail", "x", "-u", &n.to_string(), "--timeout", limit])
        });
        let ran = late.find(|ran| ran.code != Some(0)).unwrap();
        let named = format!("({} does not answer)", other.address());
        assert_eq!(ran.err.contains(" does not answer)"), ran.err.contains(&named), "{ran:?}");
        ran
    });
    ran.exits(4);
}

/// Servers on one host issue the same handles.
#[test]
fn a_qualified_handle_queries_only_its_server() {
    let fleet = Fleet::start();
    let (one, two) = (fleet.one.address(), fleet.two.address());
    let both = fleet.alive();
    let ignored = |address: &str| {
        let rows = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
        rows.as_array().unwrap().iter().filter(|row| row["ignored"] == true).count()
    };
    for round in 1..=2 {
        let handle = queue(one, "invoices", b"must run");
        assert_eq!(queue(two, "scratch", b"junk"), handle);
        let its = format!("{two}//{handle}");
        let job = gearctl(&both, &["job", &its, "-o", "json"]).exits(0).json();
        assert_eq!((&job["server"], &job["known"]), (&json!(two), &json!(true)), "{job}");
        assert_eq!(gearctl(one, &["job", &its, "-o", "json"]).exits(0).json(), job);
        for command in ["job", "cancel"] {
            let refused = gearctl(&both, &[command, &handle]).exits(2);
            for server in [one, two] {
                assert!(refused.err.contains(&format!("{server}//{handle}")), "{}", refused.err);
            }
        }
        // The second time, from a list without that server.
        gearctl(if round == 1 { &both } else { one }, &["cancel", &its]).exits(0);
        assert_eq!((ignored(one), ignored(two)), (0, round));
    }
    let last = queue(one, "invoices", b"must run");
    let gone = format!("handle-done={two}//{last}");
    gearctl(&both, &["wait", "--for", &gone, "--assume-done"]).exits(0);
    gearctl(one, &["wait", "--for", &gone, "--assume-done"]).exits(0);
    gearctl(two, &["job", &format!("{one}//{last}")]).exits(0);
    gearctl(two, &["cancel", &format!("{}//{last}", fleet.dead)]).exits(69);
    let localhost = one.replace("127.0.0.1", "localhost");
    gearctl(&localhost, &["cancel", &format!("{one}//{last}")]).exits(0);
}

#[test]
fn qualifies_handles_with_several_servers() {
    let fleet = Fleet::start();
    let both = fleet.alive();
    let submitted = gearctl(&both, &["submit", "mail", "x", "y", "z"]).exits(0);
    let mut submitted = submitted.lines().to_vec();
    submitted.sort_unstable();
    assert!(submitted.iter().all(|line| line.contains("//H:")), "{submitted:?}");
    let listed = gearctl(&both, &["jobs", "-o", "id"]).exits(0);
    let mut all = listed.lines().to_vec();
    all.sort_unstable();
    assert_eq!(all, submitted);
    gearctl_with(&both, &["cancel", "-"], &listed.bytes).exits(0);
}

/// Two servers, neither of which answers before the other has been asked: a wait that asks them in turn waits for the
/// first in vain.
#[test]
fn wait_queries_servers_concurrently() {
    const GET_STATUS: u8 = 15;
    const OPTION_REQ: u8 = 26;
    let both_asked = Arc::new(Barrier::new(2));
    let addresses = [0, 1].map(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, both_asked) = (listener.local_addr().unwrap(), both_asked.clone());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut packet = [0; 12];
            while stream.read_exact(&mut packet).is_ok() {
                let length = u32::from_be_bytes(packet[8..].try_into().unwrap());
                let mut data = vec![0; usize::try_from(length).unwrap()];
                stream.read_exact(&mut data).unwrap();
                let (number, answer) = match packet[7] {
                    OPTION_REQ => (27, data),
                    GET_STATUS => (20, [&*data, b"\x000\x000\x000\x000"].concat()),
                    other => panic!("request {other}"),
                };
                if packet[7] == GET_STATUS {
                    both_asked.wait();
                }
                let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
                let head = [b'\0', b'R', b'E', b'S', 0, 0, 0, number];
                stream.write_all(&[&head[..], &length, &answer].concat()).unwrap();
            }
        });
        address.to_string()
    });
    gearctl(&addresses.join(","), &["wait", "--for", "server", "--timeout", "1m"]).exits(0);
}

/// The other one has the job, and finding it is a part of the job's time: a run that had all of it from then on would
/// last longer than both.
#[test]
fn does_not_blame_a_server_without_the_job() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let frozen = listener.local_addr().unwrap().to_string();
    // On a busy machine, a short limit is over too early, or noticed too late.
    let mut limits = [2, 8, 30].into_iter();
    let (limit, address, late) = limits
        .find_map(|limit| {
            let server = Server::start().unwrap();
            let (time, address) = (Duration::from_secs(limit), server.address().to_owned());
            // The other one is given a second more than this answer takes.
            server.faults().add(Fault::nth(1).of("GET_STATUS").delay(time / 4));
            let (all, start) = (format!("{frozen},{address}"), Instant::now());
            let late = gearctl(&all, &["run", "f", "x", "--timeout", &format!("{limit}s")]);
            let is_in_time = start.elapsed() < time / 4 + Duration::from_secs(1) + time;
            let said = format!("error: TIMEOUT: {address}: the job did not end");
            (is_in_time && late.err.contains(&said)).then_some((limit, address, late))
        })
        .expect("finding the server is no part of the limit");
    let late = late.exits(124);
    assert!(late.err.contains("no job goes there"), "{}", late.err);
    let error = late.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains(&address) && !error.contains(&frozen), "{error}");
    assert!(error.contains(&format!("within its timeout of {limit}s")), "{error}");
}
