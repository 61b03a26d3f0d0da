//! Workers: a command for every job.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use beanstalk_client::PutOptions;
use fixtures::beanstalkd::Server;
use serde_json::{Value, json};

use crate::harness::*;

/// Runs a worker until no job is ready.
fn work(address: &str, arguments: &[&str]) -> Ran {
    bsctl(address, &[&["work", "--max-idle", "0"], arguments].concat())
}

/// The same, with a record for each job.
fn logged(address: &str, arguments: &[&str]) -> Ran {
    work(address, &[&["-o", "ndjson"], arguments].concat())
}

fn fates(ran: &Ran) -> Vec<Value> {
    ran.objects().iter().map(|record| record["fate"].clone()).collect()
}

/// Or the signal, or the time that it takes.
#[test]
fn the_exit_status_decides_the_fate_of_the_job() {
    let handler = "read x; case $x in kill) kill -9 $$;; hang) exec sleep 1000;; esac; exit $x";
    on_both(|address| {
        for (body, flags, fate, after) in [
            ("0", &[][..], "deleted", "gone"),
            ("75", &["--backoff", "100s"], "released", "delayed"),
            ("64", &[], "buried", "buried"),
            ("65", &[], "buried", "buried"),
            ("64", &["--bury-codes", "3,4", "--backoff", "100s"], "released", "delayed"),
            ("3", &["--bury-codes", "3,4"], "buried", "buried"),
            ("7", &["--backoff", "100s"], "released", "delayed"),
            ("7", &["--max-releases", "0"], "buried", "buried"),
            ("kill", &["--backoff", "100s"], "released", "delayed"),
            ("hang", &["--backoff", "100s", "--max-runtime", "50ms"], "released", "delayed"),
        ] {
            let options = PutOptions::default().priority(7);
            let id = put_with(address, "code", body, options);
            let line = [&["-t", "code", "--shell", handler], flags].concat();
            let jobs = logged(address, &line).exits(i32::from(body != "0")).objects();
            let job = &jobs[0];
            assert_eq!((jobs.len(), &job["id"]), (1, &json!(id.get())));
            let exit: Option<i32> = body.parse().ok();
            assert_eq!((&job["fate"], &job["exit"]), (&json!(fate), &json!(exit)), "{body}");
            assert!(body == "hang" || job["signal"] == json!((body == "kill").then_some(9)));
            assert_eq!(job["tube"], json!("code"));
            assert!(job["duration_ms"].as_f64().unwrap() > 0.0);
            assert_eq!(state(address, id), after, "{body} {flags:?}");
            if let Some(stats) = stats(address, id) {
                assert_eq!(stats.pri.get(), 7, "the priority stays");
                client(address).delete(id).unwrap();
            }
        }
    });
}

#[test]
fn dead_jobs_go_to_the_dead_letter_tube() {
    on_both(|address| {
        let options = PutOptions::default().priority(7).ttr(Duration::from_secs(77));
        let id = put_with(address, "default", "bad\0", options);
        let flags = ["--dead-letter", "dead", "--max-releases", "0", "--exec", "false"];
        assert_eq!(logged(address, &flags).exits(1).json()["fate"], "dead-lettered");
        assert_eq!(state(address, id), "gone");
        let dead = bsctl(address, &["pop", "-t", "dead", "-o", "ndjson"]).exits(0).json();
        assert_eq!((&dead["body"], &dead["pri"]), (&json!("bad\0"), &json!(7)));
        assert_eq!(dead["ttr"], 77);
        bsctl(address, &["work", "-t", "dead", "--dead-letter", "dead", "--exec", "true"])
            .exits(65);
    });
}

#[test]
fn exit_code_75_does_not_count_as_a_failure() {
    on_both(|address| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("failed");
        let id = put(address, "default", "bad");
        let limits = ["--max-releases", "2", "--backoff", "0..0,x1"];
        let script = "test $BSCTL_RELEASES -ge 2 || exit 75; exit 1";
        let line = [&limits[..], &["--failed-to", file.to_str().unwrap(), "--shell", script]];
        let ran = logged(address, &line.concat()).exits(1);
        assert_eq!(fates(&ran), ["released", "released", "released", "released", "recorded"]);
        assert_eq!(state(address, id), "gone");
    });
}

