//! Shell workers, with the tool and with the standard tools as clients.

use std::io::Read;
use std::time::{Duration, Instant};

use fixtures::{Dark, gearmand::Server};
use serde_json::{Value, json};

use crate::harness::*;

/// A worker of this tool, once it is registered.
fn worker(address: &str, function: &str, arguments: &[&str]) -> Running {
    let line = [&["-s", address, "work", "-f", function], arguments].concat();
    let worker = Running::of(command(&line).spawn().unwrap());
    workers(address, function, 1);
    worker
}

#[test]
fn a_shell_worker_serves_run_and_the_standard_client() {
    on_both_with_tools(|server| {
        let address = server.address();
        let _worker = worker(address, "wc", &["--exec", "wc", "-l"]);
        let stdin = b"a\nb\nc\n";
        let ours = gearctl_with(address, &["run", "wc"], stdin).exits(0);
        assert_eq!(ours.out().trim(), "3");
        let theirs = fed(server.tool("gearman", &["-f", "wc"]), stdin).exits(0);
        assert_eq!(theirs.out().trim(), "3");
    });
}

#[test]
fn work_serves_the_first_function_first() {
    on_both(|server| {
        let address = server.address();
        for function in ["bulk", "normal", "urgent"] {
            gearctl(address, &["submit", function, "1", "2"]).exits(0);
        }
        let functions = ["-f", "urgent", "-f", "normal", "-f", "bulk"];
        let arguments = ["--builtin", "echo", "-o", "ndjson", "--max-idle", "0"];
        let ran = gearctl(address, &[&["work"], &functions[..], &arguments].concat()).exits(0);
        let jobs = ran.objects();
        let served: Vec<_> = jobs.iter().filter_map(|job| job["function"].as_str()).collect();
        assert_eq!(served, ["urgent", "urgent", "normal", "normal", "bulk", "bulk"]);
    });
}

#[test]
fn the_exit_code_decides_the_outcome() {
    on_both(|server| {
        let address = server.address();
        let line = ["--shell", "read x; exit $x", "-o", "ndjson", "-c", "2"];
        let worker = worker(address, "code", &line);
        assert_eq!(gearctl(address, &["run", "code", "0\n"]).exits(0).out(), "");
        gearctl(address, &["run", "code", "7\n"]).exits(1);
        let ran = worker.ended();
        let ran = ran.exits(0);
        let jobs = ran.objects();
        assert_eq!((&jobs[0]["fate"], &jobs[0]["exit"]), (&json!("complete"), &json!(0)));
        assert_eq!((&jobs[1]["fate"], &jobs[1]["exit"]), (&json!("fail"), &json!(7)));
    });
}

/// Its submitter gets the result of the run that succeeds.
#[test]
fn exit_75_returns_the_job() {
    on_both(|server| {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("mark");
        let shell = format!("[ -e {0} ] || {{ touch {0}; exit 75; }}; echo done", mark.display());
        let worker = worker(server.address(), "f", &["--shell", &shell, "-o", "ndjson", "-c", "2"]);
        assert_eq!(gearctl(server.address(), &["run", "f", "x"]).exits(0).out(), "done\n");
        let ran = worker.ended().exits(0);
        let fates: Vec<_> = ran
            .objects()
            .into_iter()
            .map(|job| (job["fate"].clone(), job["exit"].clone()))
            .collect();
        assert_eq!(fates, [(json!("returned"), json!(75)), (json!("complete"), json!(0))]);
        assert!(
            ran.err.contains("completed 1 job, 0 failed, 0 to the dead-letter queue, 1 given back"),
            "{}",
            ran.err
        );
    });
}

