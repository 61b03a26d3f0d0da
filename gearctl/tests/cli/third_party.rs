//! Servers other than gearmand: what they lack is reported, and affects nothing else.

use std::sync::Mutex;

use fixtures::gearmand::{Flavour, Server};
use fixtures::real::{Geard, PerlGearmand, RealServer, Rustygeard};
use serde_json::json;

use crate::harness::*;

/// Runs a scenario against the imitated server, and against the real one if it is installed; the argument says which.
fn on(flavour: Flavour, scenario: impl Fn(&str, bool) + Sync) {
    on_each(&[flavour], |_, address, is_real| scenario(address, is_real));
}

/// Runs a scenario against these servers, imitated ones and real ones.
fn on_each(flavours: &[Flavour], scenario: impl Fn(Flavour, &str, bool) + Sync) {
    at_once(flavours.iter().copied(), |flavour| {
        at_once([false, true], |is_real| {
            if is_real {
                let Some(real) = real(flavour) else { return };
                scenario(flavour, real.address(), true);
            } else {
                let server = Server::builder().flavour(flavour).start().unwrap();
                scenario(flavour, server.address(), false);
            }
        });
    });
}

fn real(flavour: Flavour) -> Option<RealServer> {
    match flavour {
        Flavour::Geard => Geard::start(),
        Flavour::Rustygeard => Rustygeard::start(),
        _ => None,
    }
}

/// The time limit, in seconds, where an answer does not come: the others come within it on a busy machine, too.
const LIMIT: &str = "3";

const THIRD_PARTY: [Flavour; 3] = [Flavour::Geard, Flavour::Rustygeard, Flavour::G2];

#[test]
fn shows_available_answers_and_names_the_missing() {
    on(Flavour::Geard, |address, _| {
        let line = ["server", "--timeout", LIMIT, "-o", "json"];
        let all = gearctl(address, &line).exits(0).json();
        assert_eq!((&all["functions"], &all["connections"]), (&json!(0), &json!(1)), "{all}");
        for key in ["version", "pid", "verbose", "show_jobs", "prioritystatus"] {
            assert!(all[key].is_null(), "{key}: {all}");
        }
        let silent =
            ["version", "getpid", "verbose", "show jobs", "show unique jobs", "prioritystatus"];
        assert_eq!(all["no_answer"], json!(silent));
    });
}

/// A command line, and what its run has to show.
type Check = (&'static [&'static str], fn(Ran));

/// That the real one answers none of them is seen by `server`.
#[test]
fn names_the_missing_answer_of_each_command() {
    let server = Server::builder().flavour(Flavour::Geard).start().unwrap();
    let soon = |line: &[&str]| gearctl(server.address(), &[&["--timeout", LIMIT], line].concat());
    let unanswered = |ran: Ran| {
        let error = ran.exits(124).error_alone();
        assert!(error["hints"].to_string().contains("gearctl server shows"), "{error}");
    };
    let checks: [Check; 8] = [
        (&["doctor"], |doctor| {
            assert!(doctor.out().contains("no answer to version"), "{}", doctor.out());
            assert!(!doctor.out().contains("it took"), "{}", doctor.out());
        }),
        (&["job", "-u", "x"], |job| {
            assert!(job.exits(124).err.contains("supports GET_STATUS_UNIQUE"));
        }),
        (&["functions", "-o", "json"], |listed| {
            assert_eq!(listed.json(), json!([]));
            assert!(listed.exits(0).err.contains("so HIGH, NORMAL and LOW are not known"));
        }),
        (&["version", "-o", "json"], unanswered),
        (&["pid", "-o", "json"], unanswered),
        (&["verbose", "-o", "json"], unanswered),
        (&["jobs", "-o", "json"], unanswered),
        (&["unique-jobs", "-o", "json"], unanswered),
    ];
    at_once(checks, |(line, check)| check(soon(line)));
}

