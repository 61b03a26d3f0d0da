//! The configuration file: contexts and defaults. Errors name the line, but never show its content, which may be
//! secret.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item, Table, TableLike};

use super::keys::{self, Key};
use crate::envelope::{self, Formats, Wrong};
use crate::error::{CliError, Exit};
use crate::program::Program;
use crate::system::env::Environment;
use crate::system::files;
use crate::text::escape;

/// The key of the selected context.
pub(crate) const SELECTED: &str = "context";
/// The key of the previously selected context.
pub(crate) const PREVIOUS: &str = "previous-context";
/// The table of defaults for all contexts.
pub(crate) const DEFAULTS: &str = "defaults";
/// The table of contexts.
pub(crate) const CONTEXTS: &str = "contexts";

/// The table of formats of bodies.
const ENVELOPES: &str = "envelopes";

/// Maximum size of the file, in bytes.
const LIMIT: u64 = 1 << 20;

/// Maximum length of a context's name, in bytes.
const LONGEST_NAME: usize = 64;

/// The settings of a context or the defaults, as text, by the names of [`keys`].
pub type Fields = BTreeMap<&'static str, String>;

/// The content of a configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The selected context.
    pub selected: Option<String>,
    /// The previously selected context.
    pub previous: Option<String>,
    /// The defaults for all contexts.
    pub defaults: Fields,
    /// The contexts by name.
    pub contexts: BTreeMap<String, Fields>,
    /// The formats of bodies.
    pub envelopes: Formats,
}

/// The location of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Whether it was named explicitly, so that it must exist.
    pub is_named: bool,
}

impl Place {
    /// The file named by the flag or `PREFIX_CONFIG`, or the default one: `$XDG_CONFIG_HOME/TOOL/config.toml`, or in
    /// `~/.config`. `None` if there is no home.
    pub fn find(flag: Option<&Path>, program: &Program, environment: &Environment) -> Option<Self> {
        let named = |path: PathBuf| Some(Self { path, is_named: true });
        if let Some(path) = flag {
            return named(path.to_owned());
        }
        if let Some(path) = environment.var(&format!("{}_CONFIG", program.prefix)) {
            return named(path.into());
        }
        let folder = environment.folder("XDG_CONFIG_HOME", ".config", "APPDATA")?;
        Some(Self { path: folder.join(program.name).join("config.toml"), is_named: false })
    }

    /// The content of the file; empty if the default one does not exist.
    ///
    /// # Errors
    /// The file does not exist, cannot be read, can be changed by others, or is invalid: exit 2.
    pub fn read(&self, program: &Program) -> Result<Config, CliError> {
        match self.text()? {
            Some(text) => self.parse(&text, program).map(|(config, _)| config),
            None if self.is_named => Err(self
                .wrong("does not exist")
                .hint(format!("{} context edit, to create it", program.name))),
            None => Ok(Config::default()),
        }
    }

