//! Inspecting a server, and changing it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use fixtures::fault::Fault;
use fixtures::gearmand::Server;
use serde_json::json;

use crate::harness::*;

#[test]
fn describes_the_server() {
    on_both_with_tools(|server| {
        let address = server.address();
        let pings = gearctl(address, &["ping", "-c", "2", "-i", "0", "-o", "json"]).exits(0).json();
        assert_eq!(pings.as_array().unwrap().len(), 2);
        assert_eq!(pings[1]["n"], 2);
        assert_eq!(pings[1]["packet"], "ECHO_REQ");
        let version = gearctl(address, &["version"]).exits(0);
        assert!(version.out().starts_with(|c: char| c.is_ascii_digit()), "{}", version.out());
        let tool = fed(server.tool("gearadmin", &["--server-version"]), b"").exits(0);
        assert!(tool.out().contains(version.out().trim()), "{}", tool.out());
        let pid = gearctl(address, &["pid", "-o", "json"]).exits(0).json()["pid"].as_u64().unwrap();
        let tool = fed(server.tool("gearadmin", &["--getpid"]), b"").exits(0);
        assert!(tool.out().contains(&pid.to_string()), "{}", tool.out());
        assert_eq!(
            gearctl(address, &["verbose", "-o", "json"]).exits(0).json()["verbose"],
            "ERROR"
        );
        queue(address, "f", b"x");
        let all = gearctl(address, &["server", "-o", "json"]).exits(0).json();
        assert_eq!(all["pid"], pid);
        assert_eq!(all["server"], address);
        assert_eq!((&all["queued"], &all["functions"]), (&json!(1), &json!(1)));
        assert_eq!((&all["show_jobs"], &all["prioritystatus"]), (&json!(true), &json!(true)));
    });
}

#[test]
fn warns_about_a_server_slowed_by_many_queued_ids() {
    let warns = |ids: usize, line: &[&str]| {
        let server = Server::start().unwrap();
        // Jobs without ids cost nothing.
        let listed = ["H:x:1\tid\n".repeat(ids), "H:x:2\t\n".repeat(1000)].concat();
        server.faults().add(Fault::always().of("show").reply_bytes(listed + ".\n"));
        let ran = gearctl(server.address(), line).exits(0);
        format!("{}{}", ran.out(), ran.err).contains("--hashtable-buckets=100003")
    };
    for line in [&["server"][..], &["doctor", "-o", "json"]] {
        assert!(!warns(49_999, line) && warns(50_000, line), "{line:?}");
    }
}

#[test]
fn lists_functions_with_counts() {
    on_both(|server| {
        let address = server.address();
        assert_eq!(gearctl(address, &["functions", "-o", "json"]).exits(0).json(), json!([]));
        queue(address, "mail.out", b"x");
        queue(address, "mail.out", b"y");
        queue(address, "sms", b"z");
        assert_eq!(
            gearctl(address, &["functions"]).exits(0).out(),
            "mail.out\t2\t2\t0\t0\nsms\t1\t1\t0\t0\n"
        );
        assert_eq!(
            gearctl(address, &["functions", "mail*", "-o", "json"]).exits(0).json(),
            json!([{"queue": "mail.out", "total": 2, "queued": 2, "running": 0, "workers": 0,
                "high": 0, "normal": 2, "low": 0}])
        );
        assert_eq!(gearctl(address, &["functions", "*s", "-o", "name"]).exits(0).out(), "sms\n");
    });
}

#[test]
fn creates_limits_and_drops_functions() {
    on_both(|server| {
        let address = server.address();
        let no = gearctl(address, &["function", "maxqueue", "f", "1", "-o", "json"])
            .exits(1)
            .error_alone();
        assert_eq!(no["code"], "NOT_FOUND");
        gearctl(address, &["function", "drop", "f"]).exits(1);
        gearctl(address, &["function", "create", "f", "-n"]).exits(0);
        assert_eq!(gearctl(address, &["functions"]).exits(0).out(), "");
        let done = gearctl(address, &["function", "create", "f", "-o", "json"]).exits(0).json();
        assert_eq!(done, json!({"action": "create", "function": "f"}));
        assert_eq!(gearctl(address, &["functions", "-o", "name"]).exits(0).out(), "f\n");
        gearctl(address, &["function", "maxqueue", "f", "1"]).exits(0);
        queue(address, "f", b"x");
        let refused =
            gearctl(address, &["function", "drop", "f", "-o", "json"]).exits(1).error_alone();
        assert_eq!(refused["code"], "FUNCTION_IN_USE");
        gearctl(address, &["function", "drop", "f", "--force"]).exits(0);
        gearctl(address, &["function", "create", "a b"]).exits(65);
        gearctl(address, &["function", "create", "g"]).exits(0);
        gearctl(address, &["function", "maxqueue", "g", "--high", "1", "--low", "2"]).exits(0);
        gearctl(address, &["function", "maxqueue", "g", "5", "--low", "2"]).exits(2);
    });
}

