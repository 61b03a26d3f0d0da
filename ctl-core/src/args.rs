//! The flags that every command of every tool takes.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::config::{Settings, keys};
use crate::error::CliError;
use crate::input::confirm::Confirm;
use crate::output::messages::{Filter, Level, Messages};
use crate::output::{Format, Style};
use crate::program::Program;
use crate::system::env::word;
use crate::text::color::ColorWhen;
use crate::text::units;

/// The value name of `--decode`, which completion looks for.
pub(crate) const DECODE: &str = "FORMAT";

/// Flags accepted before and after every subcommand.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Time limit for connecting and for each server reply, including reconnects; exit 124 when it expires
    #[arg(long, global = true, value_name = "DUR", value_parser = units::duration)]
    pub timeout: Option<Duration>,

    /// Wait up to this long for the server to answer
    #[arg(long, global = true, hide_short_help = true, value_name = "DUR", value_parser = units::duration)]
    pub wait_for_server: Option<Duration>,

    /// Output format [default: table on a terminal, plain in a pipe]
    #[arg(
        short = 'o',
        long,
        global = true,
        value_name = "FMT",
        hide_possible_values = true,
        help = "Output format: table, wide, plain, json, ndjson, yaml, csv, name (id), raw\n[default: table on a terminal, plain in a pipe]"
    )]
    pub output: Option<Format>,

    /// Show only these columns (comma-separated)
    #[arg(long, global = true, hide_short_help = true, value_name = "A,B", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,

    /// What bodies are decoded as
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = DECODE,
        help = "Decode bodies as auto, laravel, symfony, activejob, backburner, celery, enqueue, stalker, mod-gearman (with a key: mod-gearman=FILE), json, none or [envelopes.NAME] of the configuration file, or show bytes as utf8, base64, hex\n[default: auto on a terminal, none in a pipe]"
    )]
    pub decode: Option<String>,

    /// Print only errors on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print more on stderr: -v decisions, -vv retries, -vvv protocol lines
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// When to use colours: auto, always, never
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        hide_possible_values = true
    )]
    pub color: Option<ColorWhen>,

    /// Answer yes to confirmations, except those that ask for a name
    #[arg(short, long, global = true)]
    pub yes: bool,

    /// Show what would be done without changing anything
    #[arg(short = 'n', long, global = true)]
    pub dry_run: bool,

    /// Answer confirmations that ask for a name; separate several with commas
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub confirm: Option<String>,

    /// Whether questions are off, even on a terminal: the command runs beside others.
    #[arg(skip)]
    pub(crate) asks_nobody: bool,
}

impl GlobalArgs {
    /// The stream of messages to stderr, filtered by the flags and `PREFIX_LOG`.
    ///
    /// # Errors
    /// An unreadable filter or setting: exit 2.
    pub fn messages(&self, program: &Program, settings: &Settings) -> Result<Messages, CliError> {
        let environment = &settings.environment;
        let terminal = io::stderr().is_terminal();
        let color = environment.colors(self.color.unwrap_or_default(), terminal);
        let messages = Messages::to(Box::new(io::stderr()), program.name, color, terminal);
        let filter = Filter::resolve(program.prefix, self.level(), environment)?;
        let format = settings.setting(keys::LOG_FORMAT, None, word)?;
        let progress = settings.setting(keys::PROGRESS, None, word)?;
        Ok(messages
            .with_filter(filter)
            .with_format(format.map(|setting| setting.value).unwrap_or_default())
            .with_progress(progress.map(|setting| setting.value).unwrap_or_default()))
    }

    /// The level that `-q` or `-v` asks for.
    fn level(&self) -> Option<Level> {
        match (self.quiet, self.verbose) {
            (true, _) => Some(Level::Error),
            (_, 0) => None,
            (_, 1) => Some(Level::Decision),
            (_, 2) => Some(Level::Debug),
            _ => Some(Level::Trace),
        }
    }

