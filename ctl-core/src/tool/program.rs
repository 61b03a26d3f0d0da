//! A tool's names, and its behaviour before flags are known: help, usage errors, panics.

pub(crate) mod tip;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, AssertUnwindSafe};

use clap::Command;
use clap::error::ErrorKind;

use crate::commands::serve::Service;
use crate::commands::thresholds::Verdict;
use crate::config::{Environment, word};
use crate::error::{CliError, EXIT_CODES, Exit, ExitCode};
use crate::link::tls::TlsNames;
use crate::output::Format;
use crate::output::color::{ColorWhen, Role};
use crate::output::escape;
use crate::output::messages::Messages;
use crate::output::wrap;
use crate::tool::cli;
use crate::tool::docs;
use crate::tool::examples::Sheet;

/// A tool: its names, its grammar, and its help texts. The only place that knows the queue.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The prefix of its environment variables.
    pub prefix: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The grammar.
    pub tree: fn() -> Command,
    /// Its own commands in groups, for the top of the help; those of every tool are added to them.
    pub groups: &'static [(&'static str, &'static [&'static str])],
    /// The environment variables that it reads, for help and man pages.
    pub environment: &'static [(&'static str, &'static str)],
    /// The default servers, and where their addresses come from.
    pub servers: Servers,
    /// The name of a queue in the configuration file.
    pub queue: QueueKey,
    /// The names of the TLS settings.
    pub tls: TlsNames,
    /// The in-memory server.
    pub service: Service,
    /// The command that loads the records of a file, its last word, into a server.
    pub seed: &'static [&'static str],
    /// The tool's own help texts for the common commands.
    pub help: CommonHelp,
    /// The cheat sheets.
    pub sheets: &'static [Sheet],
    /// Meanings of exit codes in addition to [`EXIT_CODES`].
    pub meanings: &'static [(Exit, &'static str)],
    /// The coloured words in tables.
    pub colors: &'static [(&'static str, Role)],
}

/// Where a tool gets the servers' addresses.
#[derive(Debug, Clone, Copy)]
pub struct Servers {
    /// The flag, such as `--addr`.
    pub flag: &'static str,
    /// Its short form, such as `-a`.
    pub short: &'static str,
    /// The environment variables, the tool's own first. `serve` sets them for its command.
    pub variables: &'static [&'static str],
    /// The default address.
    pub default: &'static str,
    /// The forms of an address, for `connect` in a session.
    pub forms: &'static str,
    /// Rejects invalid server addresses.
    pub check: fn(&str) -> Result<(), CliError>,
    /// The transports, if there are several.
    pub transports: &'static [&'static str],
}

/// The queue in the configuration file.
#[derive(Debug, Clone, Copy)]
pub struct QueueKey {
    /// The key of the default queue of commands without a name, such as `tube`.
    pub key: &'static str,
    /// Rejects invalid names.
    pub check: fn(&str) -> Result<(), CliError>,
}

/// The tool's own help texts for the common commands.
#[derive(Debug, Clone, Copy)]
pub struct CommonHelp {
    /// What `ping` sends, in parentheses after its summary.
    pub ping: (&'static str, &'static str),
    /// A condition for `watch`, and examples.
    pub watch: (&'static str, &'static str),
    /// The summary of `repl`, and the end of its help.
    pub repl: (&'static str, &'static str),
    /// The flag that makes a script fail if it leaves something behind, and its help.
    pub strict: (&'static str, &'static str),
    /// The end of the help of `serve`.
    pub serve: &'static str,
}

impl Program {
    /// Adds remedies to a client failure, by its stable name, as far as they are common to all tools.
    #[must_use]
    pub fn advise(&self, error: CliError) -> CliError {
        let Self { name, service, servers, .. } = self;
        match error.code {
            "UNAVAILABLE" | "CONNECT_TIMEOUT" => {
                let (server, flag) = (service.name, servers.short);
                let variable = servers.variables.first().unwrap_or(&servers.flag);
                error
                    .hint(format!(
                        "start {server} there, or name another server with {flag} or {variable}"
                    ))
                    .hint(format!("--embedded, or {name} serve, for an in-memory server"))
            }
            "CONNECTION_LOST" => {
                error.hint(format!("{name} ping, to see whether the server is back"))
            }
            "TIMEOUT" => error.hint("a longer --timeout"),
            _ => error,
        }
    }