#[test]
fn failed_jobs_go_to_the_dead_letter_function() {
    on_both(|server| {
        let address = server.address();
        queue(address, "f", b"bad");
        queue(address, "f", b"good");
        let flags = ["--dead-letter", "dead", "--shell", "grep -q good", "--max-idle", "0"];
        let ran = gearctl(address, &[&["work", "-f", "f", "-o", "json"], &flags[..]].concat());
        let report = ran.exits(0).json();
        let of = |key: &str| report[key].as_u64().unwrap();
        assert_eq!([of("completed"), of("failed"), of("dead_lettered")], [1, 0, 1]);
        queue(address, "f", b"bad");
        let ran = gearctl(address, &[&["work", "-f", "f", "-o", "ndjson"], &flags[..]].concat());
        let ran = ran.exits(1);
        assert_eq!(
            (&ran.json()["fate"], &ran.json()["exit"]),
            (&json!("dead-lettered"), &json!(1))
        );
        let told: Vec<_> = ran.err.lines().filter(|line| line.contains("dead-lettered")).collect();
        assert_eq!(told.len(), 1, "{}", ran.err);
        assert!(told[0].contains("of f: exit 1") && !ran.err.contains(", failed"), "{}", ran.err);
        let letters = ["work", "-f", "dead", "--shell", "cat >&2", "--max-idle", "0"];
        let ran = gearctl(address, &letters).exits(0);
        assert!(ran.err.contains("bad") && !ran.err.contains("good"), "{}", ran.err);
        let own = ["work", "-f", "f", "-f", "dead", "--dead-letter", "dead", "--exec", "false"];
        let ran = gearctl(address, &own).exits(65);
        assert!(ran.err.contains("dead is the dead-letter function"), "{}", ran.err);
    });
}

#[cfg(unix)]
#[test]
fn a_killed_command_fails_the_job() {
    on_both(|server| {
        let address = server.address();
        let worker = worker(address, "die", &["-c", "1", "-o", "ndjson", "--shell", "kill -9 $$"]);
        gearctl(address, &["run", "die", "x"]).exits(1);
        let ran = worker.ended().exits(1);
        assert_eq!((&ran.json()["signal"], &ran.json()["fate"]), (&json!(9), &json!("fail")));
    });
}

#[test]
fn a_command_may_ignore_its_stdin() {
    in_memory(|server| {
        let address = server.address();
        let _worker = worker(address, "deaf", &["--exec", "true"]);
        let body = vec![b'x'; 1 << 20];
        for _ in 0..2 {
            gearctl_with(address, &["run", "deaf"], &body).exits(0);
        }
    });
}

#[test]
fn stderr_becomes_warnings_and_exceptions() {
    in_memory(|server| {
        let address = server.address();
        let shell = "echo careful >&2; echo out; exit 1";
        let flags =
            ["--warnings", "--exception-from-stderr", "--stream", "lines", "--shell", shell];
        let _worker = worker(address, "warn", &flags);
        let ran = gearctl(address, &["run", "warn", "x"]).exits(1);
        assert_eq!(ran.out(), "out\n");
        assert!(ran.err.contains("warning: careful"), "{}", ran.err);
        assert!(
            ran.err.contains("JOB_EXCEPTION") && ran.err.contains("failed: careful"),
            "{}",
            ran.err
        );
    });
}

#[test]
fn passes_the_job_in_environment_and_arguments() {
    in_memory(|server| {
        let address = server.address();
        let line = "echo $GEARCTL_FUNCTION $GEARCTL_UNIQUE $GEARCTL_HANDLE $0";
        let _worker = worker(address, "env", &["--exec", "sh", "-c", line, "{function}"]);
        let ran = gearctl(address, &["run", "env", "x", "-u", "id-1"]).exits(0);
        let words: Vec<&str> = ran.out().split_whitespace().collect();
        assert_eq!((words[0], words[1], words[3]), ("env", "id-1", "env"));
        assert!(words[2].starts_with("H:"), "{words:?}");
    });
}

