//! The history file: private, written after every command, shared by concurrent sessions. How it is written, locked and
//! limited is rustyline's; what may be written is decided here.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use rustyline::Config;
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History as _};

use crate::system::env::Environment;
use crate::system::files;
use crate::text::lexer::{self, Statement};

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 10_000;

/// The longest word that is stored unchanged; for a longer one, only its size is stored.
const MAX_WORD: usize = 4 * 1024;

/// The place where the entries of one tool are kept, if any.
#[derive(Default)]
pub struct HistoryFile {
    path: Option<PathBuf>,
    kept: FileHistory,
}

impl HistoryFile {
    /// The file to use: `override_` (the value of `TOOL_HISTFILE`; empty or `/dev/null` means none),
    /// else `$XDG_STATE_HOME/TOOL/history`, else `~/.local/state/TOOL/history`.
    pub(crate) fn locate(tool: &str, override_: Option<&str>, environment: &Environment) -> Self {
        match override_ {
            Some("" | "/dev/null") => None,
            Some(path) => Some(PathBuf::from(path)),
            None => environment
                .folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA")
                .map(|folder| folder.join(tool).join("history")),
        }
        .map_or_else(Self::default, Self::at)
    }

    /// A history in this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let config = Config::builder().max_history_size(MAX_ENTRIES);
        let config = config.map(rustyline::config::Builder::build).unwrap_or_default();
        Self { path: Some(path.into()), kept: FileHistory::with_config(&config) }
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The newest [`MAX_ENTRIES`] entries, oldest first.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub fn load(&mut self) -> io::Result<Vec<String>> {
        if let Some(path) = self.path.as_ref().filter(|path| path.exists()) {
            self.kept.load(path).map_err(plain)?;
        }
        Ok(self.kept.iter().cloned().collect())
    }

    /// Adds one entry to the file, unless it is the same as the one before. The file is created with mode 0600, its
    /// folder with 0700; a file that others could read is made private.
    ///
    /// # Errors
    /// The folder or file cannot be made or written.
    pub fn append(&mut self, entry: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files::private_folder(folder)?;
        }
        // One that rustyline creates could replace that of a session which starts at the same time.
        files::private(OpenOptions::new().append(true).create(true)).open(path)?;
        self.kept.add(entry).and_then(|_| self.kept.append(path)).map_err(plain)
    }
}

fn plain(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The part of a typed statement to keep.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn kept(text: &str, secret: bool) -> Keep {
        keep(text.as_bytes(), &lexer::next_statement(text.as_bytes()).unwrap(), secret)
    }

    #[test]
    fn omits_blank_lines_comments_and_lines_with_a_leading_space() {
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
    fn records_only_the_size_of_long_bodies() {
        let body = "x".repeat(4711);
        let expected = Keep::InFile("put -t x @<4711 bytes>".into());
        assert_eq!(kept(&format!("put -t x {body}"), false), expected);
        assert_eq!(kept(&format!("put -t x \"{body}\""), false), expected);
        assert_eq!(kept(&format!("put -t x <<E\n{body}\nE\n"), false), expected);
        let short = "put <<E\na\nb\nE";
        assert_eq!(kept(short, false), Keep::InFile(short.into()));
    }

    #[test]
    fn merges_entries_of_all_sessions_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/tool/history");
        let (mut one, mut two) = (HistoryFile::at(&path), HistoryFile::at(&path));
        assert!(one.load().unwrap().is_empty());
        one.append("put <<E\na\\n\nE").unwrap();
        two.append("stats").unwrap();
        one.append("tubes").unwrap();
        one.append("tubes").unwrap();
        let entries = HistoryFile::at(&path).load().unwrap();
        assert_eq!(entries, ["put <<E\na\\n\nE", "stats", "tubes"]);
    }

    #[test]
    fn concurrent_sessions_lose_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::thread::scope(|scope| {
            for session in 0..4 {
                let mut file = HistoryFile::at(&path);
                scope.spawn(move || {
                    (0..50).for_each(|n| file.append(&format!("put {session} {n}")).unwrap());
                });
            }
        });
        let entries = HistoryFile::at(&path).load().unwrap();
        assert_eq!(entries.len(), 200);
        for session in 0..4 {
            let start = format!("put {session} ");
            let own = entries.iter().filter_map(|entry| entry.strip_prefix(&start));
            assert!(own.eq((0..50).map(|n| n.to_string())), "{entries:?}");
        }
    }

    /// In place, so that a link is kept, and no file prepared by another user is written.
    #[cfg(unix)]
    #[test]
    fn keeps_the_newest_entries_of_a_full_file() {
        let folder = tempfile::tempdir().unwrap();
        let [link, path] = ["link", "history"].map(|name| folder.path().join(name));
        let lines: String = (0..MAX_ENTRIES + 5).map(|n| format!("{n}\n")).collect();
        fs::write(&path, lines).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        HistoryFile::at(&link).append("last").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let entries = HistoryFile::at(&path).load().unwrap();
        assert_eq!(
            (entries.len(), &*entries[0], &*entries[MAX_ENTRIES - 1]),
            (MAX_ENTRIES, "6", "last")
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_created_private_and_repaired() {
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
    fn the_environment_sets_the_path() {
        let none = &Environment::of(&[]);
        let home = &Environment::of(&[("HOME", "/home/u")]);
        let xdg = &Environment::of(&[("XDG_STATE_HOME", "/s")]);
        let relative = &Environment::of(&[("XDG_STATE_HOME", "s"), ("HOME", "/home/u")]);
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