#[test]
fn pings_a_server_that_ignores_echo() {
    on(Flavour::Geard, |address, _| {
        // Half of the time is spent on ECHO_REQ.
        let soon = |line: &[&str]| gearctl(address, &[&["--timeout", "6"], line].concat());
        let ping = ["ping", "-c", "3", "-i", "0", "-o", "json"];
        let ran = soon(&ping).exits(0);
        assert_eq!(ran.err.matches("does not answer ECHO_REQ").count(), 1, "{}", ran.err);
        let pings = ran.json();
        let asked: Vec<_> = pings.as_array().unwrap().iter().map(|ping| &ping["packet"]).collect();
        assert_eq!(asked, ["GET_STATUS"; 3]);
    });
}

#[test]
fn raw_works_where_echo_is_ignored() {
    on(Flavour::Geard, |address, _| {
        let line = ["raw", "--packet", "GET_STATUS", "H:nowhere:1", "--wait", "10ms", "-o", "name"];
        let ran = gearctl(address, &line).exits(0);
        assert_eq!(ran.out(), "STATUS_RES\n");
    });
}

#[test]
fn recognizes_refusals_of_every_server() {
    let lacks: [(Flavour, &[&[&str]]); 2] = [
        (Flavour::Rustygeard, &[&["pid"], &["verbose"], &["jobs"], &["unique-jobs"]]),
        (Flavour::G2, &[&["version"], &["pid"], &["verbose"], &["jobs"], &["unique-jobs"]]),
    ];
    for (flavour, lines) in lacks {
        on(flavour, |address, _| {
            for line in lines {
                let error =
                    gearctl(address, &[line, &["-o", "json"][..]].concat()).exits(76).error_alone();
                assert_eq!(error["code"], "UNSUPPORTED", "{flavour} {line:?}");
            }
            let all = gearctl(address, &["server", "-o", "json"]).exits(0).json();
            assert_eq!((&all["pid"], &all["show_jobs"]), (&json!(null), &json!(false)), "{all}");
            assert_eq!((&all["prioritystatus"], &all["no_answer"]), (&json!(true), &json!([])));
            let raw = gearctl(address, &["raw", "verbose"]).exits(1);
            assert!(raw.err.contains("UNSUPPORTED: verbose: "), "{flavour}: {}", raw.err);
            gearctl(address, &["workers"]).exits(0);
            let line = ["functions", "-o", "json"];
            assert_eq!(gearctl(address, &line).exits(0).json(), json!([]));
        });
    }
}

#[test]
fn reports_one_error_for_one_uncancellable_job() {
    on(Flavour::Rustygeard, |address, _| {
        let ran = gearctl(address, &["cancel", "H:x:1"]).exits(76);
        assert!(ran.err.starts_with("error: UNSUPPORTED: cancel job"), "{}", ran.err);
        let ran = gearctl(address, &["cancel", "H:x:1", "H:x:2"]).exits(76);
        assert!(ran.err.contains("before that: cancelled 0 jobs, 1 failed"), "{}", ran.err);
    });
}

#[test]
fn refuses_to_drain_without_knowing_foreground_jobs() {
    on_each(&THIRD_PARTY, |flavour, address, _| {
        let drain = ["drain", "f"];
        let moves = ["move", "--from", "f", "--to", "g"];
        let of_background = [&moves[..], &["--background-only"]].concat();
        at_once([&drain[..], &moves, &of_background], |line| {
            let line = [line, &["--yes", "--timeout", LIMIT, "-o", "json"]].concat();
            let error = gearctl(address, &line).exits(1).error_alone();
            assert_eq!(error["code"], "CLIENTS_WAITING", "{flavour}");
            let hints = error["hints"].to_string();
            if line[0] == "drain" {
                assert!(hints.contains("--as fail"), "{flavour}: {hints}");
                assert!(!hints.contains("--background-only"), "{flavour}: {hints}");
            } else {
                let way = "gearctl drain FUNCTION --as fail --to FILE";
                assert!(hints.contains(way), "{flavour}: {error}");
            }
        });
    });
}

#[test]
fn reports_jobs_lost_by_peek() {
    on_each(&THIRD_PARTY, peek_loses_jobs);
}

/// gearmand itself drops a job whose retries are used up.
#[test]
fn reports_jobs_dropped_after_their_retries() {
    let server = Server::builder().job_retries(1).start().unwrap();
    queue(server.address(), "f", b"one");
    let ran = gearctl(server.address(), &["peek", "f", "--yes"]).exits(3);
    assert!(ran.err.contains("are not back in the queue after 2s: 1 of 1"), "{}", ran.err);
}

