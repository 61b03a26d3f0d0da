//! The keys of a configuration file, and the formats of their values.

use std::path::{Path, PathBuf};

use toml_edit::{Array, Item, Value};

use crate::error::CliError;
use crate::output::Format;
use crate::output::messages::{LogFormat, ProgressWhen};
use crate::program::Program;
use crate::system::env::{word, words};
use crate::text::color::Tint;
use crate::text::spelling::or_else;
use crate::text::{escape, units};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name here; see [`Key::shown`].
    pub name: &'static str,
    kind: Kind,
    /// Its flag, unless the tool chooses it; empty if there is none.
    flag: &'static str,
    /// Its environment variable behind the tool's prefix, unless the tool chooses it; empty if there is none.
    variable: &'static str,
}

/// The one table of settings: key, kind of value, flag, environment variable.
macro_rules! keys {
    ($($(#[$about:meta])* $constant:ident = $name:literal $kind:ident
        $(, flag $flag:literal)? $(, variable $variable:literal)?;)*) => {
        $($(#[$about])* pub const $constant: Key = Key {
            name: $name,
            kind: Kind::$kind,
            flag: concat!($($flag)?),
            variable: concat!($($variable)?),
        };)*

        /// The keys of a context in all tools; `[defaults]` has the same. See [`all`].
        pub const KEYS: &[Key] = &[$($constant),*];
    };
}

keys! {
    /// The servers' addresses.
    ADDRESS = "server" Addresses;
    /// Stands for the tool's own word for a queue, such as `tube`: the key of the default queue.
    QUEUE = "queue" Queue;
    /// Whether changes require the context's name.
    PROTECTED = "protected" Switch;
    /// The colour of the context's name in the prompt of a session.
    PROMPT_COLOR = "prompt-color" Tint;
    /// Whether to use TLS for all servers.
    TLS = "tls" Switch, flag "--tls";
    /// The file of the CAs.
    TLS_CA = "tls-ca" File, flag "--tls=ca";
    /// The file of the revocation lists.
    TLS_CRL = "tls-crl" File, flag "--tls=crl";
    /// The file of the client certificate.
    TLS_CERT = "tls-cert" File, flag "--tls=cert";
    /// The file of the client key.
    TLS_KEY = "tls-key" File, flag "--tls=key";
    /// Whether to accept any server certificate.
    TLS_INSECURE = "tls-insecure" Switch, flag "--tls=insecure";
    /// The time limit for connecting.
    CONNECT_TIMEOUT = "connect-timeout" Duration;
    /// The time limit for connecting and for each reply.
    TIMEOUT = "timeout" Duration, flag "--timeout", variable "TIMEOUT";
    /// How long to wait for the server.
    WAIT_FOR_SERVER = "wait-for-server" Duration, flag "--wait-for-server";
    /// The idle time before a ping, if the tool's connections send any.
    PING_INTERVAL = "ping-interval" Duration, variable "PING_INTERVAL";
    /// The output format.
    OUTPUT = "output" Format, flag "--output", variable "OUTPUT";
    /// The format of messages on stderr.
    LOG_FORMAT = "log-format" LogFormat, variable "LOG_FORMAT";
    /// How progress is shown on stderr.
    PROGRESS = "progress" Progress, variable "PROGRESS";
}

/// The keys of a tool.
pub fn all(program: &Program) -> impl Iterator<Item = Key> + use<> {
    let pings = program.servers.pings;
    KEYS.iter().copied().filter(move |key| pings || *key != PING_INTERVAL)
}

/// The key with this name in its written form.
///
/// # Errors
/// There is none: exit 2, with the existing ones.
pub fn named(program: &Program, text: &str) -> Result<Key, CliError> {
    // The other name of the flag.
    let text = if matches!(text, "addr" | "address") { ADDRESS.name } else { text };
    all(program).find(|key| key.shown(program) == text).ok_or_else(|| {
        let known: Vec<&str> = all(program).map(|key| key.shown(program)).collect();
        let meant = or_else(text, known.iter().copied().chain(["addr"]));
        CliError::usage(format!("there is no setting `{}`{meant}", escape::line(text)))
            .hint(format!("one of {}", known.join(", ")))
    })
}

impl Key {
    /// Its written form.
    pub fn shown(self, program: &Program) -> &'static str {
        if self.kind == Kind::Queue { program.queue.key } else { self.name }
    }

    /// The format of its value, for help and errors.
    pub fn form(self, program: &Program) -> String {
        match self.kind {
            Kind::Addresses => format!("an address or a list of them: {}", program.servers.forms),
            Kind::Queue => format!("the name of a {}", program.queue.key),
            Kind::Switch => "true or false".to_owned(),
            Kind::File => "a file name: from /, ~/ or the configuration file's folder".to_owned(),
            Kind::Duration => "a duration such as \"2s\", or a number of seconds".to_owned(),
            Kind::Format => words::<Format>(),
            Kind::LogFormat => words::<LogFormat>(),
            Kind::Progress => words::<ProgressWhen>(),
            Kind::Tint => words::<Tint>(),
        }
    }

    /// Whether its value is a file name.
    pub fn is_file(self) -> bool {
        self.kind == Kind::File
    }

    /// The environment variables for it, in order of precedence.
    pub fn variables(self, program: &Program) -> Vec<String> {
        let one = |name: &str| vec![name.to_owned()];
        match self {
            ADDRESS => program.servers.variables.iter().map(ToString::to_string).collect(),
            TLS_CA => one(program.tls.authorities),
            TLS_CRL => one(program.tls.revocations),
            TLS_CERT => one(program.tls.certificate),
            TLS_KEY => one(program.tls.key),
            Self { variable: "", .. } => Vec::new(),
            Self { variable, .. } => vec![format!("{}_{variable}", program.prefix)],
        }
    }

    /// Its flag; empty if there is none.
    pub fn flag(self, program: &Program) -> &'static str {
        if self == ADDRESS { program.servers.flag } else { self.flag }
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
                let rule = |_| format!("`{}` is not true or false", escape::line(text));
                text.parse::<bool>().map(drop).map_err(rule)
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

/// A file name relative to this folder.
fn expanded(text: &str, folder: &Path) -> PathBuf {
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
    match text.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => folder.join(text),
    }
}