#[test]
fn never_runs_a_function_name_in_a_shell() {
    in_memory(|server| {
        let address = server.address();
        let folder = tempfile::tempdir().unwrap();
        let canary = folder.path().join("canary");
        let function = format!("a;touch${{IFS}}{}", canary.display());
        let refused = |handler: &[&str]| {
            let line = [&["work", "-f", &function, "--max-idle", "0"], handler].concat();
            gearctl(address, &line).exits(2).err
        };
        for (place, variable) in
            [("{function}", "$GEARCTL_FUNCTION"), ("{handle}", "$GEARCTL_HANDLE"), ("{file}", "$1")]
        {
            let said = refused(&["--shell", &format!("echo {place}")]);
            assert!(said.contains(place) && said.contains(variable), "{said}");
        }
        refused(&["--exec", "sh", "-c", "echo {function}"]);
        let shell = ["--shell", "echo \"$GEARCTL_FUNCTION\" ${function}."];
        let shell = worker(address, &function, &shell);
        let ran = gearctl(address, &["run", &function, "x"]).exits(0);
        assert_eq!(ran.out(), format!("{function} .\n"));
        drop(shell);
        workers(address, &function, 0);
        let _argument = worker(address, &function, &["--exec", "echo", "{function}"]);
        let ran = gearctl(address, &["run", &function, "x"]).exits(0);
        assert_eq!(ran.out(), format!("{function}\n"));
        assert!(!canary.exists());
    });
}

#[test]
fn builtins_answer() {
    in_memory(|server| {
        let address = server.address();
        for builtin in ["echo", "sleep=1ms"] {
            let function = builtin.split('=').next().unwrap();
            let _worker = worker(address, function, &["--builtin", builtin]);
            assert_eq!(gearctl(address, &["run", function, "a"]).exits(0).out(), "a");
        }
        let _fail = worker(address, "fail", &["--builtin", "fail"]);
        gearctl(address, &["run", "fail", "x"]).exits(1);
        gearctl(address, &["work", "-f", "x", "--builtin", "rot13"]).exits(2);
        gearctl(address, &["work", "-f", "x"]).exits(2);
    });
}

/// Each slot used to try it first, one after the other.
#[test]
fn slots_do_not_wait_for_an_unresponsive_server() {
    let (dark, server) = (Dark::start().unwrap(), Server::start().unwrap());
    queue(server.address(), "mail", b"x");
    let both = format!("{},{}", dark.address(), server.address());
    let line = ["work", "-f", "mail", "-j", "4", "-c", "1", "--builtin", "echo"];
    let start = Instant::now();
    gearctl(&both, &line).exits(0);
    assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
}

#[test]
fn a_worker_ends_at_its_limits() {
    on_both(|server| {
        let address = server.address();
        for body in ["a", "b", "c"] {
            queue(address, "f", body.as_bytes());
        }
        let ran =
            ["work", "-f", "f", "-j", "2", "--builtin", "echo", "--max-idle", "0", "-o", "json"];
        let report = gearctl(address, &ran).exits(0).json();
        assert_eq!(
            report,
            json!({"completed": 3, "failed": 0, "dead_lettered": 0, "returned": 0, "lost": 0, "unknown": 0})
        );
        let idle = ["work", "-f", "f", "--builtin", "echo", "--max-idle", "10ms", "-o", "json"];
        assert_eq!(gearctl(address, &idle).exits(0).json()["completed"], 0);
    });
}

#[cfg(unix)]
#[test]
fn the_second_signal_returns_the_job_and_kills_its_processes() {
    on_both(|server| {
        let address = server.address();
        let directory = tempfile::tempdir().unwrap();
        let begun = directory.path().join("begun");
        let line = format!("sleep 1000 & echo $! > {}; wait", begun.display());
        let handle = queue(address, "stuck", b"x");
        let mut worker = worker(address, "stuck", &["--shell", &line]);
        let pid = eventually("the child", || {
            std::fs::read_to_string(&begun).ok()?.trim().parse::<i32>().ok()
        });
        signal(&worker, rustix::process::Signal::INT);
        // The first one has been seen once the worker reports it.
        let mut said = Vec::new();
        let stderr = worker.stderr.as_mut().unwrap();
        while !String::from_utf8_lossy(&said).contains("for running jobs") {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&byte);
        }
        signal(&worker, rustix::process::Signal::INT);
        let ran = worker.ended().exits(130);
        assert!(ran.err.contains("1 given back, 0 lost"), "{}", ran.err);
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        eventually("the end of the grandchild", || {
            rustix::process::test_kill_process(pid).is_err().then_some(())
        });
        // The server has it again, for another worker.
        let job = gearctl(address, &["job", &handle, "-o", "json"]).exits(0).json();
        assert_eq!((&job["known"], &job["running"]), (&json!(true), &json!(false)));
    });
}

