//! Bulk commands: they ask first, they end, and they report what they did.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctl_core::context::Tool;
use ctl_core::input::sizes::Random;
use ctl_core::link::Link as _;
use fixtures::fault::Fault;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::Case;
use crate::program::{Ran, Running, fed, signal};

/// The error names the flag to use.
pub fn refuses_to_delete_without_a_terminal_or_yes<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    for _ in 0..3 {
        case.adds(&address, "body");
    }
    for line in [&["clear", "mail"][..], &["clear", "mail", "-o", "json"], &["drain", "mail"]] {
        let ran = case.program.at(&address, line).exits(2);
        assert!(ran.err.contains("--yes") && ran.err.contains(&address), "{line:?} {}", ran.err);
        assert!(ran.bytes.is_empty(), "{line:?} {}", ran.out());
        // A yes that does not come from a terminal does not count either.
        let command = case.program.command(&[&[case.program.flag, &address], line].concat());
        fed(command, b"y\n").exits(2);
        assert_eq!((case.jobs)(&server), 3, "{line:?}");
    }
    case.program.at(&address, &["clear", "mail", "--yes"]).exits(0);
    assert_eq!((case.jobs)(&server), 0);
}

/// Piping a failed command into it used to add an empty job.
pub fn warns_about_empty_stdin<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let words: Vec<&str> = case.add.split(' ').collect();
    let warning = "warning: stdin is empty, so the body is empty too";
    for (more, warned) in [(&[][..], true), (&["-"], true), (&[""], false)] {
        let ran = case.program.fed(&address, &[&words[..], more].concat(), b"").exits(0);
        assert_eq!(ran.says(warning), warned, "{more:?}: {}", ran.err);
    }
    assert_eq!((case.jobs)(&server), 3);
}

/// It is not a refusal, and repeating it is no advice.
pub fn exits_4_when_the_outcome_is_unknown<T: Tool>(case: &Case<T>) {
    for (line, request) in case.changes {
        let (server, address) = Case::<T>::server();
        let add: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
        case.program.at(&address, &add).exits(0);
        T::Link::faults(&server).add(Fault::always().of(*request).cut_after(0));
        let words: Vec<&str> = line.split(' ').collect();
        let ran = case.program.at(&address, &[&words[..], &["-o", "json"]].concat()).exits(4);
        let error = ran.error();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(" may have been "), "{line}: {message}");
        assert_eq!((&error["fate"], &error["exit"]), (&json!("unknown"), &json!(4)), "{line}");
        let hints = error["hints"].to_string();
        assert!(hints.contains(", to see ") && !hints.contains("--timeout"), "{line}: {hints}");
    }
}

/// With names that a YAML parser, a glob or a path could misread, and bodies that break naive tools.
pub fn drain_then_import_restores_every_record<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let long = "n".repeat(200);
    let names = ["123", "true", "null", "1e5", "0x1F", "a/b", "a;b", "$(x)", &long];
    let bodies: [&[u8]; 6] =
        [b"", b"\0", b"\n", b"\r\ndelete 1\r\n", &[0xff; 65_535], &every_byte()];
    for (name, body) in names.into_iter().zip(bodies.into_iter().cycle()) {
        let words: Vec<&str> = case.add_to.split(' ').chain([name, "-"]).collect();
        case.program.fed(&address, &words, body).exits(0);
    }
    let count = names.len();
    assert_eq!((case.jobs)(&server), count);
    let drain = [&["drain", "--yes"][..], &names[..]].concat();
    let first = case.program.at(&address, &drain).exits(0);
    assert_eq!(((case.jobs)(&server), first.lines().len()), (0, count));
    let (other, elsewhere) = Case::<T>::server();
    let import = [T::PROGRAM.seed, &["-"]].concat();
    case.program.fed(&elsewhere, &import, &first.bytes).exits(0);
    assert_eq!((case.jobs)(&other), count);
    let again = case.program.at(&elsewhere, &drain).exits(0);
    let essence = |ran: &Ran| {
        let keep = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            ["tube", "function", "queue", "body", "body_base64"].map(|key| record[key].clone())
        };
        ran.lines().into_iter().map(keep).collect::<Vec<_>>()
    };
    assert_eq!(essence(&again), essence(&first));
}

fn every_byte() -> Vec<u8> {
    (0..=u8::MAX).collect()
}

