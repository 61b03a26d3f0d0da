//! Files that say something to other programs as long as this one runs: an address, a process id.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// A file with one line, removed when this value goes.
#[derive(Debug)]
pub struct Notice(PathBuf);

impl Notice {
    /// Writes the file beside its place and renames it, so that nobody reads half of it.
    ///
    /// # Errors
    /// It cannot be written: exit 74.
    pub fn write(path: &Path, line: &str) -> Result<Self, CliError> {
        let name = path.to_string_lossy().into_owned();
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let failed = |error: io::Error| CliError::writing(&name, &error);
        fs::write(&beside, format!("{line}\n")).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
