//! The file of jobs that failed for good.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use queue_core::lock;

use crate::error::CliError;
use crate::output::Record;
use crate::system::files;

/// Records, one on each line, to which others are appended.
#[derive(Debug)]
pub(super) struct FailedFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl FailedFile {
    /// Opens the file, or creates it for its owner only.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        Ok(Self { path: path.to_owned(), file: Mutex::new(open(path)?) })
    }

    /// Appends a record. It is synced to disk when this returns. If the file was moved away or removed, a new one takes
    /// its place: what is appended to a removed file is lost.
    pub(super) fn append(&self, record: &Record) -> Result<(), CliError> {
        let mut line = record.line()?;
        let failed = |error| CliError::writing(&self.path.to_string_lossy(), &error);
        let file = &mut *lock(&self.file);
        // A link is followed.
        if !files::is_same(file, self.path.metadata()) {
            *file = open(&self.path)?;
        }
        if is_torn(file).map_err(failed)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line).and_then(|()| file.sync_data()).map_err(failed)
    }
}

fn open(path: &Path) -> Result<File, CliError> {
    let name = path.to_string_lossy();
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(
            CliError::usage(format!("{name} is not a file")).hint("--failed-to ./failed.ndjson")
        );
    }
    let opened = files::private(File::options().read(true).append(true).create(true)).open(path);
    let file = opened.map_err(|error| CliError::writing(&name, &error))?;
    files::sync_entry(path);
    Ok(file)
}

/// Whether the last line has no end, because this worker or another one could not write it.
fn is_torn(file: &mut File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(last != *b"\n")
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
        let failed = FailedFile::open(&path).unwrap();
        // By another worker, for which the disk was full.
        std::fs::write(&path, "{\"id\":1}\n{\"i").unwrap();
        failed.append(&Record::new().with("id", 3)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"id\":1}\n{\"i\n{\"id\":3}\n");
        let refused = FailedFile::open(folder.path()).unwrap_err();
        assert_eq!(refused.exit.code(), 2);
    }

    /// As by logrotate, or by a person who has imported it.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_moved_or_removed_is_followed_by_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("failed"), folder.path().join("failed.1"));
        let failed = FailedFile::open(&path).unwrap();
        let append = |number| failed.append(&Record::new().with("id", number));
        append(1).unwrap();
        std::fs::rename(&path, &old).unwrap();
        append(2).unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&old), read(&path)), ("{\"id\":1}\n".into(), "{\"id\":2}\n".into()));
        std::fs::remove_file(&path).unwrap();
        append(3).unwrap();
        assert_eq!(read(&path), "{\"id\":3}\n");
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(append(4).unwrap_err().exit.code(), 74);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_behind_a_link_stays_open_until_the_link_changes() {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [link, old, new] = ["failed", "old", "new"].map(|name| folder.path().join(name));
        symlink(&old, &link).unwrap();
        let failed = FailedFile::open(&link).unwrap();
        let append = |number| failed.append(&Record::new().with("id", number)).unwrap();
        // A file that takes its place is opened before it is closed.
        let opened = lock(&failed.file).as_raw_fd();
        append(1);
        assert_eq!(lock(&failed.file).as_raw_fd(), opened);
        std::fs::remove_file(&link).unwrap();
        symlink(&new, &link).unwrap();
        append(2);
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&old), read(&new)), ("{\"id\":1}\n".into(), "{\"id\":2}\n".into()));
    }
}