/// With any bytes, in queues whose names a YAML parser, a glob or a path could misread. An export takes nothing away.
pub fn export_then_import_restores_a_thousand_records<T: Tool>(case: &Case<T>) {
    let seed = RandomState::new().hash_one(0);
    let mut random = Random::new(seed);
    let long = "n".repeat(200);
    let names = ["123", "true", "a/b", &long];
    let mut body = || {
        let length = random.below(300);
        (0..length).map(|_| random.below(256) as u8).collect::<Vec<u8>>()
    };
    let largest = [0, b'"', 0xff].map(|byte| vec![byte; 65_535]);
    let mut bodies: Vec<Vec<u8>> = (0..1000).map(|_| body()).collect();
    bodies.extend([Vec::new(), every_byte()].into_iter().chain(largest));
    let record = |(at, body): (usize, &Vec<u8>)| {
        let name = names[at % names.len()];
        format!("{}\n", json!({case.noun: name, "body_base64": STANDARD.encode(body)}))
    };
    let put: String = bodies.iter().enumerate().map(record).collect();
    let export = [&["export", "--yes"][..], &names[..]].concat();
    let through = |records: &[u8]| {
        let (server, address) = Case::<T>::server();
        let import = [T::PROGRAM.seed, &["-"]].concat();
        case.program.fed(&address, &import, records).exits(0);
        assert_eq!((case.jobs)(&server), bodies.len(), "seed {seed}");
        let exported = case.program.at(&address, &export).exits(0);
        assert_eq!((case.jobs)(&server), bodies.len(), "seed {seed}");
        exported.bytes
    };
    let first = through(put.as_bytes());
    let second = through(&first);
    let found = |records: &[u8]| {
        let read = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            let body = match (record["body"].as_str(), record["body_base64"].as_str()) {
                (Some(text), None) => text.as_bytes().to_vec(),
                (None, Some(text)) => STANDARD.decode(text).unwrap(),
                _ => panic!("{line}"),
            };
            (record[case.noun].as_str().unwrap().to_owned(), body)
        };
        let text = std::str::from_utf8(records).unwrap();
        let mut found: Vec<(String, Vec<u8>)> = text.lines().map(read).collect();
        found.sort();
        found
    };
    let wanted = found(put.as_bytes());
    assert!(found(&first) == wanted && found(&second) == wanted, "seed {seed}");
}

/// Adds jobs while `run` runs, which starts once some are there.
fn with_producer<T: Tool, R>(
    case: &Case<T>,
    server: &crate::Server<T>,
    address: &str,
    run: impl FnOnce() -> R,
) -> R {
    let add: Vec<&str> = case.add.split(' ').chain(["--lines", "-q"]).collect();
    let line = [&[case.program.flag, address], &add[..]].concat();
    let child = case.program.command(&line).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut producer = Running::of(child.unwrap());
    let mut stdin = producer.stdin.take().unwrap();
    let (stop, some) = (AtomicBool::new(false), b"body\n".repeat(20));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            let mut ends = false;
            while !ends {
                ends = stop.load(Ordering::SeqCst) || stdin.write_all(&some).is_err();
                // Goes on, and leaves the processor to those who are to end.
                thread::sleep(Duration::from_millis(1));
            }
        });
        crate::until(|| (case.jobs)(server) >= 200);
        let result = panic::catch_unwind(AssertUnwindSafe(run));
        // A failed check must end the other thread, too.
        stop.store(true, Ordering::SeqCst);
        result.unwrap_or_else(|why| panic::resume_unwind(why))
    });
    drop(stdin);
    let _ = producer.ended().exits(0);
    result
}

/// Jobs that arrive meanwhile are left for the next run.
pub fn clear_ends_while_a_producer_keeps_adding<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let ran = with_producer(case, &server, &address, || {
        case.program.at(&address, &["clear", "mail", "--yes", "-o", "json"])
    });
    let report = ran.exits(0).json();
    let cleared = report.get("succeeded").or_else(|| report.pointer("/0/count"));
    assert!(cleared.and_then(Value::as_u64) >= Some(200), "{report}");
}

/// The report counts what was written, and the rest is still in the queue.
pub fn ctrl_c_reports_partial_progress<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let (written, ran) = with_producer(case, &server, &address, || {
        let line = ["drain", "mail", "--yes", "--until-empty"];
        let line = [&[case.program.flag, &address], &line[..]].concat();
        let mut child = Running::of(case.program.command(&line).spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        signal(&child, Signal::INT);
        let written = 1 + lines.map(Result::unwrap).count();
        (written, child.ended().exits(130))
    });
    // The last record may be unread when the signal comes: its job stays, and the record is read after all.
    let said = [written, written - 1].map(|jobs| format!("drained {jobs} "));
    assert!(said.iter().any(|said| ran.err.contains(said)), "{said:?}: {}", ran.err);
    assert!((case.jobs)(&server) > 0);
}
