//! Workers that run a command for every job.

use std::io::{BufRead as _, BufReader, Read as _};
#[cfg(unix)]
use std::process::Child;

use ctl_core::context::Tool;
use serde_json::Value;

use crate::Case;
use crate::exporter::Exporter;
#[cfg(target_os = "linux")]
use crate::program::by_shell;
use crate::program::{Ran, Running, ended, hears, signal};

/// Adds a job, and runs a worker for it with these flags and this shell line.
fn work<T: Tool>(case: &Case<T>, address: &str, flags: &[&str], line: &str) -> Ran {
    case.adds(address, "body");
    let words: Vec<&str> = case.work.split(' ').chain(["-c", "1"]).collect();
    case.program.at(address, &[&words, flags, &["--shell", line]].concat())
}

/// The job, how its command ended, how long it took, the outcome, and the last line of output.
pub fn worker_logs_each_failed_job<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    for (line, how) in [
        ("printf 'one\\ntwo\\033[2J\\n' >&2; exit 3", "exit 3 after"),
        ("printf 'two\\033[2J' >&2; kill -9 $$", "signal 9 after"),
    ] {
        let ran = work(case, &address, &[], line).exits(1);
        let told: Vec<&str> = ran.err.lines().filter(|line| line.contains(how)).collect();
        let [told] = told[..] else { panic!("{told:?}: {}", ran.err) };
        assert!(told.contains("mail: ") && told.ends_with(": two\\x1b[2J"), "{told}");
    }
    let ran = work(case, &address, &["--max-runtime", "10ms"], "sleep 1000").exits(1);
    assert!(ran.err.contains("over --max-runtime after"), "{}", ran.err);
    let ran = work(case, &address, &[], "echo fine >&2").exits(0);
    assert!(!ran.err.contains("exit 0"), "{}", ran.err);
}

/// Everything after `--exec` belongs to the command, which is easily forgotten.
pub fn warns_about_a_flag_passed_to_the_command<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let work: Vec<&str> = case.work.split(' ').chain(["-c", "1"]).collect();
    let run = |flags: &[&str]| {
        case.adds(&address, "body");
        case.program.at(&address, &[&work, flags].concat()).exits(0).err
    };
    let err = run(&["--exec", "echo", "--count=1", "--flag-of-echo"]);
    assert!(err.contains("note: --count is passed to the command; put it before --exec"), "{err}");
    assert!(!err.contains("note: --flag-of-echo"), "{err}");
    assert!(!run(&["--exec", "echo", "--", "--count=1"]).contains("note:"));
    assert!(!run(&["--", "echo", "--count=1"]).contains("note:"));
}

/// The command runs to its end, and no other job is taken.
pub fn first_signal_finishes_running_jobs<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    for _ in 0..2 {
        case.adds(&address, "body");
    }
    let folder = tempfile::tempdir().unwrap();
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let script = format!(
        "touch '{}'; while [ ! -e '{}' ]; do sleep 0.01; done; echo finished >&2",
        begun.display(),
        go.display()
    );
    let words: Vec<&str> = case.work.split(' ').chain(["--shell", &script]).collect();
    let line = [&[case.program.flag, &address], &words[..]].concat();
    let mut worker = Running::of(case.program.command(&line).spawn().unwrap());
    crate::until(|| begun.exists());
    signal(&worker, rustix::process::Signal::TERM);
    let mut err = BufReader::new(worker.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("for running jobs") {
        assert!(err.read_line(&mut said).unwrap() > 0, "{said}");
    }
    std::fs::write(go, "").unwrap();
    err.read_to_string(&mut said).unwrap();
    assert!(said.contains("finished\n"), "{said}");
    assert_eq!(worker.wait().unwrap().code(), Some(143), "{said}");
    assert_eq!((case.jobs)(&server), 1);
}

