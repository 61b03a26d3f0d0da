//! The history file: private, written after every command, shared by concurrent sessions.
//!
//! The format is one entry per line with `\n` for a line end and `\\` for a backslash. Entries are
//! appended with one write each, so that concurrent sessions do not mix up their lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::system::files;
use crate::text::lexer;
use crate::text::lexer::Statement;

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 10_000;

/// The longest word that is stored unchanged; for a longer one, only its size is stored.
const MAX_WORD: usize = 4 * 1024;

/// The place where the entries of one tool are kept, if any.
#[derive(Debug)]
pub struct HistoryFile {
    path: Option<PathBuf>,
}

impl HistoryFile {
    /// The file to use: `override_` (the value of `TOOL_HISTFILE`; empty or `/dev/null` means none),
    /// else `$XDG_STATE_HOME/TOOL/history`, else `~/.local/state/TOOL/history`. `var` looks up an
    /// environment variable.
    pub(crate) fn locate(
        tool: &str,
        override_: Option<&str>,
        var: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let path = match override_ {
            Some("" | "/dev/null") => None,
            Some(path) => Some(PathBuf::from(path)),
            None => folder(var, "XDG_STATE_HOME", ".local/state")
                .map(|folder| folder.join(tool).join("history")),
        };
        Self { path }
    }

    /// A history in this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()) }
    }

    /// No file: nothing is kept after the session.
    #[must_use]
    pub fn none() -> Self {
        Self { path: None }
    }

    /// The file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The newest [`MAX_ENTRIES`] entries, oldest first. A file with more than twice as many is cut.
    ///
    /// # Errors
    /// The file exists but cannot be read or cut.
    pub fn load(&self) -> io::Result<Vec<String>> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut entries: Vec<String> =
            text.lines().filter(|line| !line.is_empty()).map(unescape).collect();
        if entries.len() > MAX_ENTRIES {
            let crowded = entries.len() > 2 * MAX_ENTRIES;
            entries.drain(..entries.len() - MAX_ENTRIES);
            if crowded {
                rewrite(path, &entries)?;
            }
        }
        Ok(entries)
    }

    /// Adds one entry to the file. The file is created with mode 0600, its folder with 0700; a file
    /// that others could read is made private.
    ///
    /// # Errors
    /// The folder or file cannot be made or written.
    pub fn append(&self, entry: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            create_private_folder(folder)?;
        }
        let mut file = private(OpenOptions::new().append(true).create(true)).open(path)?;
        make_private(&file)?;
        file.write_all(format!("{}\n", escape(entry)).as_bytes())
    }
}

/// What to keep of a typed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: it is blank or starts with a space.
    Nothing,
    /// In memory for this session, not in the file.
    InMemory(String),
    /// In memory and in the file.
    InFile(String),
}

/// Decides what history keeps of `text`: nothing when it begins with a blank, only memory when
/// `secret` or with a password in an address, and never a body of more than 4 KiB (`@<4711 bytes>` stands in for it).
#[must_use]
pub fn keep(text: &[u8], statement: &Statement, secret: bool) -> Keep {
    if statement.words.is_empty() || text.first().is_some_and(u8::is_ascii_whitespace) {
        return Keep::Nothing;
    }
    let entry = without_long_bodies(text, statement);
    let is_secret = secret || statement.words.iter().any(|word| holds_password(&word.bytes));
    if is_secret { Keep::InMemory(entry) } else { Keep::InFile(entry) }
}

/// Whether it has an address such as `beanstalk://user:password@host`, which is refused, but was typed.
fn holds_password(word: &[u8]) -> bool {
    let text = String::from_utf8_lossy(word);
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ',']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

fn without_long_bodies(text: &[u8], statement: &Statement) -> String {
    let long = |word: &lexer::Word| {
        word.bytes.len() > MAX_WORD || word.end.saturating_sub(word.start) > MAX_WORD
    };
    let whole = text.get(..statement.used).unwrap_or(text);
    if !statement.words.iter().any(long) && whole.len() <= 2 * MAX_WORD {
        return String::from_utf8_lossy(whole).trim_end().to_owned();
    }
    let shorten = |word: &lexer::Word| {
        if long(word) || word.heredoc {
            format!("@<{} bytes>", word.bytes.len())
        } else {
            let written = text.get(word.start..word.end).unwrap_or_default();
            String::from_utf8_lossy(written).into_owned()
        }
    };
    statement.words.iter().map(shorten).collect::<Vec<_>>().join(" ")
}

/// A user's folder for a purpose: the one that the variable names, or this one in their home.
pub(super) fn folder(
    var: impl Fn(&str) -> Option<String>,
    variable: &str,
    in_home: &str,
) -> Option<PathBuf> {
    let set = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG base directory specification: a relative path must be ignored.
    if let Some(folder) = set(variable).filter(|path| path.is_absolute()) {
        return Some(folder);
    }
    set("HOME").map(|home| home.join(in_home)).or_else(|| set("LOCALAPPDATA"))
}