#[test]
fn delays_grow_with_the_job_counters() {
    on_both(|address| {
        let id = put(address, "default", "x");
        for delay in [1000, 3000, 5000, 5000] {
            let flags = ["--backoff", "1000s..5000s,x3", "--exec", "false"];
            assert_eq!(logged(address, &flags).exits(1).json()["fate"], "released");
            let stats = stats(address, id).unwrap();
            assert_eq!((stats.state.to_string().as_str(), stats.delay), ("delayed", delay));
            client(address).kick(1).unwrap();
        }
        // Each of the kicks has granted as many again.
        let ran = work(address, &["--max-releases", "0", "--exec", "false"]).exits(1);
        assert!(ran.err.contains("1 buried"), "{}", ran.err);
        assert_eq!(state(address, id), "buried");
    });
}

#[test]
fn a_command_may_ignore_its_stdin() {
    on_both(|address| {
        for _ in 0..3 {
            put(address, "default", vec![b'x'; 60_000]);
        }
        let ran = work(address, &["--exec", "true"]).exits(0);
        assert!(ran.err.contains("deleted 3 jobs, 0 released"), "{}", ran.err);
    });
}

#[test]
fn passes_the_job_in_environment_and_arguments() {
    in_memory(|address| {
        let options = PutOptions::default().priority(5).ttr(Duration::from_secs(77));
        let id = put_with(address, "mail", "x", options);
        let line = "echo $BSCTL_JOB_ID $BSCTL_TUBE $BSCTL_PRI $BSCTL_TTR $BSCTL_AGE $BSCTL_RESERVES \
                    $BSCTL_TIMEOUTS $BSCTL_RELEASES $BSCTL_KICKS $0 $1";
        let handler = ["--exec", "sh", "-c", line, "a{id}b", "{tube}"];
        let ran = work(address, &[&["-t", "mail", "-o", "table"], &handler[..]].concat()).exits(0);
        let words: Vec<&str> = ran.lines()[0].split_whitespace().collect();
        let id = id.to_string();
        assert_eq!(&words[..4], [id.as_str(), "mail", "5", "77"]);
        assert_eq!(&words[5..], ["1", "0", "0", "0", format!("a{id}b").as_str(), "mail"]);
    });
}

#[test]
fn never_runs_a_tube_name_in_a_shell() {
    in_memory(|address| {
        let folder = tempfile::tempdir().unwrap();
        let canary = folder.path().join("canary");
        let tube = format!("a;touch$IFS{}", canary.display());
        let id = put(address, &tube, "x");
        let work =
            |handler: &[&str]| work(address, &[&["-t", &tube, "-o", "table"], handler].concat());
        for handler in [&["--shell", "echo {tube}"][..], &["--exec", "sh", "-c", "echo {tube}"]] {
            let ran = work(handler).exits(2);
            assert!(ran.err.contains("{tube}") && ran.err.contains("$BSCTL_TUBE"), "{}", ran.err);
        }
        let ran = work(&["--shell", "echo {id}"]).exits(2);
        assert!(ran.err.contains("{id}") && ran.err.contains("$BSCTL_JOB_ID"), "{}", ran.err);
        assert_eq!(stats(address, id).unwrap().reserves, 0, "refused before anything is reserved");
        let ran = work(&["--shell", "echo \"$BSCTL_TUBE\" ${tube}."]).exits(0);
        assert_eq!(ran.lines()[0], format!("{tube} ."));
        put(address, &tube, "x");
        let ran = work(&["--exec", "echo", "{tube}"]).exits(0);
        assert_eq!(ran.lines()[0], tube);
        assert!(!canary.exists());
    });
}

#[test]
fn passes_the_body_as_an_argument_only_on_request() {
    in_memory(|address| {
        let folder = tempfile::tempdir().unwrap();
        let canary = folder.path().join("canary");
        let hostile = [
            format!("$(touch {})", canary.display()),
            format!("; touch {}\n", canary.display()),
            format!("`touch {}`", canary.display()),
            "{id} {tube} {file}".to_owned(),
        ];
        for body in &hostile {
            put(address, "default", body);
        }
        let ran = work(address, &["-o", "table", "--exec", "cat"]).exits(0);
        assert!(hostile.iter().all(|body| ran.out().contains(body.as_str())), "{}", ran.out());
        for body in &hostile {
            put(address, "default", body);
        }
        let ran = work(address, &["-o", "table", "--arg", "--exec", "printf", "<%s>"]).exits(0);
        for body in &hostile {
            assert!(ran.out().contains(&format!("<{body}>")), "{}", ran.out());
        }
        assert!(!canary.exists());
        let nul = put(address, "default", b"a\0b");
        let ran = work(address, &["--arg", "--exec", "true"]).exits(1);
        assert!(ran.err.contains("NUL"), "{}", ran.err);
        assert_eq!(state(address, nul), "buried");
    });
}

