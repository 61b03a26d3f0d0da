//! The command that a server is started for, which ends with the server and leaves no processes behind.

use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::error::{CliError, Exit};
use crate::system::family::Family;
use crate::system::pause::wait;
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
    let mut family = Family::of(process::spawn(&mut command)?, own_group);
    loop {
        if family.has_ended() {
            // Including what it has started and left behind.
            family.kill();
            let status = family
                .reap()
                .map_err(|error| CliError::internal(format!("cannot wait for {name}: {error}")))?;
            return Ok(Exit::Own(process::code(status)));
        }
        let exit = interrupts.requested().or_else(|| gone().then_some(Exit::Done));
        if let Some(exit) = exit {
            family.terminate();
            wait(GRACE, SLICE, || family.has_ended());
            return Ok(exit);
        }
        thread::sleep(SLICE);
    }
}