/// The server gives its job to the next worker at once, whatever the command would still do.
#[cfg(unix)]
pub fn killing_the_worker_kills_its_process_trees<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    case.adds(&address, "body");
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script =
        format!("exec 3>'{}'; echo begun >&3; (sleep 60; echo late >&3) & wait", fifo.display());
    let words: Vec<&str> = case.work.split(' ').chain(["--shell", &script]).collect();
    let line = [&[case.program.flag, &address], &words[..]].concat();
    let mut worker = Running::of(case.program.command(&line).spawn().unwrap());
    let mut commands = BufReader::new(std::fs::File::open(&fifo).unwrap());
    hears(&mut commands, "begun");
    worker.kill().unwrap();
    // All of them hold it open.
    let mut late = String::new();
    commands.read_to_string(&mut late).unwrap();
    assert_eq!(late, "");
    crate::until(|| (case.held)(&server) == 0);
    assert_eq!((case.jobs)(&server), 1);
}

/// A script must not take them for done.
pub fn worker_exits_1_if_every_job_failed<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let ran = work(case, &address, &["-o", "json"], "exit 3").exits(1);
    assert_eq!(ran.error()["code"], "JOBS_FAILED");
    assert!(ran.error()["message"].as_str().unwrap().contains("1 command failed"), "{ran:?}");
}

/// Also while it waits for a job. Its commands do not inherit the manager's variables.
#[cfg(target_os = "linux")]
pub fn worker_notifies_the_service_manager<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    case.adds(&address, "body");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let script = "echo \"socket ${NOTIFY_SOCKET-none}\" >&2";
    let words: Vec<&str> = case.work.split(' ').chain(["--shell", script]).collect();
    let mut command = case.program.command(&[&[case.program.flag, &address], &words[..]].concat());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let mut worker = Running::of(command.spawn().unwrap());
    let hear = || {
        let mut text = [0; 100];
        let length = loop {
            match manager.recv(&mut text) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                heard => break heard.expect("a message to the manager"),
            }
        };
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    let mut err = BufReader::new(worker.stderr.take().unwrap());
    hears(&mut err, "socket none\n");
    let mut heard = vec![hear()];
    let times = |heard: &[String], what| heard.iter().filter(|text| *text == what).count();
    while times(&heard, "WATCHDOG=1") < 3 || times(&heard, "READY=1") == 0 {
        heard.push(hear());
    }
    assert_eq!(times(&heard, "READY=1"), 1, "{heard:?}");
    signal(&worker, rustix::process::Signal::TERM);
    while hear() != "STOPPING=1" {}
    err.read_to_string(&mut String::new()).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(143));
}

/// Of its own work only; the exporter has those of the server.
#[cfg(unix)]
pub fn worker_serves_metrics<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let words: Vec<&str> = case.work.split(' ').collect();
    let worker = |metrics: &str| {
        let flags = ["--metrics", metrics, "--shell", "grep -q good"];
        let line = [&[case.program.flag, &address], &words[..], &flags].concat();
        case.program.command(&line).spawn().unwrap()
    };
    let refused = ended(worker("0.0.0.0:0")).exits(2);
    assert!(refused.err.contains("without --allow-remote"), "{}", refused.err);
    assert!(refused.err.contains("try: --metrics 127.0.0.1:0"), "{}", refused.err);
    case.adds(&address, "good");
    case.adds(&address, "bad");
    let worker = watched(worker("127.0.0.1:0"));
    let name = format!("{}_work_", case.program.prefix.to_lowercase());
    let shows = |text: &str| {
        let metrics = worker.metrics();
        assert!(metrics.ends_with("# EOF\n"), "{metrics}");
        metrics.contains(&format!("\n{name}{text}\n"))
    };
    crate::until(|| shows("commands_total{end=\"succeeded\"} 1.0"));
    crate::until(|| !shows("commands_total{end=\"failed\"} 0.0"));
    assert!(shows("servers_lost 0.0"));
    let (head, body) = worker.get("/healthz");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "ok\n", "{head} {body}");
    let (head, _) = worker.ask("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    worker.end();
}

/// A worker that serves metrics, once it has said where.
#[cfg(unix)]
fn watched(worker: Child) -> Exporter {
    let mut worker = Running::of(worker);
    let mut err = BufReader::new(worker.stderr.take().unwrap());
    let said = hears(&mut err, "/metrics\n");
    let (_, rest) = said.split_once("http://").unwrap();
    Exporter::of(worker, rest.split_once("/metrics").unwrap().0.to_owned())
}

