//! Starts children, and reports how they ended.

use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, JoinHandle};

use crate::error::{CliError, Exit};
use crate::system::signals;

pub(crate) use system::is_shortage;
pub use system::{group, signal};

/// Starts the command.
///
/// # Errors
/// It does not exist: exit 127; it cannot be run: exit 126; the system has no room for it now: exit 75.
pub fn spawn(command: &mut Command) -> Result<Child, CliError> {
    signals::heed_children();
    let spawned = command.spawn();
    spawned.map_err(|error| {
        let name = command.get_program().to_string_lossy();
        let message = format!("cannot run {name}: {error}");
        if is_shortage(&error) {
            CliError::shortage(message)
        } else if error.kind() == io::ErrorKind::NotFound {
            CliError::new(Exit::Own(127), "NOT_FOUND", format!("command {name} does not exist"))
        } else {
            CliError::new(Exit::Own(126), "IO", message)
        }
    })
}

/// The error for a client failure caused by this machine, not the server: no resources left (75), or missing permission
/// (77), such as for another user's socket. `None` for any other cause.
#[must_use]
pub fn refused_here(error: &impl Display, cause: Option<&io::Error>) -> Option<CliError> {
    let cause = cause?;
    if is_shortage(cause) {
        return Some(CliError::shortage(error.to_string()));
    }
    let is_denied = cause.kind() == io::ErrorKind::PermissionDenied;
    is_denied.then(|| CliError::denied(error.to_string()))
}

/// The error for a thread that cannot be started: exit 75 if the system has none left, else 70.
#[must_use]
pub fn no_thread(error: &io::Error) -> CliError {
    let message = format!("cannot start a thread: {error}");
    if is_shortage(error) { CliError::shortage(message) } else { CliError::internal(message) }
}

/// Starts a thread of this name.
///
/// # Errors
/// The system cannot start it: exit 75 or 70.
pub fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CliError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| no_thread(&error))
}

/// Gives the command its own process group, so that all of it can be ended, and returns whether it has one. Not at a
/// terminal, where the child must stay in the foreground to read.
pub fn separate(command: &mut Command) -> bool {
    !std::io::stdin().is_terminal() && group(command)
}

/// The child's exit code, or 128 plus the signal that ended it.
pub fn code(status: ExitStatus) -> u8 {
    if let Some(signal) = signal(status) {
        return u8::try_from(128 + signal).unwrap_or(255);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

#[cfg(unix)]
mod system {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, ExitStatus};

    use rustix::io::Errno;

    /// Whether the system temporarily has no free descriptor, process, thread or memory.
    pub(crate) fn is_shortage(error: &std::io::Error) -> bool {
        let shortages = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
        Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
    }

    /// Gives the command its own process group, for a child that does not read from the terminal. Returns whether the
    /// system has such groups.
    pub fn group(command: &mut Command) -> bool {
        command.process_group(0);
        true
    }

    /// The signal that ended the child.
    pub fn signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }
}

#[cfg(not(unix))]
mod system {
    use std::process::{Command, ExitStatus};

    pub(crate) fn is_shortage(error: &std::io::Error) -> bool {
        error.kind() == std::io::ErrorKind::OutOfMemory
    }

    /// This system has no such groups.
    pub fn group(_: &mut Command) -> bool {
        false
    }

    /// This system does not tell.
    pub fn signal(_: ExitStatus) -> Option<i32> {
        None
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_exit_codes_and_signals() {
        let status = |line| Command::new("sh").args(["-c", line]).status().unwrap();
        let killed = status("kill -TERM $$");
        assert_eq!((signal(killed), code(killed)), (Some(15), 143));
        let failed = status("exit 7");
        assert_eq!((signal(failed), code(failed)), (None, 7));
    }
}
