//! The file of jobs that failed for good.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Mutex;

use super::lock;
use crate::error::CliError;
use crate::output::Record;
use crate::system::files;

/// Records, one on each line, to which others are appended.
#[derive(Debug)]
pub(super) struct FailedFile {
    name: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    /// Whether its last line has no end, because it could not be written.
    is_torn: bool,
}

impl FailedFile {
    /// Opens the file, or creates it for its owner only.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let name = path.to_string_lossy().into_owned();
        let opened = open(path).map_err(|error| CliError::writing(&name, &error))?;
        let (file, is_torn) = opened.ok_or_else(|| {
            CliError::usage(format!("{name} is not a file")).hint("--failed-to ./failed.ndjson")
        })?;
        files::sync_entry(path);
        Ok(Self { name, inner: Mutex::new(Inner { file, is_torn }) })
    }

    /// Appends a record. It is synced to disk when this returns.
    pub(super) fn append(&self, record: &Record) -> Result<(), CliError> {
        let mut line = record.line()?;
        let Inner { file, is_torn } = &mut *lock(&self.inner);
        if *is_torn {
            line.insert(0, b'\n');
        }
        *is_torn = true;
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        written.map_err(|error| CliError::writing(&self.name, &error))?;
        *is_torn = false;
        Ok(())
    }
}

/// The file, and whether its last line has no end; none if it is no regular file.
fn open(path: &Path) -> io::Result<Option<(File, bool)>> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(Some((file, last != *b"\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_after_an_unterminated_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("failed");
        for number in [1, 2] {
            let failed = FailedFile::open(&path).unwrap();
            failed.append(&Record::new().with("id", number)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"id\":1}\n{\"id\":2}\n");
        std::fs::write(&path, "{\"id\":1}\n{\"i").unwrap();
        let failed = FailedFile::open(&path).unwrap();
        failed.append(&Record::new().with("id", 3)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"id\":1}\n{\"i\n{\"id\":3}\n");
        let refused = FailedFile::open(folder.path()).unwrap_err();
        assert_eq!(refused.exit.code(), 2);
    }
}
