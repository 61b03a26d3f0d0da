//! The keys of a configuration file, and the formats of their values.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use toml_edit::{Array, Item, Value};

use crate::error::CliError;
use crate::output::Format;
use crate::output::messages::LogFormat;
use crate::output::progress::ProgressWhen;
use crate::program::Program;
use crate::system::env::word;
use crate::text::color::Tint;
use crate::text::escape;
use crate::text::spelling::closest;
use crate::text::units;

/// The servers' addresses.
pub const ADDRESS: &str = "address";
/// Stands for the tool's own word for a queue, such as `tube`: the key of the default queue.
pub const QUEUE: &str = "queue";
/// Whether to use TLS for all servers.
pub const TLS: &str = "tls";
/// The file of the CAs.
pub(crate) const TLS_CA: &str = "tls-ca";
/// The file of the revocation lists.
pub(crate) const TLS_CRL: &str = "tls-crl";
/// The file of the client certificate.
pub(crate) const TLS_CERT: &str = "tls-cert";
/// The file of the client key.
pub(crate) const TLS_KEY: &str = "tls-key";
/// Whether to accept any server certificate.
pub(crate) const TLS_INSECURE: &str = "tls-insecure";
/// The time limit for connecting.
pub const CONNECT_TIMEOUT: &str = "connect-timeout";
/// The time limit for each reply.
pub const TIMEOUT: &str = "timeout";
/// How long to wait for the server.
pub(crate) const WAIT_FOR_SERVER: &str = "wait-for-server";
/// The output format.
pub(crate) const OUTPUT: &str = "output";
/// The format of messages on stderr.
pub(crate) const LOG_FORMAT: &str = "log-format";
/// How progress is shown on stderr.
pub(crate) const PROGRESS: &str = "progress";
/// The colour of the context's name in the prompt of a session.
pub(crate) const PROMPT_COLOR: &str = "prompt-color";
/// Whether changes require the context's name.
pub(crate) const PROTECTED: &str = "protected";

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Addresses,
    Queue,
    Switch,
    File,
    Duration,
    Format,
    LogFormat,
    Progress,
    Tint,
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name here; see [`Key::shown`].
    pub name: &'static str,
    kind: Kind,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

/// All keys of a context; `[defaults]` has the same.
pub const KEYS: &[Key] = &[
    key(ADDRESS, Kind::Addresses),
    key(QUEUE, Kind::Queue),
    key(PROTECTED, Kind::Switch),
    key(PROMPT_COLOR, Kind::Tint),
    key(TLS, Kind::Switch),
    key(TLS_CA, Kind::File),
    key(TLS_CRL, Kind::File),
    key(TLS_CERT, Kind::File),
    key(TLS_KEY, Kind::File),
    key(TLS_INSECURE, Kind::Switch),
    key(CONNECT_TIMEOUT, Kind::Duration),
    key(TIMEOUT, Kind::Duration),
    key(WAIT_FOR_SERVER, Kind::Duration),
    key(OUTPUT, Kind::Format),
    key(LOG_FORMAT, Kind::LogFormat),
    key(PROGRESS, Kind::Progress),
];

/// The key with this name in its written form.
///
/// # Errors
/// There is none: exit 2, with the existing ones.
pub fn named(program: &Program, text: &str) -> Result<Key, CliError> {
    // The name of a tool's flag.
    let text = if text == "addr" { ADDRESS } else { text };
    KEYS.iter().copied().find(|key| key.shown(program) == text).ok_or_else(|| {
        let known: Vec<&str> = KEYS.iter().map(|key| key.shown(program)).collect();
        let meant = closest(text, known.iter().copied().chain(["addr"]));
        let meant = meant.map(|meant| format!(": did you mean {meant}?")).unwrap_or_default();
        CliError::usage(format!("there is no setting `{}`{meant}", escape::line(text)))
            .hint(format!("one of {}", known.join(", ")))
    })
}

