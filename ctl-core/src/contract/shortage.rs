//! A worker on a system that has no descriptor or thread left for a while.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};

use super::program::{Program, Running, signal};

/// What a worker says that waits for room.
pub const WAITING: &str = "retrying until";

/// A worker, and what it says.
pub struct Worker {
    child: Running,
    err: BufReader<ChildStderr>,
    user: Option<u32>,
    _folder: tempfile::TempDir,
}

/// A command of whoever runs the worker; only for root it is somebody else.
pub(super) fn by(user: Option<u32>, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user);
    }
    command
}

/// Whoever runs the tool in a test: limits of processes bind everybody but root, and count all that a user has, so for
/// root it is a user whom nobody else is. In a container there may be no more than 65,536.
fn user(number: u32) -> Option<u32> {
    assert!(number < 6);
    let user = 10_000 + number * 9_000 + std::process::id() % 9_000;
    rustix::process::getuid().is_root().then_some(user)
}

/// A copy of the tool that every user can run, in a folder that everybody can read.
pub(super) fn copied(program: &Program) -> (PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join(program.name);
    // By another process: what other tests start here would inherit a file that is being written, which is busy then.
    let copied = Command::new("cp").arg(program.path).arg(&copy).status();
    assert!(copied.unwrap().success());
    (copy, folder)
}

/// The tool with so many processes and threads, or all that it may have, in a folder that its user can read. Tests that
/// run at the same time have different numbers, up to 5.
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

    /// Leaves it so many of a resource, or all that it may have.
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

    /// Waits until it has said this.
    pub fn says(&mut self, text: &str) {
        let mut said = String::new();
        while !said.contains(text) {
            let more = self.err.read_line(&mut said).unwrap();
            assert!(more > 0, "it ended before it said {text:?}: {said}");
        }
    }

    /// Ends it as a supervisor does, and gives its exit code.
    #[must_use]
    pub fn terminated(mut self) -> Option<i32> {
        signal(&self.child, rustix::process::Signal::TERM);
        // All that it says is read, so that it can say it.
        self.err.read_to_string(&mut String::new()).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Waits for its end, without a further word about what it waits for.
    pub fn ends(mut self) {
        let mut rest = String::new();
        self.err.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(!rest.contains(WAITING), "{rest}");
    }
}