    /// The text of the file, if it exists.
    fn text(&self) -> Result<Option<String>, CliError> {
        let refused = |error: &io::Error| self.wrong(&format!("cannot be read: {error}"));
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) if !self.is_named && self.is_of_somebody_else() => return Ok(None),
            Err(error) => return Err(refused(&error)),
        };
        let about = file.metadata().map_err(|error| refused(&error))?;
        if about.is_dir() {
            return Err(self.wrong("is a directory"));
        }
        self.check_owner(&about)?;
        let mut bytes = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|error| refused(&error))?;
        if bytes.len() as u64 > LIMIT {
            return Err(self.wrong("is longer than 1 MiB"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| self.wrong("is not UTF-8"))
    }

    /// Whether its folder is inaccessible for this user, such as a service that was started with another user's `HOME`.
    fn is_of_somebody_else(&self) -> bool {
        let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        fs::metadata(&self.path).is_err_and(denied)
    }

    /// Write access to the file decides which servers are changed.
    fn check_owner(&self, about: &Metadata) -> Result<(), CliError> {
        let Some(why) = files::distrust(about) else { return Ok(()) };
        Err(self.wrong(why).hint(files::trust(why, &self.shown(), ", with --config FILE")))
    }

    /// The file's name for users.
    pub fn shown(&self) -> String {
        escape::line(&self.path.to_string_lossy()).into_owned()
    }

    fn wrong(&self, what: &str) -> CliError {
        CliError::config(format!("the configuration file {} {what}", self.shown()))
    }

    /// Parses the text of the file.
    ///
    /// # Errors
    /// The error, with its line: exit 2.
    pub fn parse(&self, text: &str, program: &Program) -> Result<(Config, DocumentMut), CliError> {
        let at = |start: Option<usize>, what: &str| {
            let before = start.and_then(|start| text.get(..start));
            let line = before.map(|before| format!(":{}", before.matches('\n').count() + 1));
            CliError::config(format!("{}{}: {what}", self.shown(), line.unwrap_or_default()))
                .hint(format!("{} context edit", program.name))
        };
        let document = Document::parse(text.to_owned())
            .map_err(|error| at(error.span().map(|span| span.start), error.message()))?;
        let reader = Reader { program, folder: self.folder() };
        let config =
            reader.config(document.as_table()).map_err(|(start, what)| at(start, &what))?;
        Ok((config, document.into_mut()))
    }

    fn folder(&self) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
    }

    /// Changes the file, which is replaced atomically; comments are kept. Other instances of this program wait
    /// meanwhile. A dry run only checks whether it is possible.
    ///
    /// # Errors
    /// The file is or would become invalid (2), or cannot be written (74).
    pub fn change(
        &self,
        program: &Program,
        dry_run: bool,
        change: impl FnOnce(&mut DocumentMut, &Config) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let changed = |text: &str| {
            let (config, mut document) = self.parse(text, program)?;
            change(&mut document, &config)?;
            let new = document.to_string();
            self.parse(&new, program).map(|_| new)
        };
        if dry_run {
            return changed(&self.text()?.unwrap_or_default()).map(drop);
        }
        self.replace(|text| changed(text.unwrap_or_default()))
    }

    /// Lets the user edit the text of the file, or `template` if there is none. Returns whether it has changed.
    ///
    /// # Errors
    /// The new text is invalid (2), or the file has changed meanwhile: the text is kept beside the file. As
    /// [`Place::change`], and errors of `edit`.
    pub(crate) fn edit(
        &self,
        program: &Program,
        template: &str,
        edit: impl FnOnce(&[u8]) -> Result<Vec<u8>, CliError>,
    ) -> Result<bool, CliError> {
        let before = self.text()?;
        let edited = edit(before.as_deref().unwrap_or(template).as_bytes())?;
        if before.as_deref().is_some_and(|before| before.as_bytes() == edited) {
            return Ok(false);
        }
        let taken = String::from_utf8(edited.clone())
            .map_err(|_| self.wrong("would not be UTF-8"))
            .and_then(|text| self.parse(&text, program).map(|_| text))
            .and_then(|text| {
                self.replace(|now| match now == before.as_deref() {
                    true => Ok(text),
                    false => Err(self.wrong("has changed in the meantime")),
                })
            });
        taken.map(|()| true).map_err(|error| {
            let kept = self.path.with_extension("rejected");
            match files::replace(&kept, &edited, 0o600) {
                Ok(_) => error.hint(format!("your version is in {}", kept.display())),
                Err(_) => error,
            }
        })
    }

    /// Replaces this text by another one atomically, while other instances of this program wait.
    fn replace(
        &self,
        make: impl FnOnce(Option<&str>) -> Result<String, CliError>,
    ) -> Result<(), CliError> {
        let unwritable = |error: &io::Error| {
            CliError::new(Exit::Io, "IO", format!("cannot write {}: {error}", self.shown()))
        };
        // A link is kept, and its target changed.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        files::private_folder(folder).map_err(|error| unwritable(&error))?;
        // Concurrent changes happen one after the other.
        #[cfg(unix)]
        let lock = File::open(folder).map_err(|error| unwritable(&error))?;
        #[cfg(unix)]
        lock.lock().map_err(|error| unwritable(&error))?;
        let text = self.text()?;
        let new = make(text.as_deref())?;
        if text.as_ref() != Some(&new) {
            files::replace(&path, new.as_bytes(), 0o600).map_err(|error| unwritable(&error))?;
        }
        Ok(())
    }
}

