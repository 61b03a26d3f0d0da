//! `gearctl repl` with scripts: from a pipe, `-f` and `-e`, against the in-memory server and the real one.

use std::time::Duration;

use ctl_contract::program::Ran;
use ctl_contract::session::{self, Fed, PATIENTLY};
use fixtures::gearmand::{Flavour, Server};
use gearman_client::Failure;
use gearman_client::blocking::JobContext;

use crate::harness::{PROGRAM, leaves, on_both, serve};

fn repl(address: &str, arguments: &[&str], script: impl AsRef<[u8]>) -> Ran {
    session::repl(&PROGRAM, address, arguments, script)
}

#[test]
fn runs_commands_in_order() {
    on_both(|site| {
        let address = site.address();
        let text = "# no worker yet\nsubmit mail \"\\x00\\xff\" 'b'\nfunctions mail --columns total\n\
                    submit mail <<END\none\ntwo\nEND\nfunctions mail --columns queued\n\
                    function maxqueue mail 3\nsubmit mail 'too many'\n";
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(75), "{ended:?}");
        let lines = ended.lines();
        assert!([0, 1, 3].iter().all(|at| lines[*at].starts_with("H:")), "{ended:?}");
        assert_eq!((lines[2], lines[4]), ("2", "3"), "{ended:?}");
        assert!(ended.says("stdin:10: QUEUE_FULL: "), "{ended:?}");
        assert!(!ended.err.contains("connected") && !ended.out().contains("> "), "{ended:?}");
    });
}

#[test]
fn a_timeout_flag_applies_to_one_command() {
    let server = Server::start().unwrap();
    // ping has its own time limit; run has none, and this one ends by its own flag.
    let text = "ping\nrun nobody x --timeout 200ms\nping -o json\n";
    let ended = repl(server.address(), &["--keep-going"], text);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.err.matches("TIMEOUT").count(), 1, "{ended:?}");
}

#[test]
fn a_session_pings_a_server_that_ignores_echo() {
    let server = Server::builder().flavour(Flavour::Geard).start().unwrap();
    let text = "ping --timeout 4s -o json\nping --timeout 4s\nversion --timeout 100ms\n";
    let ended = repl(server.address(), &[], text);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.says("stdin:3: TIMEOUT"), "{ended:?}");
    assert!(ended.out().contains("\"packet\": \"GET_STATUS\""), "{ended:?}");
    assert_eq!(ended.err.matches("does not answer ECHO_REQ").count(), 1, "{ended:?}");
}

#[test]
fn a_piped_session_sends_no_extra_requests() {
    let server = Server::start().unwrap();
    let ended = repl(server.address(), &[], ":set\nhelp\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.requests().len(), 0);
}

fn upper(job: &mut JobContext<'_>) -> Result<Vec<u8>, Failure> {
    job.status(1, 2)?;
    job.warning(b"careful")?;
    job.data(b"first ")?;
    Ok(job.workload.to_ascii_uppercase())
}

#[test]
fn lists_jobs_and_brings_them_to_the_foreground() {
    on_both(|site| {
        let address = site.address();
        // Queued before a worker starts, so that the order is certain.
        let mut fed = Fed::start(&PROGRAM, address, &["--strict"]);
        let started = ["start up one", "start up 'two'", "submit later x"].map(|line| {
            fed.say(line);
            fed.hear()
        });
        assert!(started.iter().all(|handle| handle.starts_with("H:")), "{started:?}");
        fed.say(":jobs -o name");
        assert_eq!([fed.hear(), fed.hear()], started[..2]);
        let worker = serve(address, "up", 2, upper);
        for line in ["fg", "fg -o ndjson", ":jobs -o json"] {
            fed.say(line);
        }
        worker.join().unwrap();
        let ended = fed.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let (two, one) = ended.out().split_once('{').unwrap();
        assert_eq!(two, "first TWO", "fg brings the last one back");
        let events: Vec<&str> =
            one.lines().map(|line| line.split('"').nth(3).unwrap_or(line)).collect();
        assert!(one.contains("\"event\":\"warning\"") && one.contains("ONE"), "{events:?}");
        assert!(one.ends_with("}\n[]\n"), "{events:?}");
        assert_eq!(ended.err.matches("warning: careful").count(), 1, "{ended:?}");
    });
}

#[test]
fn fg_reports_a_background_failure() {
    on_both(|site| {
        let address = site.address();
        let worker = serve(address, "no", 2, |_| Err(Failure::exception("no such thing")));
        let text = "start no one\nstart no two\nfg\nfg\nfg\n";
        let ended = repl(address, &["--keep-going"], text);
        worker.join().unwrap();
        assert_eq!(ended.code, Some(3), "{ended:?}");
        for line in ["stdin:3: JOB_EXCEPTION: ", "stdin:4: JOB_EXCEPTION: "] {
            assert!(ended.says(line), "{ended:?}");
        }
        assert!(ended.err.contains("no such thing"), "{ended:?}");
    });
}

#[test]
fn lists_or_awaits_running_jobs_at_the_end() {
    on_both(|site| {
        let address = site.address();
        let ended = repl(address, &[], "start nobody a\nstart nobody b\n");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let handles: Vec<&str> = ended.out().lines().collect();
        let said = format!("2 foreground jobs left to the server: {}", handles.join(", "));
        assert!(ended.err.contains(&said), "{ended:?}");
        let ended = repl(address, &["--strict"], "start nobody a\n");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let worker = serve(address, "up", 2, upper);
        let text = ":set on_exit wait\nstart up a\nstart up b\n";
        let ended = repl(address, &["--strict"], text);
        worker.join().unwrap();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out().ends_with("first Afirst B"), "{ended:?}");
    });
}

