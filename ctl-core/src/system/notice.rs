//! Files that tell other programs something for as long as this one runs, such as an address.

use std::path::Path;

use crate::error::CliError;
use crate::system::files::{self, Ours};

/// A file with one line, removed when this value goes.
#[derive(Debug)]
pub struct Notice {
    _file: Ours,
}

impl Notice {
    /// Puts the file in the place of whatever is there; a symbolic link is not followed, and nobody reads half of it.
    ///
    /// # Errors
    /// It cannot be written: exit 74.
    pub fn write(path: &Path, line: &str) -> Result<Self, CliError> {
        let written = files::replace(path, format!("{line}\n").as_bytes(), 0o644);
        let file = written.map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
        Ok(Self { _file: Ours::new(path, file) })
    }
}
