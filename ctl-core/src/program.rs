//! A tool as data: its names, its servers, and its help texts.

pub mod sheet;

use clap::Command;

use crate::error::{CliError, EXIT_CODES, Exit};
use crate::text::color::Role;

/// A tool: its names, its grammar, and its help texts. The only place that knows the queue.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The prefix of its environment variables.
    pub prefix: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// The command lines of a first hour, and what they do.
    pub first: &'static [(&'static str, &'static str)],
    /// The tool's own topics of the help: their names, what they are about, and their texts.
    pub topics: &'static [(&'static str, &'static str, &'static str)],
    /// The grammar.
    pub tree: fn() -> Command,
    /// Its commands in groups, for the top of the help.
    pub groups: fn() -> Vec<(&'static str, Vec<&'static str>)>,
    /// The variables that only this tool reads, and what they are for.
    pub own_variables: &'static [(&'static str, &'static str)],
    /// The servers that it talks to.
    pub servers: Servers,
    /// Rejects invalid server addresses.
    pub check: fn(&str) -> Result<(), CliError>,
    /// The name of a queue in the configuration file.
    pub queue: QueueKey,
    /// The names of the TLS settings.
    pub tls: TlsNames,
    /// The command that loads the records of a file, its last word, into a server.
    pub seed: &'static [&'static str],
    /// The tool's own help texts for the common commands.
    pub help: CommonHelp,
    /// What people type for commands that have other names or flags, and what they mean: a command, a flag, a command and a
    /// flag of it, or a command and `WORD` for a place that takes no word.
    pub guesses: &'static [(&'static str, &'static str)],
    /// The cheat sheets, in Markdown: see [`sheet`].
    pub sheets: &'static str,
    /// Meanings of exit codes in addition to [`EXIT_CODES`].
    pub meanings: &'static [(Exit, &'static str)],
    /// The coloured words in tables.
    pub colors: &'static [(&'static str, Role)],
}

/// The servers that a tool talks to, and where it gets their addresses.
#[derive(Debug, Clone, Copy)]
pub struct Servers {
    /// The server, such as `beanstalkd`; `serve` imitates it.
    pub kind: &'static str,
    /// Its default port.
    pub port: u16,
    /// The prefixes of an address to listen on, such as `tcp://`.
    pub schemes: &'static [&'static str],
    /// The flag, such as `--server`.
    pub flag: &'static str,
    /// Its short form, such as `-s`.
    pub short: &'static str,
    /// The environment variables, the tool's own first. `serve` sets them for its command.
    pub variables: &'static [&'static str],
    /// The default address.
    pub default: &'static str,
    /// The forms of an address, for `connect` in a session.
    pub forms: &'static str,
    /// Whether idle connections to them are kept alive by pings.
    pub pings: bool,
}

/// The queue in the configuration file.
#[derive(Debug, Clone, Copy)]
pub struct QueueKey {
    /// The key of the default queue of commands without a name, such as `tube`.
    pub key: &'static str,
    /// Rejects invalid names.
    pub check: fn(&str) -> Result<(), CliError>,
}

/// A tool's names for its TLS settings.
#[derive(Debug, Clone, Copy)]
pub struct TlsNames {
    /// The scheme of TLS addresses, such as `gearmans`.
    pub scheme: &'static str,
    /// The variable with the CA file.
    pub authorities: &'static str,
    /// The variable with the file of revocation lists.
    pub revocations: &'static str,
    /// The variable with the certificate file.
    pub certificate: &'static str,
    /// The variable with the key file.
    pub key: &'static str,
}