/// A liveness probe must not end it.
#[cfg(unix)]
pub fn worker_is_healthy_while_it_waits_for_its_server<T: Tool>(case: &Case<T>) {
    let (_port, address) = Case::<T>::dead_address();
    let words: Vec<&str> = case.work.split(' ').collect();
    let globals = [case.program.flag, &address, "--wait-for-server", "1h"];
    let flags = ["--metrics", "127.0.0.1:0", "--shell", "true"];
    let line = [&globals[..], &words, &flags].concat();
    let worker = watched(case.program.command(&line).spawn().unwrap());
    assert_eq!(worker.get("/healthz").1, "ok\n");
    worker.end();
}

/// Servers drop a failed job or keep it out of sight.
pub fn failed_jobs_can_be_imported_again<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed").display().to_string();
    let flags = ["--max-idle", "0", "--failed-to", &path, "--shell", "echo why >&2; exit 65"];
    for body in ["one", "two"] {
        case.adds(&address, body);
        let ran = case.run(&address, case.work, &flags).exits(1);
        assert!(ran.err.contains("JOBS_FAILED") || ran.err.contains("succeeded"), "{}", ran.err);
        assert_eq!((case.jobs)(&server), 0, "{}", ran.err);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2, "{text}");
    for (record, body) in records.iter().zip(["one", "two"]) {
        assert_eq!((&record["body"], &record["exit"]), (&body.into(), &65.into()), "{text}");
        assert_eq!(record["stderr"], "why", "{text}");
    }
    let _ = case.program.at(&address, &["import", &path]).exits(0);
    assert_eq!((case.jobs)(&server), 2);
    let refused = case.run(&address, case.work, &["--failed-to", "/dev/null", "--shell", "true"]);
    assert!(refused.exits(2).err.contains("/dev/null is not a file"));
}

/// No file may grow in this process.
#[cfg(target_os = "linux")]
pub fn keeps_a_failed_job_that_cannot_be_recorded<T: Tool>(case: &Case<T>) {
    let (server, address) = case.filled();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed").display().to_string();
    let words = [case.program.flag, &address].into_iter().chain(case.work.split(' '));
    let flags = ["-c", "5", "--max-idle", "1s", "--failed-to", &path, "--shell", "exit 65"];
    let tool = case.program.command(&words.chain(flags).collect::<Vec<_>>());
    let mut shell = by_shell("trap '' XFSZ; ulimit -f 0; exec \"$@\"", &tool);
    let ran = ended(shell.spawn().unwrap()).exits(1);
    assert!(ran.err.contains(": the job is not deleted"), "{}", ran.err);
    assert_eq!((case.jobs)(&server), 1, "{}", ran.err);
}

/// The hint names the flag that makes it wait.
pub fn worker_exits_69_unless_told_to_wait_for_the_server<T: Tool>(case: &Case<T>) {
    let (_port, address) = Case::<T>::dead_address();
    let words: Vec<&str> = case.work.split(' ').chain(["-c", "1", "--shell", "true"]).collect();
    let ran = case.program.at(&address, &words).exits(69);
    assert!(ran.err.contains("try: --wait-for-server 1m"), "{}", ran.err);
    let ran = case.program.at(&address, &[&["--wait-for-server", "50ms"], &words[..]].concat());
    assert!(!ran.exits(69).err.contains("--wait-for-server 1m"));
}

