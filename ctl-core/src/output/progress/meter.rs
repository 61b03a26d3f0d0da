//! How far a file has been read.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _};

/// How far a file has been read.
#[derive(Debug)]
pub struct Meter {
    /// Shares its position with the reader.
    file: File,
    size: u64,
}

impl Meter {
    /// Only for regular files: the size of others is unknown.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let size = file.metadata().ok().filter(Metadata::is_file)?.len();
        Some(Self { file: file.try_clone().ok()?, size })
    }

    #[cfg(unix)]
    pub(crate) fn of_stdin() -> Option<Self> {
        use std::os::fd::AsFd as _;
        Self::of(&File::from(io::stdin().as_fd().try_clone_to_owned().ok()?))
    }

    #[cfg(not(unix))]
    pub(crate) fn of_stdin() -> Option<Self> {
        None
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of bytes read.
    pub fn position(&self) -> u64 {
        let mut file = &self.file;
        file.stream_position().unwrap_or(0).min(self.size)
    }
}