#[test]
fn lists_and_filters_workers() {
    on_both_with_tools(|server| {
        let address = server.address();
        let worker =
            Running::of(server.tool("gearman", &["-w", "-f", "up", "cat"]).spawn().unwrap());
        workers(address, "up", 1);
        let all = gearctl(address, &["workers", "-o", "json"]).exits(0).json();
        let with = |row: &&serde_json::Value| row["functions"] == json!(["up"]);
        assert_eq!(all.as_array().unwrap().iter().filter(with).count(), 1, "{all}");
        let of = |flags: &[&str]| {
            let rows =
                gearctl(address, &[&["workers", "-o", "json"], flags].concat()).exits(0).json();
            rows.as_array().unwrap().len()
        };
        let plain = gearctl(address, &["workers", "-f", "up"]).exits(0);
        assert!(plain.out().ends_with("\tup\n"), "{}", plain.out());
        assert_eq!((of(&["-f", "up"]), of(&["-f", "down"]), of(&["--idle"])), (1, 0, 1));
        drop(worker);
    });
}

/// A worker counts once for each function that it serves, everywhere.
#[test]
fn server_and_check_count_the_same_workers() {
    on_both(|server| {
        let address = server.address();
        let line = ["-s", address, "work", "-f", "up", "-f", "down", "--exec", "true"];
        let _worker = Running::of(command(&line).spawn().unwrap());
        workers(address, "up", 1);
        workers(address, "down", 1);
        let server = gearctl(address, &["server", "-o", "json"]).exits(0).json();
        assert_eq!(server["workers"], 2, "{server}");
        let check = gearctl(address, &["check", "server", "-o", "json"]).exits(0).json();
        let metrics = check["metrics"].as_array().unwrap();
        let workers = metrics.iter().find(|metric| metric["name"] == "workers").unwrap();
        assert_eq!(workers["value"].as_f64(), Some(2.0), "{check}");
    });
}

#[test]
fn lists_shows_and_cancels_jobs() {
    on_both(|server| {
        let address = server.address();
        let (one, two) = (queue(address, "f", b"x"), queue(address, "f", b"y"));
        let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
        assert_eq!(jobs.as_array().unwrap().len(), 2);
        assert_eq!(jobs[0]["ignored"], false);
        let uniques = gearctl(address, &["unique-jobs", "-o", "name"]).exits(0);
        assert_eq!(uniques.out().lines().count(), 2);
        let unique = uniques.out().lines().next().unwrap();
        let known = gearctl(address, &["job", "--unique", unique, "-o", "json"]).exits(0).json();
        assert_eq!((&known["known"], &known["waiting"]), (&json!(true), &json!(0)));
        let known = gearctl(address, &["job", &one, "-o", "json"]).exits(0).json();
        assert_eq!((&known["handle"], &known["running"]), (&json!(one), &json!(false)));
        let unknown = gearctl(address, &["job", "H:x:9", "-o", "json"]).exits(1).error_alone();
        assert_eq!(unknown["code"], "NOT_FOUND");
        gearctl(address, &["job"]).exits(2);

        let report = gearctl(address, &["cancel", &one, "-o", "json"]).exits(0).json();
        assert_eq!((&report["succeeded"], &report["failed"]), (&json!(1), &json!(0)));
        // Until a worker would get it.
        let known = gearctl(address, &["job", &one, "-o", "json"]).exits(0).json();
        assert_eq!((&known["known"], &known["running"]), (&json!(true), &json!(false)));
        let no = gearctl(address, &["cancel", "H:x:9", "-o", "json"]).exits(1).error_alone();
        assert_eq!(no["code"], "NOT_FOUND");
        let stdin = format!("{two}\nH:x:9\n");
        gearctl_with(address, &["cancel", "-"], stdin.as_bytes()).exits(3);
        let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
        assert!(jobs.as_array().unwrap().iter().all(|job| job["ignored"] == true), "{jobs}");
        gearctl(address, &["work", "-f", "f", "--builtin", "echo", "--max-idle", "0"]).exits(0);
        gearctl(address, &["job", &one]).exits(1);
    });
}