#[test]
fn the_body_can_be_in_a_file() {
    in_memory(|address| {
        put(address, "default", b"in a file\0");
        let handler =
            ["--file", "-o", "table", "--exec", "sh", "-c", "cat $0; ls -l $0; cat", "{file}"];
        let ran = work(address, &handler).exits(0);
        assert!(ran.bytes.starts_with(b"in a file\0"), "{}", ran.out());
        let listed = ran.out().split('\0').nth(1).unwrap();
        if cfg!(unix) {
            assert!(listed.starts_with("-rw-------"), "{listed}");
        }
        let path = listed.split_whitespace().find(|word| word.contains("/job-")).unwrap();
        assert!(!Path::new(path).exists());
        // By default, it is the last argument; in a shell line, the first.
        for handler in [&["--exec", "cat"][..], &["--shell", "cat \"$1\""]] {
            put(address, "default", b"at the end");
            let ran = work(address, &[&["--file", "-o", "table"], handler].concat()).exits(0);
            assert!(ran.bytes.starts_with(b"at the end"), "{}", ran.out());
        }
    });
}

#[test]
fn a_missing_command_releases_the_job_and_ends_the_worker() {
    in_memory(|address| {
        let ids: Vec<_> = (0..3).map(|_| put(address, "default", "x")).collect();
        let ran = work(address, &["-o", "json", "--exec", "/no/such/command"]).exits(127);
        assert!(ran.error()["message"].as_str().unwrap().contains("/no/such/command"));
        work(address, &["--shell", "/no/such/command"]).exits(127);
        work(address, &["--exec", "/dev/null"]).exits(126);
        for id in ids {
            assert_eq!(state(address, id), "ready");
        }
    });
}

#[cfg(unix)]
#[test]
fn touches_the_job_of_a_long_command() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let ttr = Duration::from_secs(2);
    let id = put_with(server.address(), "default", "x", PutOptions::default().ttr(ttr));
    let slow = Slow::start(server.address(), &["-c", "1"]);
    outlives_the_time_to_run(&server, ttr);
    slow.go();
    let ran = slow.ended().exits(0);
    assert!(ran.err.contains("deleted 1 job"), "{}", ran.err);
    assert!(ran.err.contains("time to run of only 2s"), "{}", ran.err);
    assert_eq!(state(server.address(), id), "gone");
}

/// One that is lost instead would be ready again at once, with its counters unchanged, ahead of all others.
#[test]
fn ends_a_command_at_the_time_to_run() {
    // On a busy machine, a short time is over before the command has ended.
    assert!([2, 8, 30].into_iter().any(ends_a_command_within));
}

/// Whether the job was released before its time to run was over.
fn ends_a_command_within(seconds: u64) -> bool {
    // The server's clock stands still, so that only the worker can take the job for lost.
    let server = Server::builder().virtual_clock().start().unwrap();
    let address = server.address();
    let ttr = |seconds| PutOptions::default().ttr(Duration::from_secs(seconds));
    let id = put_with(address, "default", "hang", ttr(seconds));
    let next = put_with(address, "default", "fine", ttr(60));
    let handler = "read body; case $body in hang) sleep 1000;; esac";
    let rules = ["--touch", "never", "--backoff", "1h..1h,x1", "-o", "ndjson"];
    let line = [&["work", "-c", "2"], &rules[..], &["--shell", handler]].concat();
    let ran = bsctl(address, &line).exits(0);
    assert!(ran.err.contains(": at the end of its time to run after"), "{}", ran.err);
    if fates(&ran) == ["lost", "deleted"] {
        return false;
    }
    assert_eq!(fates(&ran), ["released", "deleted"], "{}", ran.err);
    assert_eq!([state(address, id), state(address, next)], ["delayed", "gone"]);
    true
}