    /// Runs a whole command line with `run`, and returns the exit code. A panic is 70; `check` has its own codes.
    pub fn run(&self, line: &[OsString], run: impl FnOnce() -> Exit) -> Exit {
        // The panic hook has printed the cause.
        let exit = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(Exit::Internal);
        // A monitoring system would take 1 and 2 for verdicts.
        if (exit.code() > 3 || exit == Exit::Usage) && self.is_check(line) {
            return Verdict::Unknown.exit();
        }
        exit
    }

    /// Without a command: short help on a terminal, a usage error in a script.
    #[must_use]
    pub fn without_command(&self, line: &[OsString], environment: &Environment) -> Exit {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            let _ = io::stdout().write_all(self.short_help().as_bytes());
            return Exit::Done;
        }
        let name = self.name;
        let mut error = CliError::usage("no command given").hint(format!("{name} --help"));
        if (self.tree)().find_subcommand("repl").is_some() {
            error = error.hint(format!("{name} repl"));
        }
        self.early_failure(&error, line, environment)
    }

    /// Prints a clap error: help and version are results, everything else is exit 2.
    #[must_use]
    pub fn grammar_error(
        &self,
        mut error: clap::Error,
        line: &[OsString],
        environment: &Environment,
    ) -> Exit {
        if error.kind() == ErrorKind::DisplayVersion {
            let _ = error.print();
            return Exit::Done;
        }
        if error.kind() == ErrorKind::DisplayHelp {
            // Parses the line again with everything that help shows. A closed pipe is fine.
            let _ = match self.documented_tree().try_get_matches_from(line) {
                Err(help) => help.print(),
                Ok(_) => error.print(),
            };
            return Exit::Done;
        }
        tip::correct(&mut error, &(self.tree)(), line);
        if self.is_check(line) {
            let why = first_sentence(&error);
            let _ = writeln!(io::stdout(), "{}", self.headline(Verdict::Unknown, &why));
        }
        if !self.wants_json(line, environment) {
            let shows_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            let again = || self.documented_tree().try_get_matches_from(line).err();
            let _ = match shows_help.then(again).flatten() {
                Some(help) => help.print(),
                None => print_escaped(&error),
            };
            return Exit::Usage;
        }
        let text = tip::text(&error);
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim();
        self.failure(&CliError::usage(message), line, environment)
    }

    /// A failure before flags could be applied. For a check it is also a verdict.
    #[must_use]
    pub fn early_failure(
        &self,
        error: &CliError,
        line: &[OsString],
        environment: &Environment,
    ) -> Exit {
        if self.is_check(line) {
            let headline = self.headline(Verdict::Unknown, &error.message);
            let _ = writeln!(io::stdout(), "{headline}");
        }
        self.failure(error, line, environment)
    }

    fn failure(&self, error: &CliError, line: &[OsString], environment: &Environment) -> Exit {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        let color = ColorWhen::Auto.decide(|name| environment.var(name), terminal);
        let messages = Messages::to(Box::new(stderr), self.name, color, terminal);
        messages.failure(error, self.wants_json(line, environment));
        error.exit
    }

    /// The first line of a check, such as `BSCTL OK - fine`.
    #[must_use]
    pub fn headline(&self, verdict: Verdict, summary: &str) -> String {
        // A bar would begin performance data.
        let summary = escape::line(summary).replace('|', "/");
        format!("{} {} - {summary}", self.prefix, verdict.word())
    }

    /// All commands in groups: its own, and those of every tool.
    #[must_use]
    pub fn groups(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for (title, names) in self.groups.iter().chain(cli::GROUPS) {
            match groups.iter_mut().find(|(known, _)| known == title) {
                Some((_, known)) => known.extend(*names),
                None => groups.push((title, names.to_vec())),
            }
        }
        groups
    }

    /// The short help: the commands in groups, without options.
    #[must_use]
    pub fn short_help(&self) -> String {
        let mut tree = (self.tree)();
        let groups = docs::grouped_help(&tree, &self.groups());
        let usage = tree.render_usage();
        let about = tree.get_about().map(ToString::to_string).unwrap_or_default();
        let name = self.name;
        let text = format!(
            "{about}\n\n{usage}\n\n{groups}{name} help COMMAND shows a command with examples, {name} --help all options."
        );
        let width = wrap::of_stdout().unwrap_or(usize::MAX);
        format!("{}\n", wrap::words(&text, width))
    }

    /// The grammar with grouped commands, environment and exit codes in its help. Built only if help is shown.
    #[must_use]
    pub fn documented_tree(&self) -> Command {
        let tree = (self.tree)();
        let groups = docs::grouped_help(&tree, &self.groups());
        let environment = docs::table(self.environment);
        let name = self.name;
        docs::reflow(tree).help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
        ))
        .after_help(format!("{name} help COMMAND shows a command with examples; {name} --help also shows all options, environment and exit codes."))
        .after_long_help(format!("Environment:\n{environment}\n{}", docs::exit_help(&self.exit_codes())))
    }

    /// The exit codes and their meanings for this tool, in ascending order.
    #[must_use]
    pub fn exit_codes(&self) -> Vec<(ExitCode, String)> {
        let here = |row: &ExitCode| {
            let more = self.meanings.iter().filter(|(exit, _)| *exit == row.exit);
            more.fold(row.meaning.to_owned(), |all, (_, meaning)| format!("{all}, {meaning}"))
        };
        EXIT_CODES.iter().map(|row| (*row, here(row))).collect()
    }

    /// Whether the command is `check`, even on an otherwise invalid line.
    fn is_check(&self, line: &[OsString]) -> bool {
        if !line.iter().any(|word| word == "check") {
            return false;
        }
        let tree = (self.tree)();
        let takes_value = |flag: &str| {
            tree.get_arguments().filter(|arg| arg.get_action().takes_values()).any(|arg| {
                let long = arg.get_long().is_some_and(|long| flag == format!("--{long}"));
                long || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
            })
        };
        let mut words = line.iter().skip(1).map(|word| word.to_string_lossy());
        // The first word that is neither a flag nor a flag's value is the command.
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                return word == "check";
            }
            if takes_value(&word) {
                words.next();
            }
        }
        false
    }

    /// Whether the command line or the environment requests a JSON format, even on an otherwise invalid line.
    fn wants_json(&self, line: &[OsString], environment: &Environment) -> bool {
        let texts: Vec<_> = line.iter().map(|text| text.to_string_lossy()).collect();
        let flag = texts.iter().enumerate().rev().find_map(|(at, text)| {
            if text == "-o" || text == "--output" {
                return texts.get(at + 1).map(ToString::to_string);
            }
            let rest = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"))?;
            Some(rest.trim_start_matches('=').to_owned())
        });
        let chosen = flag.or_else(|| environment.var(&format!("{}_OUTPUT", self.prefix)));
        chosen.is_some_and(|text| word::<Format>(&text).is_ok_and(Format::is_json))
    }
}

