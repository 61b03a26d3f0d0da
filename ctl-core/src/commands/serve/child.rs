//! The command that a server is started for, which ends with the server and leaves no processes behind.

use std::ffi::OsString;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{CliError, Exit};
use crate::system::process;
use crate::system::signals::Interrupts;

/// How often to check the child.
const SLICE: Duration = Duration::from_millis(20);
/// How long a child may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command with the server's address in these environment variables, and returns its exit code. A signal, or
/// `gone`, ends it.
pub(super) fn run(
    command: &[OsString],
    (variables, address): (&[&str], &str),
    interrupts: &Interrupts,
    gone: impl Fn() -> bool,
) -> Result<Exit, CliError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Exit::Done) };
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|name| (name, address)));
    let own_group = process::separate(&mut command);
    let name = program.to_string_lossy();
    let child = process::spawn(&mut command)?;
    let mut running = Running { child, own_group };
    let wait_failed = |error| CliError::internal(format!("cannot wait for {name}: {error}"));
    loop {
        if let Some(status) = running.child.try_wait().map_err(wait_failed)? {
            return Ok(Exit::Own(process::code(status)));
        }
        if let Some(exit) = interrupts.requested() {
            running.end();
            return Ok(exit);
        }
        if gone() {
            running.end();
            return Ok(Exit::Done);
        }
        thread::sleep(SLICE);
    }
}

/// A child that does not outlive this value.
struct Running {
    child: Child,
    own_group: bool,
}

impl Running {
    /// Asks the child to end, and kills it if it does not.
    fn end(&mut self) {
        process::terminate(&self.child, self.own_group);
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(SLICE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Kills what the command has started and left behind.
        process::kill(&self.child, self.own_group);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
