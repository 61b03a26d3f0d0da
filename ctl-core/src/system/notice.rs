//! Files that announce something, such as an address, while this program runs.

use std::path::Path;

use crate::error::CliError;
use crate::system::files::{self, Ours};

/// A file with one line, removed on drop.
#[derive(Debug)]
pub struct Notice {
    _file: Ours,
}

impl Notice {
    /// Atomically replaces whatever is there; symbolic links are not followed.
    ///
    /// # Errors
    /// The file cannot be written: exit 74.
    pub fn write(path: &Path, line: &str) -> Result<Self, CliError> {
        let written = files::replace(path, format!("{line}\n").as_bytes(), 0o644);
        let file = written.map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
        Ok(Self { _file: Ours::new(path, file) })
    }
}