/// The tool's own help texts for the common commands.
#[derive(Debug, Clone, Copy)]
pub struct CommonHelp {
    /// The beginning of the help of `ping`.
    pub ping: &'static str,
    /// The summary of `repl`, what its help says before the rules of every session, and its examples.
    pub repl: (&'static str, &'static str, &'static str),
    /// About `serve`.
    pub serve: ServeHelp,
}

/// The text of `serve --help` about the server.
#[derive(Debug, Clone, Copy)]
pub struct ServeHelp {
    /// What it is.
    pub about: &'static str,
    /// The most that it holds, besides connections.
    pub limits: &'static str,
    /// The effect of `--seed-file`.
    pub seed: &'static str,
    /// A fault of one command, as an example of `--fail`.
    pub fault: &'static str,
}

impl Program {
    /// A hint for the command line as one for a session, if it makes sense there: commands without the tool's name, and
    /// `connect` for the flags that name a server.
    pub(crate) fn within_session(&self, hint: &str) -> Option<String> {
        let [start, embedded] = self.servers.absent(self.name);
        match hint {
            _ if *hint == start => Some(format!(
                "start {} there, or connect ADDRESS, for another server",
                self.servers.kind
            )),
            _ if *hint == embedded => None,
            _ if *hint == self.servers.elsewhere() => Some("connect ADDRESS".to_owned()),
            _ => {
                let command = hint.strip_prefix(self.name).and_then(|rest| rest.strip_prefix(' '));
                Some(command.unwrap_or(hint).to_owned())
            }
        }
    }

    /// The exit codes and their meanings for this tool, in ascending order.
    pub(crate) fn exit_codes(&self) -> Vec<(u8, String)> {
        let here = |(exit, meaning): &(Exit, &str)| {
            let more = self.meanings.iter().filter(|(of, _)| of == exit);
            (exit.code(), more.fold((*meaning).to_owned(), |all, (_, own)| format!("{all}, {own}")))
        };
        EXIT_CODES.iter().map(here).collect()
    }
}

/// Advice about an expired time limit.
pub const LONGER: &str = "a longer --timeout";

impl Servers {
    /// Adds remedies to a client failure of this tool, by its stable name, as far as they are common to all tools.
    #[must_use]
    pub fn advise(&self, tool: &str, error: CliError) -> CliError {
        match error.code {
            "UNAVAILABLE" | "CONNECT_TIMEOUT" => {
                self.absent(tool).into_iter().fold(error, CliError::hint)
            }
            "CONNECTION_LOST" => {
                error.hint(format!("{tool} ping, to see whether the server is back"))
            }
            "TIMEOUT" => error.hint(LONGER),
            _ => error,
        }
    }

    /// Advice on a command line if no server is there.
    fn absent(&self, tool: &str) -> [String; 2] {
        let Self { kind, short, flag, variables, .. } = self;
        let variable = variables.first().unwrap_or(flag);
        [
            format!("start {kind} there, or name another server with {short} or {variable}"),
            format!("--embedded, or {tool} serve, for an in-memory server"),
        ]
    }

    /// Advice on a command line if a server of another kind is there.
    pub(crate) fn elsewhere(&self) -> String {
        let variable = self.variables.first().unwrap_or(&"");
        format!("another address, with {} or {variable}", self.flag)
    }
}

/// An empty tool, for tests.
#[cfg(test)]
pub(crate) const TOOL: Program = Program {
    name: "tool",
    prefix: "TOOL",
    version: "1.0",
    about: "A tool",
    first: &[],
    topics: &[],
    tree: || Command::new("tool"),
    groups: Vec::new,
    own_variables: &[],
    servers: Servers {
        kind: "",
        port: 1,
        schemes: &[],
        flag: "--addr",
        short: "-a",
        variables: &["TOOL_ADDR"],
        default: "127.0.0.1:1",
        forms: "host:port",
        pings: false,
    },
    check: |text| match text.contains(':') {
        true => Ok(()),
        false => Err(CliError::usage("no port")),
    },
    queue: QueueKey { key: "tube", check: |_| Ok(()) },
    tls: TlsNames { scheme: "", authorities: "", revocations: "", certificate: "", key: "" },
    seed: &[],
    help: CommonHelp {
        ping: "",
        repl: ("", "", ""),
        serve: ServeHelp { about: "", limits: "", seed: "", fault: "" },
    },
    guesses: &[],
    sheets: "",
    meanings: &[(Exit::Negative, "nothing there")],
    colors: &[],
};