/// A result that its server cannot have is no success.
#[cfg(unix)]
#[test]
fn does_not_complete_a_job_of_a_lost_server() {
    let directory = tempfile::tempdir().unwrap();
    let [begun, end] = ["begun", "end"].map(|name| directory.path().join(name));
    let (first, last) = ("grep -q first", "touch {begun}; until [ -e {end} ]; do sleep 0.02; done");
    let last = last.replace("{begun}", &begun.display().to_string());
    let line = format!("{first} || {{ {}; }}", last.replace("{end}", &end.display().to_string()));
    for stream in [&[][..], &["--stream", "lines"]] {
        let server = Server::start().unwrap();
        let address = server.address().to_owned();
        for workload in [&b"first"[..], b"last"] {
            queue(&address, "f", workload);
        }
        let flags = [&["-c", "2"], stream, &["--shell", &line]].concat();
        let worker = worker(&address, "f", &flags);
        eventually("the command", || begun.exists().then_some(()));
        drop(server);
        std::fs::write(&end, "").unwrap();
        let ran = worker.ended();
        let tally = |lost, unknown| {
            format!(
                "completed 1 job, 0 failed, 0 to the dead-letter queue, 0 given back, {lost} lost, {unknown} unknown"
            )
        };
        // Whether the worker has noticed before it sends the result.
        let is_right = [tally(1, 0), tally(0, 1)].iter().any(|tally| ran.err.contains(tally));
        assert!(is_right, "{}", ran.err);
        for file in [&begun, &end] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_missing_command_returns_the_job() {
    in_memory(|server| {
        let address = server.address();
        let handle = queue(address, "f", b"x");
        gearctl(address, &["work", "-f", "f", "--exec", "/no/such/command"]).exits(127);
        gearctl(address, &["job", &handle]).exits(0);
    });
}

#[test]
fn a_command_over_max_runtime_fails() {
    in_memory(|server| {
        let address = server.address();
        let _worker =
            worker(address, "long", &["--max-runtime", "50ms", "--exec", "sleep", "1000"]);
        gearctl(address, &["run", "long", "x"]).exits(1);
    });
}

#[test]
fn sets_the_worker_name() {
    on_both(|server| {
        let address = server.address();
        let _worker = worker(address, "f", &["--client-id", "shell-1", "--builtin", "echo"]);
        eventually("the name", || {
            let rows = gearctl(address, &["workers", "-f", "f", "-o", "json"]).exits(0).json();
            (rows[0]["id"] == "shell-1").then_some(())
        });
    });
}

#[test]
fn passes_the_workload_as_file_or_argument() {
    in_memory(|server| {
        let address = server.address();
        let line = ["--file", "--shell", "cat; echo; echo $1; cat $1"];
        let _file = worker(address, "file", &line);
        let ran = gearctl(address, &["run", "file", "body"]).exits(0);
        let lines: Vec<&str> = ran.out().lines().collect();
        assert_eq!((lines[0], lines[2]), ("", "body"));
        assert!(!std::path::Path::new(lines[1]).exists(), "{}", lines[1]);
        let _named = worker(address, "named", &["--file", "--exec", "cat", "{file}"]);
        assert_eq!(gearctl(address, &["run", "named", "body"]).exits(0).out(), "body");
        let _arg = worker(address, "arg", &["--arg", "--exec", "printf", "%s|"]);
        let hostile = "$(touch /tmp/x) `y`; \n\"'";
        let ran = gearctl(address, &["run", "arg", hostile]).exits(0);
        assert_eq!(ran.out(), format!("{hostile}|"));
        // A body that cannot be an argument fails its job, not the worker.
        gearctl_with(address, &["run", "arg"], b"a\0b").exits(1);
        gearctl_with(address, &["run", "arg"], &vec![b'x'; 200_000]).exits(1);
        assert_eq!(gearctl(address, &["run", "arg", "x"]).exits(0).out(), "x|");
    });
}

#[test]
fn lines_of_stderr_report_progress() {
    on_both(|server| {
        let address = server.address();
        let shell = "echo STATUS 1/4 >&2; echo careful >&2; echo STATUS 4/4 >&2; echo done";
        let line = ["--warnings", "--status-prefix", "STATUS", "--shell", shell];
        let _worker = worker(address, "f", &line);
        let ran = gearctl(address, &["run", "f", "x", "-o", "ndjson"]).exits(0);
        let events = ran.objects();
        let told: Vec<(&Value, &Value, &Value)> = events[1..4]
            .iter()
            .map(|event| (&event["event"], &event["numerator"], &event["body"]))
            .collect();
        assert_eq!(
            told,
            [
                (&json!("status"), &json!(1), &Value::Null),
                (&json!("warning"), &Value::Null, &json!("careful\n")),
                (&json!("status"), &json!(4), &Value::Null)
            ]
        );
    });
}

/// gearmand#301: the result comes too late, and the server answers it with an error some time later.
#[cfg(unix)]
#[test]
fn a_refused_result_loses_the_job() {
    on_both(|server| {
        let address = server.address();
        queue(address, "slow", b"x");
        let directory = tempfile::tempdir().unwrap();
        let end = directory.path().join("end");
        let script = format!("until [ -e '{}' ]; do sleep 0.02; done; echo done", end.display());
        let flags = ["--can-do-timeout", "1s", "-c", "1", "-o", "ndjson", "--shell"];
        let line = [&["-s", address, "work", "-f", "slow"], &flags[..], &[&script]].concat();
        let worker = Running::of(command(&line).spawn().unwrap());
        eventually("the second try", || {
            let jobs = gearctl(address, &["jobs", "-o", "json"]).exits(0).json();
            (jobs[0]["retries"] == 1).then_some(())
        });
        std::fs::write(&end, "").unwrap();
        let ran = worker.ended().exits(0);
        assert_eq!(ran.json()["fate"], "lost", "{}", ran.err);
        let told = "exit 0 after ";
        let line = ran.err.lines().find(|line| line.contains(told)).expect(&ran.err);
        assert!(
            line.ends_with(", lost (the server no longer counts it as this worker's)"),
            "{line}"
        );
        assert!(
            ran.err.contains(
                "completed 0 jobs, 0 failed, 0 to the dead-letter queue, 0 given back, 1 lost"
            ),
            "{}",
            ran.err
        );
    });
}

#[test]
fn an_unwritable_log_ends_the_worker_after_running_jobs() {
    on_both(|server| {
        let folder = tempfile::tempdir().unwrap();
        queue(server.address(), "f", b"slow");
        queue(server.address(), "f", b"quick");
        let line = "if [ \"$(cat)\" = slow ]; then >began; sleep 1; else until [ -e began ]; do sleep 0.05; done; fi";
        let mut worker = command(&["-s", server.address(), "work", "-f", "f", "-j", "2"]);
        worker.args(["-o", "ndjson", "--shell", line]).current_dir(&folder);
        worker.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        ended(worker.spawn().unwrap()).exits(74);
        let rows = gearman_client::blocking::Admin::connect(server.address()).unwrap().status();
        assert!(rows.unwrap().iter().all(|row| row.total == 0));
    });
}
