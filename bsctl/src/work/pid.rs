//! The file that tells a supervisor which process this is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ctl_core::error::{CliError, Exit};
use ctl_core::process;

/// A pid file; removed when this is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the number of this process. A file that a process left behind when it was killed is replaced.
    ///
    /// # Errors
    /// The process of the file still runs: exit 1; the file cannot be written: exit 74.
    pub fn create(path: &Path) -> Result<Self, CliError> {
        if let Some(pid) = owner(path) {
            let message = format!("process {pid} of {} is running", path.display());
            return Err(CliError::new(Exit::Negative, "ALREADY_RUNNING", message)
                .hint("another --pid-file, for a second worker"));
        }
        Self::write(path).map_err(|error| CliError::writing(&path.display().to_string(), &error))
    }

    fn write(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { path: path.to_owned() })
    }
}

/// The process whose file it is, if it runs.
fn owner(path: &Path) -> Option<u32> {
    let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (pid != std::process::id() && process::is_running(pid)).then_some(pid)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_running_process_is_respected_and_a_stale_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.pid");
        // Process 1 always runs.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(PidFile::create(&path).unwrap_err().code, "ALREADY_RUNNING");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        fs::write(&path, format!("{}\n", child.id())).unwrap();
        let file = PidFile::create(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(file);
        assert!(!path.exists());
    }
}