/// Prints a usage error, escaped because it may quote foreign words.
fn print_escaped(error: &clap::Error) -> io::Result<()> {
    let text = tip::text(error);
    match escape::lines(&text) {
        Cow::Borrowed(text) if text == error.render().to_string() => error.print(),
        text => io::stderr().write_all(text.as_bytes()),
    }
}

/// A usage error in one line.
fn first_sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command line does not say what to check".to_owned();
    }
    let text = tip::text(error);
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// An empty tool, for tests.
#[cfg(test)]
pub(crate) const TOOL: Program = Program {
    name: "tool",
    prefix: "TOOL",
    version: "1.0",
    about: "A tool",
    tree: || Command::new("tool"),
    groups: &[],
    environment: &[],
    servers: Servers {
        flag: "--addr",
        short: "-a",
        variables: &["TOOL_ADDR"],
        default: "127.0.0.1:1",
        forms: "host:port",
        check: |text| match text.contains(':') {
            true => Ok(()),
            false => Err(CliError::usage("no port")),
        },
        transports: &[],
    },
    queue: QueueKey { key: "tube", check: |_| Ok(()) },
    tls: TlsNames { scheme: "", authorities: "", revocations: "", certificate: "", key: "" },
    service: Service { name: "", port: 1, schemes: &[] },
    seed: &[],
    help: CommonHelp {
        ping: ("", ""),
        watch: ("", ""),
        repl: ("", ""),
        strict: ("", ""),
        serve: "",
    },
    sheets: &[],
    meanings: &[(Exit::Negative, "nothing there")],
    colors: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let tree = || Command::new("tool").subcommand(Command::new("check"));
        Program { tree, environment: &[("TOOL_X", "x")], ..TOOL }
    }

    fn line(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_panic_is_70_and_3_under_check() {
        let program = program();
        assert_eq!(program.run(&line(&["tool"]), || panic!("a defect")).code(), 70);
        assert_eq!(program.run(&line(&["tool", "check"]), || panic!("a defect")).code(), 3);
        assert_eq!(program.run(&line(&["tool", "check"]), || Exit::Negative).code(), 1);
        assert_eq!(program.run(&line(&["tool", "check"]), || Exit::Usage).code(), 3);
    }

    #[test]
    fn the_command_is_found_in_a_wrong_line_too() {
        let tree = || {
            let addr = clap::Arg::new("addr").short('a').long("addr").global(true);
            let embedded = clap::Arg::new("embedded").long("embedded");
            let embedded = embedded.action(clap::ArgAction::SetTrue);
            let format = clap::Arg::new("output").short('o');
            Command::new("tool").args([addr, embedded, format]).subcommand(Command::new("check"))
        };
        let program = Program { tree, ..program() };
        let is_check = |words: &[&str]| program.is_check(&line(words));
        assert!(is_check(&["tool", "--nope", "-o", "json", "check", "x"]));
        assert!(is_check(&["tool", "-a", "check", "check"]));
        assert!(!is_check(&["tool", "-a", "check", "put", "check"]));
        assert!(!is_check(&["tool", "--embedded", "put", "check"]));
    }

    #[test]
    fn a_json_format_is_seen_in_a_wrong_line_too() {
        let (program, none) = (program(), Environment::of(&[]));
        for words in [
            &["tool", "-o", "json", "nope"][..],
            &["tool", "nope", "-ojson"],
            &["tool", "nope", "--output=ndjson"],
            &["tool", "nope", "-o=json"],
        ] {
            assert!(program.wants_json(&line(words), &none), "{words:?}");
        }
        assert!(!program.wants_json(&line(&["tool", "-o", "plain"]), &none));
        assert!(program.wants_json(&line(&["tool"]), &Environment::of(&[("TOOL_OUTPUT", "json")])));
    }

    #[test]
    fn a_wrong_check_is_said_in_one_line() {
        let server = Command::new("server").arg(clap::Arg::new("NAME").required(true));
        let check = Command::new("check").arg_required_else_help(true).subcommand(server);
        let mut tree = Command::new("tool").subcommand(check);
        let mut said = |words: &[&str]| {
            first_sentence(&tree.try_get_matches_from_mut(words.iter()).unwrap_err())
        };
        assert_eq!(said(&["tool", "check"]), "the command line does not say what to check");
        assert_eq!(
            said(&["tool", "check", "server"]),
            "the following required arguments were not provided: <NAME>"
        );
    }

    #[test]
    fn help_shows_environment_and_exit_codes() {
        let help = program().documented_tree().render_long_help().to_string();
        for part in ["TOOL_X", "124", "nothing there"] {
            assert!(help.contains(part), "{part} is not in {help}");
        }
    }
}