#[test]
fn fg_accepts_only_jobs_of_the_session() {
    on_both(|site| {
        let text = "fg\nsubmit up x\nfg\nfg H:nope:1\n";
        let ended = repl(site.address(), &["--keep-going"], text);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        for line in [1, 3] {
            let none = format!("stdin:{line}: this session has no running jobs");
            assert!(ended.says(&none), "{ended:?}");
        }
        assert!(ended.says("stdin:4: NOT_FOUND: "), "{ended:?}");
    });
}

#[test]
fn work_in_a_session_leaves_it_unchanged() {
    on_both(|site| {
        let address = site.address();
        let text = "start up one\nwork -f up -c 1 -- tr a-z A-Z\nfg\nversion\n";
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let lines: Vec<&str> = ended.out().lines().collect();
        assert!(lines[1].starts_with("ONE"), "{ended:?}");
        assert!(ended.err.contains("completed 1 job, 0 failed"), "{ended:?}");
    });
}

/// Its thread would keep a connection until the job's timeout.
#[test]
fn a_skipped_run_leaves_nothing_waiting() {
    let server = Server::start().unwrap();
    let address = server.address();
    leaves(address, &["run", "f", "--unique", "-", "x"]);
    let mut fed = Fed::start(&PROGRAM, address, &["--keep-going"]);
    // For packets and for the commands of administration.
    let settles = |when: &str| {
        let settled = server.wait_for(Duration::from_secs(60), |view| view.connections == 2);
        assert!(settled, "{when}: {:?}", server.view());
    };
    fed.say("functions -o ndjson");
    assert!(fed.hear().starts_with('{'));
    settles("before");
    fed.say("run f --unique - x --timeout 1h");
    fed.complains("JOB_SKIPPED");
    settles("afterwards");
    assert_eq!(fed.end().code, Some(3));
}

#[test]
fn reports_a_lost_connection_and_retries_reads() {
    let server = Server::start().unwrap();
    let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
    fed.say("ping --count 1 -o ndjson");
    assert!(fed.hear().starts_with("{"));
    server.close_connections();
    // Noticed by the session before the next line, which would be lost on the broken connection otherwise.
    fed.complains("connection lost");
    fed.say("submit f x");
    assert!(fed.hear().starts_with("H:"));
    fed.say("job --unique nobody -o json");
    let ended = fed.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.err.contains("connection lost"), "already reported: {ended:?}");
    assert_eq!(server.view().jobs, 1);
}

/// The signals that end a session, with its exit codes.
#[cfg(unix)]
fn signals() -> impl Iterator<Item = (rustix::process::Signal, i32)> {
    use rustix::process::Signal;
    let ignores_hup = ctl_core::system::signals::is_hangup_ignored();
    let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
    signals.into_iter().filter(move |(signal, _)| *signal != Signal::HUP || !ignores_hup)
}

#[cfg(unix)]
#[test]
fn signals_end_a_script_in_order() {
    for (signal, code) in signals() {
        for waits in [true, false] {
            let server = Server::start().unwrap();
            let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
            fed.say("start nobody a");
            let handle = fed.hear();
            if waits {
                fed.say("run nobody b");
                assert!(server.wait_for(Duration::from_secs(60), |view| view.jobs == 2));
            }
            fed.signal(signal);
            let ended = fed.ends_by_itself();
            assert_eq!(ended.code, Some(code), "{ended:?}");
            assert!(ended.err.contains(&format!("left to the server: {handle}")), "{ended:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_lets_work_finish_its_job() {
    for (signal, code) in signals() {
        let server = Server::start().unwrap();
        let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
        fed.say("start slow one");
        let handle = fed.hear();
        fed.say("work -f slow -o ndjson --shell 'sleep 1'");
        assert!(server.wait_for(Duration::from_secs(60), |view| view.running == 1));
        fed.signal(signal);
        let log = fed.hear();
        assert!(log.contains(&handle) && log.contains("\"fate\":\"complete\""), "{log}");
        let ended = fed.ends_by_itself();
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

#[test]
fn jobs_continue_after_connect() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let text = format!(
        "start up a\nsubmit later b\nconnect {}\n:jobs --columns state\nstart up b\n\
         :jobs --columns state\n",
        two.address()
    );
    let mut fed = Fed::start(&PROGRAM, one.address(), PATIENTLY);
    text.lines().for_each(|line| fed.say(line));
    let said: Vec<String> = (0..7).map(|_| fed.hear()).collect();
    assert_eq!(
        (&*said[3], &said[5..]),
        ("elsewhere", &["elsewhere", "queued"].map(str::to_owned)[..])
    );
    let workers = [&one, &two].map(|server| serve(server.address(), "up", 1, upper));
    fed.say("fg");
    fed.say("fg");
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let ended = fed.end();
    assert_eq!(ended.code, Some(0), "{said:?} {ended:?}");
    assert_eq!(ended.out(), "first Bfirst A", "{ended:?}");
}
