//! Writes files at places that other users may have prepared. Symbolic links are never followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{CliError, Exit};
use crate::text::escape;

/// Why a file that the program obeys cannot be trusted, if so: its writers control the program. A file that
/// is no regular one, such as a pipe, was chosen by the user.
#[cfg(unix)]
pub(crate) fn distrust(about: &fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    if !about.is_file() {
        return None;
    }
    if about.mode() & 0o022 != 0 {
        return Some(WRITABLE);
    }
    let own = rustix::process::geteuid().as_raw();
    (![0, own].contains(&about.uid())).then_some("belongs to another user")
}

#[cfg(not(unix))]
pub(crate) fn distrust(_: &fs::Metadata) -> Option<&'static str> {
    None
}

/// The way to make a file trusted that is not, for this reason: `own` names one of the user's own.
pub(crate) fn trust(why: &str, path: &str, own: &str) -> String {
    if why == WRITABLE { format!("chmod go-w {path}") } else { format!("a file of your own{own}") }
}

/// See [`distrust`].
pub(crate) const WRITABLE: &str = "is writable by other users";

/// Atomically replaces whatever is there; a symbolic link itself is replaced, not its target. The umask applies to
/// `mode`.
///
/// # Errors
/// The temporary file cannot be written or renamed, for example because a directory is there.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<File> {
    beside(path, contents, mode)?.persist(path).map_err(|error| error.error)
}

/// Creates a new file for the user's data, readable only by its owner.
///
/// # Errors
/// The file exists or cannot be created: exit 74.
pub(crate) fn new_file(path: &Path) -> Result<File, CliError> {
    let name = escape::line(&path.to_string_lossy()).into_owned();
    let opened = private(OpenOptions::new().write(true).create_new(true)).open(path);
    opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CliError::new(Exit::Io, "IO", format!("{name} already exists and is not overwritten"))
                .hint("another file name")
        }
        _ => CliError::writing(&name, &error),
    })
}

/// Writes a new file for the user's data, readable only by its owner. It is synced to disk when this returns.
///
/// # Errors
/// The file exists or cannot be written: exit 74.
pub(crate) fn write_new(path: &Path, contents: &[u8]) -> Result<(), CliError> {
    let mut file = new_file(path)?;
    let written = file.write_all(contents).and_then(|()| file.sync_data());
    written.map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
    sync_entry(path);
    Ok(())
}

/// Makes a file that these options create readable only by its owner.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Creates a folder for this user only, and those that it is in.
///
/// # Errors
/// It cannot be created.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Syncs the directory entry, where supported: the data is of little use without its name.
pub(crate) fn sync_entry(path: &Path) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Ok(directory) = File::open(parent.unwrap_or(Path::new("."))) {
        // Some file systems neither support nor need it.
        let _ = directory.sync_all();
    }
}

/// A new file in the same directory, under an unpredictable name.
pub(crate) fn beside(path: &Path, contents: &[u8], mode: u32) -> io::Result<NamedTempFile> {
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

/// A file with one line that announces something, such as an address, while this program runs. It is removed on drop,
/// unless something else has replaced it.
#[derive(Debug)]
pub struct Notice {
    path: PathBuf,
    file: File,
}

impl Notice {
    /// Atomically replaces whatever is there; symbolic links are not followed.
    ///
    /// # Errors
    /// The file cannot be written: exit 74.
    pub fn write(path: &Path, line: &str) -> Result<Self, CliError> {
        let written = replace(path, format!("{line}\n").as_bytes(), 0o644);
        let file = written.map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
        Ok(Self { path: path.to_owned(), file })
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if is_same(&self.file, fs::symlink_metadata(&self.path)) {
            // It may have disappeared just now.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the file at some path, if it is accessible, is this very one.
#[cfg(unix)]
pub(crate) fn is_same(file: &File, there: io::Result<fs::Metadata>) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let both = there.and_then(|there| Ok((file.metadata()?, there)));
    both.is_ok_and(|(here, there)| (here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// This system has no file number to compare.
#[cfg(not(unix))]
pub(crate) fn is_same(_: &File, there: io::Result<fs::Metadata>) -> bool {
    there.is_ok_and(|there| there.is_file())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn distrusts_files_others_own_or_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rc");
        fs::write(&path, "").unwrap();
        let trust = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            distrust(&fs::metadata(&path).unwrap())
        };
        assert_eq!((trust(0o644), trust(0o600)), (None, None));
        assert_eq!((trust(0o664), trust(0o602)), (Some(WRITABLE), Some(WRITABLE)));
        // Only the superuser can give files away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert_eq!(trust(0o600), Some("belongs to another user"));
        }
    }

    #[test]
    fn replaces_a_link_instead_of_following_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("ready"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        for trap in ["ready", "ready.new"] {
            symlink(&victim, folder.path().join(trap)).unwrap();
        }
        let file = replace(&path, b"x\n", 0o640).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        let there = fs::symlink_metadata(&path).unwrap();
        assert!(there.is_file() && there.permissions().mode() & 0o037 == 0);
        drop(Notice { path: path.clone(), file });
        assert!(!path.exists() && victim.exists());
        // No temporary file is left: only the link and its target.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn writes_data_to_new_private_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("body");
        write_new(&file, b"\x00x").unwrap();
        let error = write_new(&file, b"y").unwrap_err();
        assert!(error.message.contains("already exists"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"\x00x");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn keeps_files_of_other_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let ours = Notice::write(&path, "ours").unwrap();
        replace(&path, b"theirs", 0o600).unwrap();
        drop(ours);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }
}