fn peek_loses_jobs(flavour: Flavour, address: &str, _: bool) {
    let (refused, lost) =
        ("is not gearmand: such servers lose", "are not back in the queue after 2s: 1 of 1");
    let lines = [
        ("peek", &[][..], refused),
        ("peek", &["--yes", "-o", "ndjson"], lost),
        ("export", &["--yes"], lost),
    ];
    at_once(lines, |(command, flags, said)| {
        let ran = late(said, |limit| {
            let function = format!("{command}{}{limit}", flags.len());
            queue(address, &function, b"x");
            let line = [&[command, &function, "--timeout", limit], flags].concat();
            gearctl(address, &line)
        });
        assert!(ran.err.contains(refused), "{flavour}: {}", ran.err);
        if flags.is_empty() {
            ran.exits(2);
        } else {
            assert_eq!(ran.exits(3).out().lines().count(), 1, "{flavour}");
        }
    });
}

/// Its counts show it unless other jobs are queued.
#[test]
fn move_keeps_jobs_merged_into_dead_ones() {
    on(Flavour::Rustygeard, |address, _| {
        gearctl(address, &["submit", "f", "-u", "k", "one"]).exits(0);
        gearctl(address, &["drain", "f", "--as", "fail", "--yes"]).exits(0);
        let record: &[u8] = br#"{"v":1,"function":"f","unique":"k","body":"x"}"#;
        for line in [&["import", "-"][..], &["submit", "--ndjson"]] {
            let skipped = gearctl_with(address, line, record).exits(1);
            assert!(skipped.err.contains("JOB_SKIPPED"), "{}", skipped.err);
        }
        gearctl(address, &["submit", "f", "other"]).exits(0);
        for line in [&["import", "-"][..], &["submit", "--ndjson"]] {
            let told = gearctl_with(address, line, record).exits(0);
            assert!(told.err.contains("does not say whether it will run"), "{}", told.err);
        }
        let source = Server::start().unwrap();
        gearctl(source.address(), &["submit", "f", "-u", "k", "keep"]).exits(0);
        let line = ["move", "--from", "f", "--to-server", address, "--yes"];
        let kept = gearctl(source.address(), &line).exits(1);
        assert!(kept.err.contains("JOB_SKIPPED"), "{}", kept.err);
        let counts = gearctl(source.address(), &["functions", "f", "--columns", "total"]).exits(0);
        assert_eq!(counts.out(), "1\n");
    });
}

/// It keeps the ids of jobs that have failed.
#[test]
fn a_record_merged_into_its_dead_job_fails() {
    on(Flavour::Rustygeard, |address, _| {
        for body in ["one", "two"] {
            gearctl(address, &["submit", "f", body]).exits(0);
        }
        gearctl(address, &["submit", "f", "-u", "k", "three"]).exits(0);
        let drained = gearctl(address, &["drain", "f", "--as", "fail", "--yes"]).exits(0);
        let import = |bytes: &[u8]| gearctl_with(address, &["import", "-o", "json"], bytes);
        let error = import(&drained.bytes).exits(1).error_alone();
        assert_eq!(error["code"], "JOB_SKIPPED");
        assert!(error["message"].to_string().contains("(and 2 more)"), "{error}");
        assert!(error["hints"].to_string().contains("del(.unique"), "{error}");
        let skipped = gearctl(address, &["submit", "f", "-u", "k", "three"]).exits(1);
        assert!(skipped.err.contains("JOB_SKIPPED"), "{}", skipped.err);
        let without: String = drained
            .out()
            .lines()
            .map(|line| {
                let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
                record.as_object_mut().unwrap().remove("unique");
                format!("{record}\n")
            })
            .collect();
        assert_eq!(import(without.as_bytes()).exits(0).json().as_array().unwrap().len(), 3);
        let counts = gearctl(address, &["functions", "f", "--columns", "queued"]).exits(0);
        assert_eq!(counts.out(), "3\n");
    });
}

