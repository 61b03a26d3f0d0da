//! A worker on a system that has no descriptor or thread left for a while.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::json;

use crate::harness::*;

/// A worker, and what it says.
struct Worker {
    child: Child,
    err: BufReader<ChildStderr>,
    user: Option<u32>,
    _folder: tempfile::TempDir,
}

/// A command of whoever runs the worker; only for root it is somebody else.
fn by(user: Option<u32>, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command
}

/// Whoever runs the tool in a test: limits of processes bind everybody but root, and count all that a user has, so for
/// root it is a user whom nobody else is. In a container there may be no more than 65,536.
fn user(number: u32) -> Option<u32> {
    assert!(number < 5);
    let user = 10_000 + number * 9_000 + std::process::id() % 9_000;
    rustix::process::getuid().is_root().then_some(user)
}

/// The tool with so many processes and threads, or all that it may have, in a folder that the user can read.
fn limited(user: Option<u32>, processes: Option<u32>) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("gearctl");
    // By another process: what other tests start here would inherit a file that is being written, which is busy then.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_gearctl")).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = by(user, "prlimit");
    command.args(processes.map(|most| format!("--nproc={most}:")));
    command.arg(program).current_dir(folder.path());
    (command, folder)
}

impl Worker {
    /// Starts it for one job.
    fn start(address: &str, processes: Option<u32>, number: u32) -> Self {
        Self::start_as(address, processes, number, &["-f", "f", "--once", "--exec", "true"])
    }

    fn start_as(address: &str, processes: Option<u32>, number: u32, arguments: &[&str]) -> Self {
        let user = user(number);
        let (mut command, folder) = limited(user, processes);
        command.args(["-s", address, "work"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Worker { child, err, user, _folder: folder }
    }

    /// Leaves it so many of a resource, or all that it may have.
    fn limit(&self, resource: &str, left: Option<u32>) {
        let mut command = by(self.user, "prlimit");
        command.args(["--pid", &self.child.id().to_string()]);
        let most = || {
            let hard = ["--noheadings", "--raw", "--output", "HARD", &format!("--{resource}")];
            let output = Command::new("prlimit").args(hard).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let left = left.map_or_else(most, |left| left.to_string());
        let status = command.arg(format!("--{resource}={left}:")).status();
        assert!(status.unwrap().success());
    }

    /// Waits until it has said this.
    fn says(&mut self, text: &str) {
        let mut said = String::new();
        while !said.contains(text) {
            let more = self.err.read_line(&mut said).unwrap();
            assert!(more > 0, "it ended before it said {text:?}: {said}");
        }
    }

    /// Ends it as a supervisor does, and gives its exit code.
    fn terminated(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        // All that it says is read, so that it can say it.
        self.err.read_to_string(&mut String::new()).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits for its end, without a further word about what it waits for.
    fn ends(mut self) {
        let mut rest = String::new();
        self.err.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(!rest.contains(WAITING), "{rest}");
    }
}

const WAITING: &str = "trying again until";

fn is_running(address: &str) -> bool {
    let rows = gearman_client::blocking::Admin::connect(address).unwrap().status().unwrap();
    rows.iter().any(|row| row.running == 1)
}

fn is_gone(address: &str) -> bool {
    let rows = gearman_client::blocking::Admin::connect(address).unwrap().status().unwrap();
    rows.iter().all(|row| row.total == 0)
}

#[test]
fn a_worker_without_a_descriptor_or_thread_waits_for_one_and_says_so_once() {
    for (number, resource, left) in [(0, "nofile", 3), (1, "nproc", 1)] {
        on_both(|server| {
            let address = server.address();
            let mut worker = Worker::start(address, None, number);
            worker.says("serving f");
            worker.limit(resource, Some(left));
            queue(address, "f", b"x");
            worker.says(WAITING);
            assert!(is_running(address));
            worker.limit(resource, None);
            worker.ends();
            assert!(is_gone(address));
        });
    }
}

#[test]
fn a_worker_that_gets_no_thread_at_first_starts_later() {
    on_both(|server| {
        let address = server.address();
        queue(address, "f", b"x");
        let mut worker = Worker::start(address, Some(1), 2);
        worker.says(WAITING);
        assert!(!is_running(address));
        worker.limit("nproc", None);
        worker.ends();
        assert!(is_gone(address));
    });
}

#[test]
fn a_signal_while_a_slot_has_no_thread_lets_the_others_finish() {
    on_both(|server| {
        let address = server.address();
        queue(address, "f", b"x");
        // A thread for the first slot, and none for the second.
        let line = ["-f", "f", "-j", "2", "--builtin", "sleep=2s"];
        let mut worker = Worker::start_as(address, Some(2), 3, &line);
        worker.says(WAITING);
        eventually("the job", || is_running(address).then_some(()));
        assert_eq!(worker.terminated(), Some(143));
        assert!(is_gone(address));
    });
}

#[test]
fn what_a_server_is_can_be_asked_without_a_further_thread() {
    on_both(|server| {
        let (mut command, _folder) = limited(user(4), Some(1));
        let asked =
            command.args(["-s", server.address(), "server", "-o", "json"]).output().unwrap();
        assert_eq!(asked.status.code(), Some(0), "{asked:?}");
        let all: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!((&all["no-answer"], &all["prioritystatus"]), (&json!([]), &json!(true)));
    });
}
