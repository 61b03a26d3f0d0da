//! A worker on a system that temporarily lacks descriptors or threads.

use std::io::{BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};

use ctl_core::context::Tool;

use crate::program::{Program, Running, hears, signal};
use crate::{Case, until};

/// The message of a waiting worker.
pub const WAITING: &str = "retrying until";

/// A worker and its messages.
pub struct Worker {
    child: Running,
    err: BufReader<ChildStderr>,
    user: Option<u32>,
    _folder: tempfile::TempDir,
}

/// A command run by the worker's user; only for root that is a different one.
pub(crate) fn by(user: Option<u32>, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command
}

/// The user that runs the tool in a test: process limits bind every user but root, and count everything that a user
/// runs, so for root it is an otherwise unused user. A container may have no more than 65,536.
fn user(number: u32) -> Option<u32> {
    assert!(number < 6);
    let user = 10_000 + number * 9_000 + std::process::id() % 9_000;
    rustix::process::getuid().is_root().then_some(user)
}

/// A copy of the tool that every user can run, in a world-readable folder.
pub(crate) fn copied(program: &Program) -> (PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join(program.name);
    // Copied by another process: children of other tests would inherit a file being written, which is busy then.
    let copied = Command::new("cp").arg(program.path).arg(&copy).status();
    assert!(copied.unwrap().success());
    (copy, folder)
}

/// The tool with a limited number of processes and threads, or the maximum, in a folder that its user can read.
/// Concurrent tests have different numbers, up to 5.
#[must_use]
pub fn limited(
    program: &Program,
    number: u32,
    processes: Option<u32>,
) -> (Command, tempfile::TempDir) {
    let (copy, folder) = copied(program);
    let mut command = by(user(number), "prlimit");
    command.args(processes.map(|most| format!("--nproc={most}:")));
    command.arg(copy).current_dir(folder.path());
    (command, folder)
}

impl Worker {
    /// Starts `work` with these arguments.
    #[must_use]
    pub fn start(
        program: &Program,
        address: &str,
        (number, processes): (u32, Option<u32>),
        arguments: &[&str],
    ) -> Self {
        let (mut command, folder) = limited(program, number, processes);
        command.args([program.flag, address, "work"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Running::of(command.spawn().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Self { child, err, user: user(number), _folder: folder }
    }

    /// Limits a resource, or restores the maximum.
    pub fn limit(&self, resource: &str, left: Option<u32>) {
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

    /// Waits for this message.
    pub fn says(&mut self, text: &str) {
        hears(&mut self.err, text);
    }

    /// Ends it as a supervisor does, and returns its exit code.
    #[must_use]
    pub fn terminated(mut self) -> Option<i32> {
        signal(&self.child, rustix::process::Signal::TERM);
        // Everything is read, so that it can write.
        self.err.read_to_string(&mut String::new()).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits for its end. It says no more about what it waits for, except what was on its way already.
    pub fn ends(mut self) {
        let mut rest = String::new();
        self.err.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(rest.matches(WAITING).count() < 2, "{rest}");
    }
}

/// Starts a worker for one job of the queue `mail`, which exists.
fn start<T: Tool>(case: &Case<T>, address: &str, processes: Option<u32>, number: u32) -> Worker {
    case.adds(address, "first");
    let _ = case.run(address, case.pop, &[]).exits(0);
    let line = case.work.split(' ').skip(1).chain(["-c", "1", "--exec", "true"]);
    Worker::start(&case.program, address, (number, processes), &line.collect::<Vec<_>>())
}

/// Its job stays with it meanwhile.
pub fn worker_waits_for_descriptors_and_threads<T: Tool>(case: &Case<T>) {
    for (number, resource, left) in [(0, "nofile", 3), (1, "nproc", 1)] {
        let (server, address) = Case::<T>::server();
        let mut worker = start(case, &address, None, number);
        until(|| (case.waits)(&server) == 1);
        worker.limit(resource, Some(left));
        case.adds(&address, "x");
        worker.says(WAITING);
        assert_eq!((case.held)(&server), 1, "{resource}");
        worker.limit(resource, None);
        worker.ends();
        assert_eq!(((case.jobs)(&server), (case.held)(&server)), (0, 0), "{resource}");
    }
}

/// It takes no job before.
pub fn worker_starts_once_a_thread_is_available<T: Tool>(case: &Case<T>) {
    for is_signalled in [false, true] {
        let (server, address) = Case::<T>::server();
        let mut worker = start(case, &address, Some(1), 2);
        case.adds(&address, "x");
        worker.says(WAITING);
        assert_eq!(((case.jobs)(&server), (case.held)(&server)), (1, 0));
        if is_signalled {
            assert_eq!(worker.terminated(), Some(143));
        } else {
            worker.limit("nproc", None);
            worker.ends();
        }
        assert_eq!((case.jobs)(&server), usize::from(is_signalled));
    }
}
