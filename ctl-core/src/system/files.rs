//! Files that this program writes at places that somebody else may have prepared. A symbolic link is never followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{CliError, Exit};
use crate::output::escape;

/// Puts a file in the place of whatever is there, so that nobody reads half of it; a symbolic link is replaced, and not
/// what it points to. `mode` is cut by the process's umask.
///
/// # Errors
/// The file cannot be written beside its place, or not be moved there: a folder is there.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<File> {
    beside(path, contents, mode)?.persist(path).map_err(|error| error.error)
}

/// The same where nothing may be there: `AlreadyExists`.
///
/// # Errors
/// Something is there, or the file cannot be written.
pub fn create(path: &Path, contents: &[u8], mode: u32) -> io::Result<File> {
    beside(path, contents, mode)?.persist_noclobber(path).map_err(|error| error.error)
}

/// A file for what a person wants to keep: one that did not exist, readable by its owner only.
///
/// # Errors
/// The file exists or cannot be made: exit 74.
pub(crate) fn new_file(path: &Path) -> Result<File, CliError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let name = escape::line(&path.to_string_lossy()).into_owned();
    options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CliError::new(Exit::Io, "IO", format!("{name} already exists and is not overwritten"))
                .hint("another file name")
        }
        _ => CliError::writing(&name, &error),
    })
}

/// A new file in the same folder, under a name that nobody can foresee.
fn beside(path: &Path, contents: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(contents)?;
    file.flush()?;
    Ok(file)
}

/// A file that goes with this value, unless something else has come to its place.
#[derive(Debug)]
pub struct Ours {
    path: PathBuf,
    file: File,
}

impl Ours {
    /// The file that was written to this place.
    #[must_use]
    pub fn new(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path).unwrap_or(false) {
            // It may have gone this very moment.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether this very file is at that place, and not behind a symbolic link there.
///
/// # Errors
/// There is nothing, or it cannot be looked at.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (here, there) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// There is no number of a file to compare here.
#[cfg(not(unix))]
pub(crate) fn is_at(_file: &File, path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.is_file())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("ready"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        for trap in ["ready", "ready.new"] {
            symlink(&victim, folder.path().join(trap)).unwrap();
        }
        assert_eq!(create(&path, b"x", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let file = replace(&path, b"x\n", 0o640).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        let there = fs::symlink_metadata(&path).unwrap();
        assert!(there.is_file() && there.permissions().mode() & 0o037 == 0);
        drop(Ours::new(&path, file));
        assert!(!path.exists() && victim.exists());
        // Nothing is left beside it: the trap, and what it points to.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_somebody_else_has_put_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let ours = Ours::new(&path, replace(&path, b"ours", 0o600).unwrap());
        replace(&path, b"theirs", 0o600).unwrap();
        drop(ours);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }
}