    /// How a command gets its confirmations; `lock` is the name of a protected server or context.
    #[must_use]
    pub fn confirmation(&self, lock: Option<String>) -> Confirm {
        Confirm {
            yes: self.yes,
            name: self.confirm.clone(),
            can_ask: !self.asks_nobody && io::stdin().is_terminal(),
            lock,
            is_unrehearsed: false,
            asking: None,
        }
    }

    /// The style of results, from the flags, the settings and the stream.
    ///
    /// # Errors
    /// A variable with an invalid value: exit 2.
    pub fn style(&self, settings: &Settings, terminal: bool) -> Result<Style, CliError> {
        let chosen = settings.setting(keys::OUTPUT, self.output, word)?;
        let default = if terminal { Format::Table } else { Format::Plain };
        let format = chosen.map_or(default, |setting| setting.value);
        let color = settings.environment.colors(ColorWhen::Auto, terminal);
        let formats = settings.config().envelopes.clone();
        let usual = Style { color, terminal, formats, ..Style::default() };
        Ok(Style { format, ..self.restyle(&usual)? })
    }

    /// `style` with these explicit flags on top: for one line of a session.
    ///
    /// # Errors
    /// `--decode` names no format: exit 2.
    pub(crate) fn restyle(&self, style: &Style) -> Result<Style, CliError> {
        // A line per value is for people, unless another format is requested.
        let usual = match style.format {
            Format::Plain | Format::Name if style.upright => Format::Table,
            format => format,
        };
        let decode = self.decode.as_deref().map(|name| style.formats.named(name)).transpose()?;
        Ok(Style {
            format: self.output.unwrap_or(usual),
            decode: decode.or_else(|| style.decode.clone()),
            columns: self.columns.clone().or_else(|| style.columns.clone()),
            color: match self.color.unwrap_or_default() {
                ColorWhen::Auto => style.color,
                ColorWhen::Always => true,
                ColorWhen::Never => false,
            },
            null: false,
            ..style.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SettingsArgs;
    use crate::program::TOOL;
    use crate::system::env::Environment;
    use clap::Parser;

    #[derive(Parser)]
    struct Tool {
        #[command(flatten)]
        globals: GlobalArgs,
    }

    fn globals(line: &[&str]) -> GlobalArgs {
        Tool::try_parse_from([&["tool"], line].concat()).unwrap().globals
    }

    #[test]
    fn format_comes_from_flag_then_environment_then_stream() {
        let settings = |variables: &[(&str, &str)]| {
            let environment = Environment::of(variables);
            Settings::without_file(&TOOL, &SettingsArgs::default(), environment)
        };
        let (none, json) = (settings(&[]), settings(&[("TOOL_OUTPUT", "json")]));
        let format =
            |args: &GlobalArgs, settings, terminal| args.style(settings, terminal).unwrap().format;
        assert_eq!(format(&globals(&[]), &none, true), Format::Table);
        assert_eq!(format(&globals(&[]), &none, false), Format::Plain);
        assert_eq!(format(&globals(&[]), &json, true), Format::Json);
        assert_eq!(format(&globals(&["-o", "id"]), &json, true), Format::Name);
        let wrong = settings(&[("TOOL_OUTPUT", "jsn")]);
        let error = globals(&[]).style(&wrong, true).unwrap_err();
        assert_eq!(error.exit.code(), 2);
        assert!(
            error.message.contains("TOOL_OUTPUT") && error.message.contains("ndjson"),
            "{error}"
        );
    }

    #[test]
    fn flags_set_the_message_level() {
        let level = |line: &[&str]| globals(line).level();
        assert_eq!(level(&[]), None);
        assert_eq!(level(&["-q"]), Some(Level::Error));
        assert_eq!(level(&["-v"]), Some(Level::Decision));
        assert_eq!(level(&["-vvvv"]), Some(Level::Trace));
    }

    #[test]
    fn a_session_line_overrides_only_its_flags() {
        let session = Style { format: Format::Json, ..Style::default() };
        let line = globals(&["--columns", "id"]).restyle(&session).unwrap();
        assert_eq!((line.format, line.columns), (Format::Json, Some(vec!["id".to_owned()])));
        assert_eq!(globals(&["-o", "raw"]).restyle(&session).unwrap().format, Format::Raw);
    }
}