#[test]
fn detects_a_non_gearman_server_at_once() {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    // Without the answer, it would be a timeout.
    for line in [&["functions"][..], &["server"], &["workers"], &["version"], &["pid"]] {
        let line = [line, &["-o", "json"]].concat();
        let error = gearctl(server.address(), &line).exits(76).error_alone();
        let message = error["message"].to_string();
        assert!(message.contains("beanstalkd answers at"), "{line:?}: {message}");
        assert!(error["hints"].to_string().contains("bsctl"), "{line:?}: {error}");
    }
}

#[test]
fn accepts_any_reply_to_shutdown() {
    let server = Server::builder().flavour(Flavour::Rustygeard).start().unwrap();
    let confirm = format!("--confirm={}", server.address());
    gearctl(server.address(), &["shutdown", &confirm]).exits(0);
}

#[test]
fn rejects_a_server_that_waits_for_more_input() {
    let address = ctl_contract::bad_servers::http();
    for line in [&["functions"][..], &["version"], &["jobs"], &["exporter", "-c", "1"]] {
        // Without waiting for an answer.
        let line = [line, &["--timeout", "1h", "-o", "json"]].concat();
        let ran = PROGRAM.unconfigured().at(&address, &line).exits(76);
        assert_eq!(ran.error_alone()["code"], "WRONG_SERVER", "{line:?}");
    }
}

/// What each line ends with on geard, rustygeard, g2 and Perl's server. `HANDLE` is a queued job of `queued`, and `up`
/// has a worker; each clear has its own function. 124, 4 for a change, and 69 are requests that the server
/// ignores, or closes the connection on; 76 those that it refuses.
const LINES: &[(&str, [i32; 4])] = &[
    ("functions", [0, 0, 0, 0]),
    ("functions -o json", [0, 0, 0, 0]),
    ("workers", [0, 0, 0, 0]),
    ("workers --idle", [0, 0, 0, 0]),
    ("server", [0, 0, 0, 0]),
    ("version", [124, 0, 76, 0]),
    ("pid", [124, 76, 76, 76]),
    ("verbose", [124, 76, 76, 76]),
    ("jobs", [124, 76, 76, 76]),
    ("unique-jobs", [124, 76, 76, 76]),
    ("ping", [0, 0, 0, 0]),
    ("wait --for server", [0, 0, 0, 0]),
    ("wait --for queued==1 -f queued", [0, 0, 0, 0]),
    ("job HANDLE", [0, 0, 0, 0]),
    ("job H:nowhere:999", [1, 1, 1, 1]),
    ("check server", [2, 2, 2, 2]),
    ("check roundtrip", [0, 0, 0, 0]),
    ("check roundtrip up --send x --expect X", [0, 0, 0, 0]),
    ("check function up", [0, 0, 0, 0]),
    ("check function queued", [2, 2, 2, 2]),
    ("function create new", [4, 76, 76, 76]),
    ("function drop queued --force", [4, 76, 76, 76]),
    ("run up x", [0, 0, 0, 0]),
    ("map up", [0, 0, 0, 0]),
    ("submit later x", [0, 0, 0, 0]),
    ("raw status", [0, 0, 0, 0]),
    ("raw --packet GET_STATUS H:nowhere:999", [0, 0, 0, 0]),
    ("clear one --yes", [1, 1, 1, 1]),
    ("clear two --yes --background-only", [1, 1, 1, 1]),
    // geard confirms nothing.
    ("clear three --yes --as fail", [4, 0, 0, 0]),
];

/// Waits until this number of connections serve the function: rustygeard's `status` does not show it before there is a
/// job.
fn serving(address: &str, function: &str, count: usize) {
    eventually("the workers", || {
        let line = ["workers", "-f", function, "-o", "json"];
        let rows = gearctl(address, &line).exits(0).json();
        (rows.as_array().unwrap().len() == count).then_some(())
    });
}

