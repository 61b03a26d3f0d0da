//! A worker on a system that has no descriptor or thread left for a while.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};

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
    let program = folder.path().join("bsctl");
    // By another process: what other tests start here would inherit a file that is being written, which is busy then.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_bsctl")).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = by(user, "prlimit");
    command.args(processes.map(|most| format!("--nproc={most}:")));
    command.arg(program).current_dir(folder.path());
    (command, folder)
}

impl Worker {
    /// Starts it for one job.
    fn start(address: &str, processes: Option<u32>, number: u32) -> Self {
        Self::start_as(address, processes, number, &["--once", "--exec", "true"])
    }

    fn start_as(address: &str, processes: Option<u32>, number: u32, arguments: &[&str]) -> Self {
        let user = user(number);
        let (mut command, folder) = limited(user, processes);
        command.args(["-a", address, "work"]).args(arguments);
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

    /// Waits until it waits for a job.
    fn waits(&mut self, address: &str) {
        self.says("taking jobs");
        while client(address).stats().unwrap().current_waiting == 0 {
            std::thread::yield_now();
        }
    }

    /// Ends it as a supervisor does, and gives its exit code.
    fn terminated(mut self) -> Option<i32> {
        signal(&self.child, rustix::process::Signal::TERM);
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

#[test]
fn a_worker_without_a_descriptor_waits_for_one_and_says_so_once() {
    on_both(|address| {
        let mut worker = Worker::start(address, None, 0);
        worker.waits(address);
        worker.limit("nofile", Some(3));
        let id = put(address, "default", "x");
        worker.says(WAITING);
        assert_eq!(state(address, id), "reserved");
        worker.limit("nofile", None);
        worker.ends();
        assert_eq!(state(address, id), "gone");
    });
}

#[test]
fn a_worker_without_a_thread_waits_for_one_and_says_so_once() {
    on_both(|address| {
        let mut worker = Worker::start(address, None, 1);
        worker.waits(address);
        worker.limit("nproc", Some(1));
        let id = put(address, "default", "x");
        worker.says(WAITING);
        assert_eq!(state(address, id), "reserved");
        worker.limit("nproc", None);
        worker.ends();
        assert_eq!(state(address, id), "gone");
    });
}

#[test]
fn a_worker_that_gets_no_threads_at_first_starts_later() {
    // One for the process; then one more, for what runs the slots.
    for limit in [1, 2] {
        on_both(|address| {
            let id = put(address, "default", "x");
            let mut worker = Worker::start(address, Some(limit), 1 + limit);
            worker.says(WAITING);
            assert_eq!(state(address, id), "ready");
            worker.limit("nproc", None);
            worker.ends();
            assert_eq!(state(address, id), "gone");
        });
    }
}

#[test]
fn a_signal_ends_a_worker_that_gets_no_threads_as_any_other() {
    for limit in [1, 2] {
        on_both(|address| {
            let id = put(address, "default", "x");
            let mut worker = Worker::start(address, Some(limit), 4);
            worker.says(WAITING);
            assert_eq!(worker.terminated(), Some(143));
            assert_eq!(state(address, id), "ready");
        });
    }
}