/// By the server's name, not for every slot and attempt; then the work continues.
#[cfg(unix)]
pub fn worker_reports_each_loss_and_return_once<T: Tool>(case: &Case<T>) {
    let port = fixtures::Port::take().unwrap();
    let (server, address) = Case::<T>::server_at(&port);
    case.adds(&address, "body");
    let words: Vec<&str> = case.work.split(' ').chain(["-j", "3", "--shell", "cat >&2"]).collect();
    let line = [&[case.program.flag, &address], &words[..]].concat();
    let mut worker = Running::of(case.program.command(&line).spawn().unwrap());
    let mut err = BufReader::new(worker.stderr.take().unwrap());
    hears(&mut err, " on ");
    drop(server);
    let lost = hears(&mut err, "retrying until it works");
    assert!(lost.contains(&address), "{lost}");
    let _again = Case::<T>::server_at(&port);
    let back = hears(&mut err, "reconnected");
    assert!(back.contains("reconnected to ") && back.contains(&address), "{back}");
    assert!(!back.contains("until it works"), "{back}");
    case.adds(&address, "second");
    hears(&mut err, "second");
    signal(&worker, rustix::process::Signal::TERM);
    assert_eq!(worker.wait().unwrap().code(), Some(143));
}

/// Two tools never ended, and one ended as if it had done everything.
pub fn until_empty_exits_69_if_a_server_is_unreachable<T: Tool>(case: &Case<T>) {
    let (server, address) = case.filled();
    let words = case.work.split(' ').chain(["--max-idle", "0", "--shell", "cat >&2"]);
    let words: Vec<&str> = words.collect();
    let ran = case.program.at(&format!("{address},127.0.0.1:1"), &words).exits(69);
    assert_eq!((case.jobs)(&server), 0, "{}", ran.err);
    assert!(ran.err.contains("127.0.0.1:1 could not be reached, and may have more"), "{}", ran.err);
    assert!(!ran.err.contains("until it works"), "{}", ran.err);
    let _ = case.program.at(&address, &words).exits(0);
}

/// In a pipe as on a terminal. With structured formats, stdout has nothing else.
pub fn worker_prints_results_to_stdout_and_the_summary_to_stderr<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let ran = work(case, &address, &[], "echo result").exits(0);
    assert!(ran.lines().iter().all(|line| *line == "result"), "{ran:?}");
    let last = ran.err.lines().last().unwrap_or_default();
    // With the time, because stderr is not a terminal.
    assert!(last.starts_with("20") && last.contains("Z ") && last.contains(" 0 lost"), "{ran:?}");
    let ran = work(case, &address, &["-o", "json"], "echo result").exits(0);
    assert_eq!(ran.json()["lost"], 0, "{ran:?}");
    let ran = work(case, &address, &["-o", "json"], "printf open; exit 3").exits(1);
    let told = ran.err.lines().find(|line| line.contains("exit 3 after")).expect("the failure");
    assert!(!told.starts_with("open"), "{told}");
    let ran = work(case, &address, &["-o", "ndjson"], "echo result").exits(0);
    let record: Value = ran.json();
    let thousandths = record["duration_ms"].as_f64().unwrap() * 1e3;
    assert!((thousandths - thousandths.round()).abs() < 1e-6, "{record}");
    assert!(record["ts"].as_str().unwrap().ends_with('Z'), "{record}");
}

/// For log collectors.
pub fn worker_logs_json_objects<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    case.adds(&address, "body");
    let words = case.work.split(' ').chain(["-c", "1", "--shell", "echo broken >&2; exit 3"]);
    let line: Vec<&str> = [case.program.flag, &address].into_iter().chain(words).collect();
    let variable = format!("{}_LOG_FORMAT", case.program.prefix);
    let command = case.program.command(&line).env(variable, "json").spawn();
    let ran = ended(command.unwrap()).exits(1);
    // The command's own output passes unchanged.
    let lines = ran.err.lines().filter(|line| *line != "broken");
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().all(|line| line["ts"].is_string() && line["level"].is_string()));
    let failed = lines.iter().find(|line| line["exit"] == 3).expect("the job that failed");
    assert_eq!((&failed["level"], &failed["stderr"]), (&"warn".into(), &"broken".into()));
    assert!(failed["duration_ms"].is_number() && failed["fate"].is_string(), "{failed}");
}

/// The background process holds the command's output open.
#[cfg(target_os = "linux")]
pub fn worker_names_leftover_processes<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let ran = work(case, &address, &[], "sleep 1000 & true").exits(0);
    let said = "killed processes that its command left running: sleep (process ";
    assert!(ran.err.contains(said), "{}", ran.err);
}