impl Key {
    /// Its written form.
    #[must_use]
    pub fn shown(self, program: &Program) -> &'static str {
        if self.kind == Kind::Queue { program.queue.key } else { self.name }
    }

    /// The format of its value, for help and errors.
    #[must_use]
    pub fn form(self, program: &Program) -> String {
        match self.kind {
            Kind::Addresses => format!("an address or a list of them: {}", program.servers.forms),
            Kind::Queue => format!("the name of a {}", program.queue.key),
            Kind::Switch => "true or false".to_owned(),
            Kind::File => {
                "a file name, relative to the configuration file unless it starts with / or ~/"
                    .to_owned()
            }
            Kind::Duration => "a duration such as \"2s\", or a number of seconds".to_owned(),
            Kind::Format => words::<Format>(),
            Kind::LogFormat => words::<LogFormat>(),
            Kind::Progress => words::<ProgressWhen>(),
            Kind::Tint => words::<Tint>(),
        }
    }

    /// Whether its value is a file name.
    #[must_use]
    pub fn is_file(self) -> bool {
        self.kind == Kind::File
    }

    /// The environment variables for it, in order of precedence.
    #[must_use]
    pub fn variables(self, program: &Program) -> Vec<String> {
        let own = |name: &str| vec![format!("{}_{name}", program.prefix)];
        let one = |name: &str| vec![name.to_owned()];
        match self.name {
            ADDRESS => program.servers.variables.iter().map(ToString::to_string).collect(),
            TLS_CA => one(program.tls.authorities),
            TLS_CRL => one(program.tls.revocations),
            TLS_CERT => one(program.tls.certificate),
            TLS_KEY => one(program.tls.key),
            TIMEOUT => own("TIMEOUT"),
            OUTPUT => own("OUTPUT"),
            LOG_FORMAT => own("LOG_FORMAT"),
            PROGRESS => own("PROGRESS"),
            _ => Vec::new(),
        }
    }

    /// The id of its flag, if there is one.
    #[must_use]
    pub fn flag(self, program: &Program) -> Option<String> {
        match self.kind {
            Kind::Addresses => Some(program.servers.flag.trim_start_matches('-').to_owned()),
            Kind::Queue | Kind::LogFormat | Kind::Progress | Kind::Tint => None,
            _ if [PROTECTED, CONNECT_TIMEOUT].contains(&self.name) => None,
            _ => Some(self.name.replace('-', "_")),
        }
    }

    /// A value in a file, as text. `folder` is the folder of the file.
    ///
    /// # Errors
    /// The required format.
    pub(super) fn read(
        self,
        item: &Item,
        program: &Program,
        folder: &Path,
    ) -> Result<String, String> {
        let expected = || format!("must be {}", self.form(program));
        let value = item.as_value().ok_or_else(expected)?;
        let text = match (self.kind, value) {
            (Kind::Addresses, Value::Array(list)) => {
                let all: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                let all = all.filter(|all| !all.is_empty()).ok_or_else(expected)?;
                all.join(",")
            }
            (Kind::Switch, Value::Boolean(switch)) => switch.value().to_string(),
            (Kind::Duration, Value::Integer(number)) => number.value().to_string(),
            (Kind::Duration, Value::Float(number)) => number.value().to_string(),
            (Kind::Switch, _) => return Err(expected()),
            (_, Value::String(text)) => text.value().clone(),
            _ => return Err(expected()),
        };
        self.check(&text, program)?;
        if self.kind != Kind::File {
            return Ok(text);
        }
        let path = expanded(&text, folder);
        path.into_os_string().into_string().map_err(|_| "must be UTF-8".to_owned())
    }

    /// Whether this text is a valid value.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(self, text: &str, program: &Program) -> Result<(), String> {
        let said = |error: CliError| error.message;
        match self.kind {
            Kind::Addresses => (program.check)(text).map_err(said),
            Kind::Queue => (program.queue.check)(text).map_err(said),
            Kind::Switch => {
                text.parse::<bool>().map(drop).map_err(|_| not_so(text, "true or false"))
            }
            Kind::File if text.is_empty() => Err("does not name a file".to_owned()),
            Kind::File => Ok(()),
            Kind::Duration => units::duration(text).map(drop),
            Kind::Format => word::<Format>(text).map(drop),
            Kind::LogFormat => word::<LogFormat>(text).map(drop),
            Kind::Progress => word::<ProgressWhen>(text).map(drop),
            Kind::Tint => word::<Tint>(text).map(drop),
        }
    }

    /// The form of this text in a file.
    #[must_use]
    pub(crate) fn written(self, text: &str) -> Value {
        match self.kind {
            Kind::Switch => Value::from(text == "true"),
            Kind::Duration => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
            Kind::Addresses if text.contains(',') => {
                Value::Array(text.split(',').map(str::trim).collect::<Array>())
            }
            _ => Value::from(text),
        }
    }
}

fn not_so(text: &str, form: &str) -> String {
    format!("`{}` is not {form}", escape::line(text))
}

fn words<T: ValueEnum>() -> String {
    let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    names.map(|name| name.get_name().to_owned()).collect::<Vec<_>>().join(", ")
}

/// A file name relative to this folder.
fn expanded(text: &str, folder: &Path) -> PathBuf {
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
    match text.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => folder.join(text),
    }
}