#[test]
fn a_worker_ends_at_its_limits() {
    on_both(|address| {
        for _ in 0..5 {
            put(address, "default", "x");
        }
        let ran = |arguments: &[&str]| {
            let line = [&["work", "-o", "json"], arguments, &["--exec", "true"]].concat();
            bsctl(address, &line).exits(0).json()["deleted"].clone()
        };
        assert_eq!(ran(&["-c", "1"]), 1);
        assert_eq!(ran(&["-c", "2", "-j", "4"]), 2);
        assert_eq!(ran(&["--max-idle", "1s"]), 2);
        assert_eq!(ran(&["--max-idle", "0"]), 0);
    });
}

#[test]
fn several_jobs_run_at_once() {
    in_memory(|address| {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            put(address, "default", "x");
        }
        // Each waits for the two others.
        let line = format!(
            "cd {}; touch $BSCTL_JOB_ID; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.01; done",
            folder.path().display()
        );
        let ran = work(address, &["-j", "3", "--shell", &line]).exits(0);
        assert!(ran.err.contains("deleted 3 job"), "{}", ran.err);
    });
}

#[test]
fn rejects_mistakes_before_connecting() {
    let dead = dead_address();
    bsctl(&dead, &["work"]).exits(2);
    bsctl(&dead, &["work", "--shell", "true", "--exec", "true"]).exits(2);
    bsctl(&dead, &["work", "--backoff", "2h..1s", "--exec", "true"]).exits(2);
    bsctl(&dead, &["work", "--dry-run", "--exec", "true"]).exits(2);
    bsctl(&dead, &["work", "-t", "a b", "--exec", "true"]).exits(65);
    bsctl(&dead, &["work", "--exec", "true"]).exits(69);
}

/// A worker whose command waits for a file, and writes its own process id into another one.
#[cfg(unix)]
struct Slow {
    folder: tempfile::TempDir,
    child: Running,
}

#[cfg(unix)]
impl Slow {
    fn start(address: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "cd {}; sleep 1000 & echo $! > pid.new; mv pid.new pid; while [ ! -e go ]; do sleep 0.01; done; kill $!",
            folder.path().display()
        );
        let line = [&["-a", address, "work"], arguments, &["--shell", &line]].concat();
        let child = Running::of(command(&line).spawn().unwrap());
        Slow { folder, child }
    }

    /// The process that the command has started.
    fn grandchild(&self) -> rustix::process::Pid {
        let path = self.folder.path().join("pid");
        let pid = eventually("the command", || std::fs::read_to_string(&path).ok());
        rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
    }

    fn go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    /// Waits until the worker reports that it is stopping.
    fn is_stopping(&mut self) {
        let mut said = Vec::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        while !String::from_utf8_lossy(&said).contains("for running jobs") {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&byte);
        }
    }

    fn ended(self) -> Ran {
        self.child.ended()
    }
}

#[cfg(unix)]
fn is_gone(pid: rustix::process::Pid) {
    eventually("the end of the grandchild", || {
        rustix::process::test_kill_process(pid).is_err().then_some(())
    });
}

/// The signals that end a worker, and its exit codes.
#[cfg(unix)]
fn endings() -> Vec<(rustix::process::Signal, i32)> {
    use rustix::process::Signal;
    let mut all = vec![(Signal::TERM, 143), (Signal::INT, 130)];
    if !ctl_core::system::signals::is_hangup_ignored() {
        all.push((Signal::HUP, 129));
    }
    all
}

#[cfg(unix)]
#[test]
fn first_signal_finishes_running_jobs() {
    on_both(|address| {
        for (sent, code) in endings() {
            let id = put(address, "default", "x");
            let mut slow = Slow::start(address, &["-o", "json"]);
            slow.grandchild();
            let next = put(address, "default", "not to be taken");
            signal(&slow.child, sent);
            slow.is_stopping();
            assert_eq!(state(address, id), "reserved");
            // A terminal that goes away may signal it twice.
            signal(&slow.child, rustix::process::Signal::HUP);
            slow.go();
            let ran = slow.ended().exits(code);
            assert_eq!(ran.json()["deleted"], 1);
            assert_eq!((state(address, id), state(address, next)), ("gone".into(), "ready".into()));
            client(address).delete(next).unwrap();
        }
    });
}