/// Rejects names that would not be words in a prompt or a command line.
///
/// # Errors
/// The violated rule: exit 2.
pub fn check_name(name: &str) -> Result<(), CliError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= LONGEST_NAME && name.chars().all(is_plain) {
        return Ok(());
    }
    let shown = escape::clip(&escape::line(name), LONGEST_NAME).into_owned();
    Err(CliError::usage(format!("`{shown}` cannot be the name of a context")).hint(format!(
        "a letter or digit, then letters, digits, - _ or . up to {LONGEST_NAME} characters"
    )))
}

struct Reader<'p> {
    program: &'p Program,
    folder: PathBuf,
}

impl Reader<'_> {
    fn config(&self, table: &Table) -> Result<Config, Wrong> {
        let mut config = Config::default();
        for (name, item) in table {
            let at = place(table, name, item);
            match name {
                SELECTED => config.selected = Some(context_name(at, name, item)?),
                PREVIOUS => config.previous = Some(context_name(at, name, item)?),
                DEFAULTS => config.defaults = self.fields(DEFAULTS, at, item)?,
                CONTEXTS => {
                    let contexts = item.as_table_like().ok_or_else(|| no_table(at, name))?;
                    for (name, item) in contexts.iter() {
                        let at = place(contexts, name, item);
                        check_name(name).map_err(|error| (at, error.message))?;
                        let fields = self.fields(&format!("{CONTEXTS}.{name}"), at, item)?;
                        config.contexts.insert(name.to_owned(), fields);
                    }
                }
                ENVELOPES => config.envelopes = formats(at, item)?,
                other => {
                    let known = [SELECTED, PREVIOUS, DEFAULTS, CONTEXTS, ENVELOPES].join(", ");
                    return Err(unknown(at, other, &known));
                }
            }
        }
        Ok(config)
    }

    fn fields(&self, of: &str, at: Option<usize>, item: &Item) -> Result<Fields, Wrong> {
        let table = item.as_table_like().ok_or_else(|| no_table(at, of))?;
        let mut fields = Fields::new();
        for (name, item) in table.iter() {
            let at = place(table, name, item);
            let keys = || keys::all(self.program);
            let Some(key) = keys().find(|key: &Key| key.shown(self.program) == name) else {
                let known: Vec<&str> = keys().map(|key| key.shown(self.program)).collect();
                return Err(unknown(at, &format!("{of}.{name}"), &known.join(", ")));
            };
            let value = key.read(item, self.program, &self.folder);
            let value = value.map_err(|what| (at, format!("{of}.{name}: {what}")))?;
            fields.insert(key.name, value);
        }
        Ok(fields)
    }
}

/// The formats of bodies, in the order of the file.
fn formats(at: Option<usize>, item: &Item) -> Result<Formats, Wrong> {
    let table = item.as_table_like().ok_or_else(|| no_table(at, ENVELOPES))?;
    let read = |(name, item): (&str, &Item)| {
        let at = place(table, name, item);
        let name_of = |what: &str| (at, format!("{ENVELOPES}.{}: {what}", escape::line(name)));
        check_name(name)
            .map_err(|_| name_of("the name must be made of letters, digits, - _ and ."))?;
        if Formats::is_taken(name) {
            return Err(name_of("--decode has another meaning for this name"));
        }
        let row =
            item.as_table_like().ok_or_else(|| no_table(at, &format!("{ENVELOPES}.{name}")))?;
        envelope::Format::read(name, row)
            .map_err(|(inner, what)| (inner.or(at), format!("{ENVELOPES}.{what}")))
    };
    Ok(Formats::behind(table.iter().map(read).collect::<Result<_, _>>()?))
}

/// The location of a key or its value.
fn place(table: &dyn TableLike, name: &str, item: &Item) -> Option<usize> {
    let key = table.get_key_value(name).and_then(|(key, _)| key.span());
    key.or_else(|| item.span()).map(|span| span.start)
}

fn context_name(at: Option<usize>, key: &str, item: &Item) -> Result<String, Wrong> {
    let what = || format!("{key} must be the name of a context");
    item.as_str().map(str::to_owned).ok_or_else(|| (at, what()))
}

fn no_table(at: Option<usize>, name: &str) -> Wrong {
    (at, format!("{} must be a table", escape::line(name)))
}

fn unknown(at: Option<usize>, name: &str, known: &str) -> Wrong {
    (at, format!("there is no setting `{}` (settings: {known})", escape::line(name)))
}
