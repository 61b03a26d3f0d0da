//! The pid file, for supervisors.
//!
//! Its process holds a lock on it, which ends with the process however that ends. The number alone proves nothing: the
//! system gives it to another process in time. It counts only on file systems without locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;
use crate::system::files::{self, Ours};
use crate::system::process;

/// A pid file; removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub struct PidFile {
    _file: Ours,
}

/// What is at the path.
enum There {
    Nothing,
    /// The file of a process that has ended; locked until it is replaced, so that only one process takes it over. The
    /// number may be that of another process now.
    Stale(File, Option<u32>),
    /// Another process is taking it over.
    Contended,
    Running(u32),
    /// Not a pid file.
    Foreign,
}

/// How often to check a contended path, and the pause in between.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than any process id.
const LONGEST: u64 = 32;

impl PidFile {
    /// Writes the id of this process. Takes over the file of a process that has ended, and says so if its number is that
    /// of a running one. Symbolic links are not followed.
    ///
    /// # Errors
    /// The process of the file still runs: exit 1. The file is not a pid file, or cannot be written: exit 74.
    pub fn create(path: &Path, messages: &Messages) -> Result<Self, CliError> {
        let name = path.to_string_lossy();
        let written = |file: io::Result<File>| match file {
            Ok(file) => Ok(Self { _file: Ours::new(path, file) }),
            Err(error) => Err(CliError::writing(&name, &error)),
        };
        let new = || ours(path).map_err(|error| CliError::writing(&name, &error));
        for _ in 0..LOOKS {
            match look(path, File::try_lock).map_err(|error| CliError::reading(&name, &error))? {
                There::Nothing => match new()?.persist_noclobber(path).map_err(|error| error.error)
                {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    file => return written(file),
                },
                There::Stale(_locked, other) => {
                    if let Some(pid) = other {
                        messages.warn(format!(
                            "took over {name}: process {pid} is running, but does not lock it as a worker does"
                        ));
                    }
                    return written(new()?.persist(path).map_err(|error| error.error));
                }
                There::Contended => {}
                There::Running(pid) => {
                    let message = format!("process {pid} from {name} is still running");
                    return Err(CliError::new(Exit::Negative, "ALREADY_RUNNING", message)
                        .hint("another --pid-file, for a second worker"));
                }
                There::Foreign => {
                    let message =
                        format!("{name} is not a pid file; it is neither overwritten nor deleted");
                    return Err(CliError::new(Exit::Io, "NO_PID_FILE", message)
                        .hint("another --pid-file, or remove that file"));
                }
            }
            thread::sleep(PAUSE);
        }
        let message = format!("another process holds {name}, or keeps changing it");
        Err(CliError::new(Exit::Negative, "ALREADY_RUNNING", message))
    }
}

fn look(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<There> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Ok(There::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(There::Nothing),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(There::Contended),
        file => file?,
    };
    // Lock before checking that it is still there: whoever took it over has replaced it. Without file locks, two
    // processes that start at the same moment may both take it over.
    let locked = lock(&file);
    if !files::is_at(&file, path).unwrap_or(false) {
        return Ok(There::Contended);
    }
    let mut text = String::new();
    // Text that cannot be read is no process id either.
    let _ = file.by_ref().take(LONGEST).read_to_string(&mut text);
    let Some(pid) = number(text.trim_end()) else { return Ok(There::Foreign) };
    // Without a lock, our own id is that of an earlier process in a restarted container.
    let other = Some(pid).filter(|pid| *pid != std::process::id() && process::is_running(*pid));
    Ok(match (locked, other) {
        (Err(TryLockError::WouldBlock), _) if process::is_running(pid) => There::Running(pid),
        (Err(TryLockError::WouldBlock), _) => There::Contended,
        (Err(TryLockError::Error(_)), Some(pid)) => There::Running(pid),
        (_, other) => There::Stale(file, other),
    })
}

/// A new pid file, locked before it is at its place.
fn ours(path: &Path) -> io::Result<NamedTempFile> {
    let line = format!("{}\n", std::process::id());
    let new = files::beside(path, line.as_bytes(), 0o644)?;
    // Elsewhere, nobody could read a locked file. Some file systems have no locks.
    if cfg!(unix) {
        let _ = new.as_file().try_lock();
    }
    Ok(new)
}

/// A process id and nothing else.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let pid = text.parse().ok().filter(|pid| digits && *pid <= i32::MAX.unsigned_abs());
    pid.filter(|pid| *pid > 0)
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    // The path may have changed since: follow no link, and do not block on a pipe.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Memory;
    use std::fs;

    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn create(path: &Path) -> Result<PidFile, CliError> {
        PidFile::create(path, &Messages::to(Box::new(io::sink()), "tool", false, false))
    }

    #[test]
    fn a_locked_file_is_respected_and_names_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        let file = create(&path).unwrap();
        let own = std::process::id();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{own}\n"));
        let error = create(&path).unwrap_err();
        assert_eq!((error.code, error.exit.code()), ("ALREADY_RUNNING", 1));
        assert!(error.message.contains(&format!("process {own} ")), "{error}");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_nobody_locks_is_taken_over_and_a_running_process_of_its_number_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        // Process 1 always runs.
        for (pid, is_named) in [(ended(), false), (1, true), (std::process::id(), false)] {
            fs::write(&path, format!("{pid}\n")).unwrap();
            let said = Memory::default();
            let messages = Messages::to(Box::new(said.clone()), "tool", false, false);
            let _file = PidFile::create(&path, &messages).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
            assert_eq!(said.text().contains("process 1 is running"), is_named, "{}", said.text());
        }
    }

    #[test]
    fn what_is_no_pid_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        for contents in ["", "precious", "12 13", "-1", "+1", "0", "99999999999", "\u{0661}", "1\0"]
        {
            fs::write(&path, contents).unwrap();
            let error = create(&path).unwrap_err();
            assert_eq!((error.code, error.exit.code()), ("NO_PID_FILE", 74), "{contents:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        let link = folder.path().join("link.pid");
        fs::write(&path, format!("{}\n", ended())).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(create(&link).unwrap_err().code, "NO_PID_FILE");
        assert_eq!(create(folder.path()).unwrap_err().code, "NO_PID_FILE");
    }

    #[test]
    fn another_owner_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        let ours = create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(ours);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }

    #[test]
    fn a_stale_file_is_taken_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        fs::write(&path, format!("{}\n", ended())).unwrap();
        // A check during another's takeover finds the file contended, and later the other's.
        let look = || look(&path, File::try_lock).unwrap();
        let There::Stale(held, None) = look() else { panic!("it is stale") };
        assert!(matches!(look(), There::Contended));
        let _taken = ours(&path).unwrap().persist(&path).unwrap();
        assert!(matches!(look(), There::Running(pid) if pid == std::process::id()));
        drop(held);
    }

    #[test]
    fn a_stale_file_is_taken_over_where_there_are_no_locks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        fs::write(&path, format!("{}\n", ended())).unwrap();
        let look = || look(&path, |_| Err(TryLockError::Error(io::ErrorKind::Unsupported.into())));
        assert!(matches!(look().unwrap(), There::Stale(..)));
        fs::write(&path, "1\n").unwrap();
        assert!(matches!(look().unwrap(), There::Running(1)));
    }
}