/// Runs every line against a server of this kind, several at the same time.
fn every_line(kind: &str, address: &str, is_real: bool) {
    let at = ["geard", "rustygeard", "g2", "perl"].iter().position(|name| *name == kind).unwrap();
    let handle = queue(address, "queued", b"x");
    for function in ["one", "two", "three"] {
        queue(address, function, b"x");
    }
    // What a line may take, where it asks for something in vain.
    let in_vain = |line: &str, wanted: i32| match wanted {
        // It ends so whatever takes longer.
        124 => Some("1"),
        4 => Some(LIMIT),
        // Half of it is spent on ECHO_REQ.
        _ if line == "ping" => Some("6"),
        _ => ["server", "functions -o", "clear"]
            .iter()
            .any(|begin| line.starts_with(begin))
            .then_some(LIMIT),
    };
    let check = |line: &str, wanted: i32| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.iter_mut().filter(|word| **word == "HANDLE").for_each(|word| *word = &handle);
        let patience = in_vain(line, wanted).unwrap_or("20");
        let ran = gearctl(address, &[&words[..], &["--timeout", patience]].concat());
        assert_eq!(ran.code, Some(wanted), "{kind}: {line}: {:?} {}", ran.out(), ran.err);
        let silent = ran.err.contains("TIMEOUT") || ran.err.contains("of unknown fate");
        assert_eq!(silent, [4, 124].contains(&wanted), "{kind}: {line}: {}", ran.err);
    };
    // Which commands the real geard does not answer is asked in another test.
    let is_asked = |wanted: i32| wanted != 124 || !is_real;
    let lines = LINES.iter().map(|(line, codes)| (*line, codes[at]));
    let (late, others): (Vec<_>, Vec<_>) = lines
        .filter(|(_, wanted)| is_asked(*wanted))
        .partition(|(line, wanted)| kind == "geard" && in_vain(line, *wanted).is_some());
    let others = Mutex::new(others.into_iter());
    std::thread::scope(|scope| {
        let check = &check;
        // They wait, which needs neither the worker nor the processor.
        late.into_iter().for_each(|(line, wanted)| drop(scope.spawn(move || check(line, wanted))));
        // geard does not answer the first kind of grab, and then another kind is tried.
        let line = ["-s", address, "work", "-f", "up", "-j", "2", "--shell", "tr a-z A-Z"];
        let line = [&line[..], &["--timeout", LIMIT]].concat();
        let _worker = Running::of(command(&line).spawn().unwrap());
        serving(address, "up", 2);
        gearctl(address, &["run", "up", "x", "--timeout", "20"]).exits(0);
        at_once([(); 6], |()| {
            let next = || others.lock().unwrap().next();
            while let Some((line, wanted)) = next() {
                check(line, wanted);
            }
        });
    });
    let left = gearctl(address, &["functions", "three"]).exits(0);
    assert!(matches!(left.out(), "" | "three\t0\t0\t0\t0\n"), "{kind}: {}", left.out());
}

#[test]
fn every_command_works_or_reports_missing_support() {
    at_once(THIRD_PARTY, |flavour| {
        let server = Server::builder().flavour(flavour).start().unwrap();
        every_line(flavour.as_str(), server.address(), false);
    });
}

#[test]
fn every_command_matches_the_real_servers() {
    type Start = (&'static str, fn() -> Option<RealServer>);
    const STARTS: [Start; 3] =
        [("geard", Geard::start), ("rustygeard", Rustygeard::start), ("perl", PerlGearmand::start)];
    at_once(STARTS, |(kind, start)| {
        let Some(real) = start() else { return };
        every_line(kind, real.address(), true);
    });
}

#[test]
fn shell_workers_run_on_every_server() {
    let serves = |kind: &str, address: &str| {
        let line = ["-s", address, "work", "-f", "up", "-j", "2", "--shell", "tr a-z A-Z"];
        let line = [&line[..], &["--timeout", "5"]].concat();
        let _worker = Running::of(command(&line).spawn().unwrap());
        serving(address, "up", 2);
        let lines: String = (0..50).map(|n| format!("line {n}\n")).collect();
        let line = ["map", "up", "-j", "4", "--ordered", "--timeout", "30"];
        let ran = gearctl_with(address, &line, lines.as_bytes()).exits(0);
        assert_eq!(ran.out(), lines.to_uppercase(), "{kind}");
    };
    on_each(&THIRD_PARTY, |flavour, address, _| serves(flavour.as_str(), address));
    if let Some(perl) = PerlGearmand::start() {
        serves("perl", perl.address());
    }
}