fn escape(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (c, false) => entry.push(c),
            _ => match chars.next() {
                Some('n') => entry.push('\n'),
                Some(other) => entry.push(other),
                None => entry.push('\\'),
            },
        }
    }
    entry
}

/// Replaces the file as a whole: another session may do the same, or read it. A link is kept, and its target changed.
fn rewrite(path: &Path, entries: &[String]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let text: String = entries.iter().map(|entry| format!("{}\n", escape(entry))).collect();
    files::replace(&path, text.as_bytes(), 0o600).map(drop)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn create_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str, secret: bool) -> Keep {
        keep(text.as_bytes(), &lexer::next_statement(text.as_bytes()).unwrap(), secret)
    }

    #[test]
    fn blank_lines_comments_and_lines_after_a_space_are_not_kept() {
        assert_eq!(kept("", false), Keep::Nothing);
        assert_eq!(kept("# x", false), Keep::Nothing);
        assert_eq!(kept(" put x", false), Keep::Nothing);
        assert_eq!(kept("put x\n", false), Keep::InFile("put x".into()));
        assert_eq!(kept("raw x", true), Keep::InMemory("raw x".into()));
        let line = "connect one:1,beanstalk://me:secret@two";
        assert_eq!(kept(line, false), Keep::InMemory(line.into()));
        for line in ["connect beanstalk://[::1]:11300", "put http://a/b:c@d", "put me:x@y"] {
            assert_eq!(kept(line, false), Keep::InFile(line.into()));
        }
    }

    #[test]
    fn long_bodies_leave_only_their_size() {
        let body = "x".repeat(4711);
        let expected = Keep::InFile("put -t x @<4711 bytes>".into());
        assert_eq!(kept(&format!("put -t x {body}"), false), expected);
        assert_eq!(kept(&format!("put -t x \"{body}\""), false), expected);
        assert_eq!(kept(&format!("put -t x <<E\n{body}\nE\n"), false), expected);
        let short = "put <<E\na\nb\nE";
        assert_eq!(kept(short, false), Keep::InFile(short.into()));
    }

    #[test]
    fn entries_come_back_in_order_from_every_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/tool/history");
        let (one, two) = (HistoryFile::at(&path), HistoryFile::at(&path));
        assert!(one.load().unwrap().is_empty());
        one.append("put <<E\na\\n\nE").unwrap();
        two.append("stats").unwrap();
        one.append("tubes").unwrap();
        assert_eq!(two.load().unwrap(), ["put <<E\na\\n\nE", "stats", "tubes"]);
    }

    #[test]
    fn a_file_that_grew_is_cut_to_the_newest_entries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let lines: String = (0..2 * MAX_ENTRIES + 1).map(|n| format!("{n}\n")).collect();
        fs::write(&path, lines).unwrap();
        let entries = HistoryFile::at(&path).load().unwrap();
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!(entries.last().unwrap(), &(2 * MAX_ENTRIES).to_string());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MAX_ENTRIES);
    }

    /// As several sessions do that start at once.
    #[cfg(unix)]
    #[test]
    fn a_file_is_cut_through_no_prepared_link_and_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let [link, path, trap, victim] =
            ["link", "history", "history.new", "victim"].map(|name| folder.path().join(name));
        let lines: String = (0..2 * MAX_ENTRIES + 1).map(|n| format!("{n}\n")).collect();
        fs::write(&path, lines).unwrap();
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &trap).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(HistoryFile::at(&link).load().unwrap().len(), MAX_ENTRIES);
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), MAX_ENTRIES);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_private_from_the_start_and_made_private_later() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/history");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        HistoryFile::at(&path).append("x").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        HistoryFile::at(&path).append("y").unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn the_place_comes_from_the_environment() {
        let none = |_: &str| None;
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        let xdg = |name: &str| (name == "XDG_STATE_HOME").then(|| "/s".to_owned());
        let relative = |name: &str| match name {
            "XDG_STATE_HOME" => Some("s".to_owned()),
            "HOME" => Some("/home/u".to_owned()),
            _ => None,
        };
        let path = |file: HistoryFile| file.path;
        assert_eq!(path(HistoryFile::locate("t", Some(""), home)), None);
        assert_eq!(path(HistoryFile::locate("t", Some("/dev/null"), home)), None);
        assert_eq!(path(HistoryFile::locate("t", Some("/x"), home)), Some("/x".into()));
        assert_eq!(path(HistoryFile::locate("t", None, none)), None);
        assert_eq!(path(HistoryFile::locate("t", None, xdg)), Some("/s/t/history".into()));
        let default = Some(PathBuf::from("/home/u/.local/state/t/history"));
        assert_eq!(path(HistoryFile::locate("t", None, home)), default);
        assert_eq!(path(HistoryFile::locate("t", None, relative)), default);
    }
}