#[cfg(unix)]
#[test]
fn the_second_signal_releases_the_job_and_kills_its_processes() {
    on_both(|address| {
        let id = put_with(address, "default", "x", PutOptions::default().priority(7));
        let mut slow = Slow::start(address, &["-o", "json"]);
        let grandchild = slow.grandchild();
        signal(&slow.child, rustix::process::Signal::INT);
        slow.is_stopping();
        signal(&slow.child, rustix::process::Signal::INT);
        let ran = slow.ended().exits(130);
        assert_eq!(ran.json()["released"], 1);
        is_gone(grandchild);
        assert_eq!(
            (state(address, id), stats(address, id).unwrap().pri.get()),
            ("ready".into(), 7)
        );
    });
}

#[cfg(unix)]
#[test]
fn the_end_of_the_grace_acts_like_a_second_signal() {
    on_both(|address| {
        let id = put(address, "default", "x");
        let slow = Slow::start(address, &["--grace", "100ms", "-o", "json"]);
        let grandchild = slow.grandchild();
        signal(&slow.child, rustix::process::Signal::TERM);
        let ran = slow.ended().exits(143);
        assert_eq!(ran.json()["released"], 1);
        is_gone(grandchild);
        assert_eq!(state(address, id), "ready");
    });
}

/// Under nohup, a worker outlives its terminal.
#[cfg(unix)]
#[test]
fn a_worker_under_nohup_ignores_sighup() {
    in_memory(|address| {
        let folder = tempfile::tempdir().unwrap();
        let jobs = [put(address, "default", "x"), put(address, "default", "x")];
        let line = "> begun-$BSCTL_JOB_ID; while [ ! -e go-$BSCTL_JOB_ID ]; do sleep 0.01; done";
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_bsctl")]);
        ignoring.args(["-a", address, "work", "-c", "2", "-o", "json", "--shell", line]);
        ignoring.current_dir(folder.path());
        ignoring.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = ignoring.spawn().unwrap();
        for id in jobs {
            let begun = folder.path().join(format!("begun-{id}"));
            eventually("the command", || begun.exists().then_some(()));
            signal(&child, rustix::process::Signal::HUP);
            std::fs::write(folder.path().join(format!("go-{id}")), "").unwrap();
        }
        let ran = ended(child).exits(0);
        assert_eq!(ran.json()["deleted"], 2);
    });
}

/// B25: no job is lost, and no process is left behind.
#[cfg(unix)]
#[test]
fn a_killed_worker_loses_no_job() {
    on_both(|address| {
        let options = PutOptions::default().priority(7);
        let id = put_with(address, "default", "x", options);
        let mut slow = Slow::start(address, &[]);
        let grandchild = slow.grandchild();
        slow.child.kill().unwrap();
        eventually("the job", || (state(address, id) == "ready").then_some(()));
        let stats = stats(address, id).unwrap();
        assert_eq!((stats.pri.get(), stats.reserves, stats.releases), (7, 1, 0));
        is_gone(grandchild);
        slow.child.wait().unwrap();
    });
}

/// The connection breaks while a command runs: it is ended, and the job goes to the first worker that asks.
#[cfg(unix)]
#[test]
fn a_lost_job_ends_its_command() {
    let server = Server::start().unwrap();
    let address = server.address();
    let id = put(address, "default", "x");
    let slow = Slow::start(address, &["-c", "2", "-o", "ndjson"]);
    let grandchild = slow.grandchild();
    server.close_connections();
    is_gone(grandchild);
    slow.go();
    let ran = slow.ended().exits(0);
    // The same one, again.
    assert_eq!(fates(&ran), ["lost", "deleted"], "{}", ran.err);
    assert!(ran.err.contains("reconnected to"), "{}", ran.err);
    assert_eq!(state(address, id), "gone");
}

#[test]
fn a_refused_dead_letter_is_buried() {
    let server = Server::start().unwrap();
    let address = server.address();
    let id = put(address, "default", "bad");
    server.drain();
    let flags = ["--dead-letter", "dead", "--max-releases", "0", "--exec", "false"];
    let ran = logged(address, &flags).exits(1);
    assert!(ran.err.contains("answers put with DRAINING; its job is buried"), "{}", ran.err);
    assert_eq!(fates(&ran), ["buried"]);
    assert_eq!(state(address, id), "buried");
}