#[test]
fn raw_sends_lines_verbatim() {
    on_both(|server| {
        let address = server.address();
        gearctl(address, &["raw", "create function f"]).exits(0);
        assert_eq!(gearctl(address, &["raw", "status"]).exits(0).out(), "f\t0\t0\t0\n");
        let reply = gearctl(address, &["raw", "status", "-o", "json"]).exits(0).json();
        assert_eq!(reply, json!({"reply": ["f\t0\t0\t0"]}));
        gearctl(address, &["raw", "nonsense"]).exits(1);
        gearctl(address, &["raw", "a\nb"]).exits(65);
    });
}

#[test]
fn raw_sends_packets_and_prints_replies() {
    on_both(|server| {
        let address = server.address();
        let raw = |words: &[&str]| gearctl(address, &[&["raw"], words].concat());
        let submit = ["--packet", "SUBMIT_JOB_BG", "rev", "u1", "hello"];
        let grab = ["--packet", "CAN_DO", "rev", "--packet", "grab_job_uniq", "-o", "json"];
        let got = raw(&[&submit[..], &grab].concat()).exits(0).json();
        let handle = got[0]["arguments"][0].as_str().unwrap();
        assert_eq!((&got[0]["packet"], &got[0]["number"]), (&json!("JOB_CREATED"), &json!(8)));
        assert_eq!(got[1]["arguments"], json!([handle, "rev", "u1", "hello"]));
        // A number, bytes that are not text, and the reply to them.
        assert_eq!(raw(&["--packet", "16", "hex:00ff", "-o", "raw"]).exits(0).bytes, b"\0\xff");
        let echo = raw(&["--packet", "ECHO_REQ", "b64:/w==", "-o", "json"]).exits(0).json();
        assert_eq!(echo[0]["arguments"], json!([{"base64": "/w=="}]));
        // The server's refusal.
        assert_eq!(
            raw(&["--packet", "ALL_YOURS"]).exits(1).out(),
            "ERROR\t19\t36\tINVALID_COMMAND\\0Command not expected\n"
        );
        // gearmand ends the connection for a number that it does not know.
        assert_eq!(raw(&["--packet", "99", "-o", "json"]).exits(69).error_alone()["exit"], 69);
        raw(&["--packet", "GET_STATUS"]).exits(65);
        raw(&["--packet", "NONSENSE"]).exits(65);
        raw(&["status", "--packet", "ECHO_REQ", "x"]).exits(2);
        let would = raw(&["-n", "--packet", "CAN_DO", "rev", "-o", "json"]).exits(0).json();
        assert_eq!(would["packets"], json!(["005245510000000100000003726576"]));
    });
}

#[cfg(unix)]
#[test]
fn raw_waits_for_later_packets() {
    on_both(|server| {
        let worker = serve(server.address(), "up", 1, |job| Ok(job.workload.to_vec()));
        let line = ["raw", "--wait", "1h", "--packet", "SUBMIT_JOB", "up", "", "x", "-o", "name"];
        let line = [&["-a", server.address()], &line[..]].concat();
        let mut raw = Running::of(PROGRAM.command(&line).spawn().unwrap());
        let mut out = BufReader::new(raw.stdout.take().unwrap());
        assert_eq!(hears(&mut out, "WORK_COMPLETE\n"), "JOB_CREATED\nWORK_COMPLETE\n");
        worker.join().unwrap();
        signal(&raw, rustix::process::Signal::INT);
        assert_eq!(raw.wait().unwrap().code(), Some(130));
    });
}

/// Answers the first connection, and leaves others unanswered. The port stays reserved in the meantime.
fn server_of_one_connection() -> (fixtures::Port, std::thread::JoinHandle<()>) {
    let port = fixtures::Port::take().unwrap();
    let address = port.address();
    let listener = TcpListener::bind(address).unwrap();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        // A child that another test is just starting also has it open, until it runs its program.
        while TcpStream::connect(address).is_ok() {
            std::thread::yield_now();
        }
        for line in BufReader::new(&stream).lines() {
            assert!(matches!(line.unwrap().as_str(), "status" | "workers"));
            (&stream).write_all(b".\n").unwrap();
        }
    });
    (port, serving)
}

#[test]
fn distinguishes_a_refused_connection_from_a_silent_server() {
    let (port, serving) = server_of_one_connection();
    let address = port.address().to_string();
    let error = gearctl(&address, &["server", "-o", "json"]).exits(69).error_alone();
    assert_eq!(error["code"], "UNAVAILABLE", "{error}");
    serving.join().unwrap();
}
