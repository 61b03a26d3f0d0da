//! Everything that is not a result: errors, warnings, notes, logs. Goes to stderr, always escaped.

mod filter;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use indicatif::ProgressBar;
use queue_core::lock;
use serde_json::{Map, Value, json};

pub use self::filter::{Filter, Level};
use crate::error::{CliError, Exit};
use crate::system::signals;
use crate::text::color::Role;
use crate::text::{escape, units, wrap};

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProgressWhen {
    /// A bar if stderr is a terminal.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// A line every five seconds.
    Plain,
    /// An object every second, and at the end: ts, label, done, total, rate.
    Json,
    /// Nothing.
    Never,
}

/// The stream of messages to stderr; shared by clones.
#[derive(Clone)]
pub struct Messages {
    shared: Arc<Shared>,
    filter: Arc<Filter>,
    /// Whether lines begin with the time.
    stamps: bool,
    /// The format of lines.
    format: LogFormat,
    /// How progress is shown.
    progress: ProgressWhen,
    /// The server that the messages are about, if there are several.
    server: Option<Arc<str>>,
}

/// The format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// An object a line: `ts`, `level`, `target`, `message`, and what belongs to the message.
    Json,
}

struct Shared {
    sink: Mutex<Box<dyn Write + Send>>,
    bar: Mutex<Option<ProgressBar>>,
    /// Messages held back while something owns the screen.
    held: Mutex<Option<Vec<u8>>>,
    program: &'static str,
    color: bool,
    terminal: bool,
}

impl Messages {
    /// Writes to `sink` at the default level, for sessions and tests.
    #[must_use]
    pub fn to(
        sink: Box<dyn Write + Send>,
        program: &'static str,
        color: bool,
        terminal: bool,
    ) -> Self {
        let (sink, bar, held) = (Mutex::new(sink), Mutex::new(None), Mutex::new(None));
        let shared = Shared { sink, bar, held, program, color, terminal };
        let filter = Arc::new(Filter::at(Level::Info));
        Self {
            shared: Arc::new(shared),
            filter,
            stamps: false,
            format: LogFormat::Text,
            progress: ProgressWhen::Auto,
            server: None,
        }
    }

    /// The same stream with this line format.
    #[must_use]
    pub(crate) fn with_format(self, format: LogFormat) -> Self {
        Self { format, ..self }
    }

    /// The same stream, which shows progress like this.
    #[must_use]
    pub fn with_progress(&self, progress: ProgressWhen) -> Self {
        Self { progress, ..self.clone() }
    }

    /// The same stream, which shows no progress.
    #[must_use]
    pub fn without_progress(&self) -> Self {
        self.with_progress(ProgressWhen::Never)
    }

    /// Whether the user wants to know what takes long.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress != ProgressWhen::Never
    }

    /// How progress is shown: not [`ProgressWhen::Auto`].
    pub(super) fn progress(&self) -> ProgressWhen {
        match self.progress {
            ProgressWhen::Auto if self.is_terminal() => ProgressWhen::Bar,
            ProgressWhen::Auto => ProgressWhen::Never,
            told => told,
        }
    }

    /// The name of the tool.
    pub(crate) fn program(&self) -> &'static str {
        self.shared.program
    }

    /// The same stream with another filter.
    #[must_use]
    pub fn with_filter(&self, filter: Filter) -> Self {
        Self { filter: Arc::new(filter), ..self.clone() }
    }

    /// The same stream for a long-running command: lines begin with the time unless stderr is a terminal.
    #[must_use]
    pub fn stamped(&self) -> Self {
        Self { stamps: !self.is_terminal(), ..self.clone() }
    }

    /// The same stream for messages about one of several servers.
    #[must_use]
    pub fn about(&self, server: &str) -> Self {
        Self { server: Some(server.into()), ..self.clone() }
    }

    /// Whether stderr is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.shared.terminal
    }

    /// Whether stderr gets colours.
    pub fn color(&self) -> bool {
        self.shared.color
    }

    /// A note for the user, suppressed by `-q`.
    pub fn note(&self, text: impl AsRef<str>) {
        self.log(Level::Info, self.shared.program, text.as_ref());
    }

    /// A warning, suppressed by `-q`.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.log(Level::Warn, self.shared.program, text.as_ref());
    }

    /// As [`Messages::warn`]; JSON lines also have these fields.
    pub(crate) fn warn_of(&self, text: impl AsRef<str>, fields: Map<String, Value>) {
        self.log_of(Level::Warn, self.shared.program, text.as_ref(), fields);
    }

    /// A decision of the tool, shown with `-v`.
    pub fn decision(&self, text: impl AsRef<str>) {
        self.log(Level::Decision, self.shared.program, text.as_ref());
    }

    /// Whether messages of this level and target are shown.
    pub fn shows(&self, level: Level, target: &str) -> bool {
        self.filter.shows(level, target)
    }

    /// The protocol trace of this tool, if enabled.
    pub fn trace(&self, tool: &str) -> Trace {
        let target = format!("{tool}::protocol");
        Trace(self.shows(Level::Trace, &target).then(|| (self.clone(), target)))
    }

    /// Logs a message of any level. Targets are paths such as `bsctl::protocol`.
    pub fn log(&self, level: Level, target: &str, text: &str) {
        self.log_of(level, target, text, Map::new());
    }

    fn log_of(&self, level: Level, target: &str, text: &str, mut fields: Map<String, Value>) {
        if !self.shows(level, target) {
            return;
        }
        let text = escape::shorten(text);
        if self.format == LogFormat::Json {
            if let Some(server) = self.server.as_deref() {
                fields.insert("server".to_owned(), server.into());
            }
            let said = json!({"level": level.word(), "target": target, "message": text});
            return self.object(said, fields);
        }
        let text = match self.server.as_deref() {
            Some(server) if level < Level::Trace => format!("{server}: {text}").into(),
            _ => text,
        };
        let text = escape::lines(&text);
        let color = self.shared.color;
        let line = match level {
            Level::Error => format!("{} {text}", Role::Error.paint("error:", color)),
            Level::Warn => format!("{} {text}", Role::Warning.paint("warning:", color)),
            Level::Info => text.into_owned(),
            Level::Decision | Level::Debug | Level::Trace => Role::Faint.paint(&text, color),
        };
        if self.stamps {
            let now = units::now_in_milliseconds();
            self.text(&format!("{now} {line}"));
        } else {
            self.text(&line);
        }
    }

    /// Reports a failed command: an error with cause and next steps, or the error object under JSON formats.
    pub fn failure(&self, error: &CliError, json: bool) {
        if json {
            // Wrapped, it would not be JSON.
            self.write(format!("{}\n", escape::json(&error.to_json())).as_bytes());
            return;
        }
        if self.format == LogFormat::Json {
            let said = json!({"level": Level::Error.word(), "target": self.shared.program});
            return self.object(said, error.to_object());
        }
        self.explain(&Role::Error.paint("error:", self.shared.color), error);
    }

    /// Reports a failed command of a script as `FILE:LINE: CODE: message`, the format of compilers.
    pub(crate) fn failure_at(&self, place: &str, error: &CliError) {
        self.explain(&format!("{}:", escape::line(place)), error);
    }

    fn explain(&self, head: &str, error: &CliError) {
        let code =
            if error.exit == Exit::Usage { String::new() } else { format!("{}: ", error.code) };
        let message = escape::lines(&error.message);
        let mut text = format!("{head} {code}{message}");
        for hint in &error.hints {
            text.push_str(&format!(
                "\n  {} {}",
                Role::Faint.paint("try:", self.shared.color),
                escape::line(hint)
            ));
        }
        self.text(&text);
    }

    /// A text of several lines, which are wrapped between words; the caller has escaped what is not its own.
    pub(crate) fn text(&self, text: &str) {
        self.write(format!("{}\n", self.fitted(text)).as_bytes());
    }

    /// A JSON line, with the time first; the caller was asked for it.
    pub(crate) fn object(&self, head: Value, fields: Map<String, Value>) {
        let now = units::now_in_milliseconds();
        let mut object = Map::from_iter([("ts".to_owned(), now.into())]);
        if let Value::Object(head) = head {
            object.extend(head);
        }
        object.extend(fields);
        self.write(format!("{}\n", escape::json(&Value::Object(object).to_string())).as_bytes());
    }

    /// Ends the line on which a terminal has shown `^C`.
    pub fn after_interrupt(&self) {
        // Any output on a terminal does that.
        if self.is_terminal() {
            self.write(b"");
        }
    }

    /// A question at the terminal; the cursor stays after it.
    pub fn prompt(&self, question: &str) {
        let question = escape::line(question);
        let question = self.fitted(&question);
        self.write(format!("{question} ").as_bytes());
    }

    /// The text, wrapped between words at the terminal's width.
    fn fitted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let width = self.is_terminal().then(terminal_size::terminal_size).flatten();
        width.map_or(Cow::Borrowed(text), |(width, _)| wrap::words(text, width.0.into()))
    }

    /// Whether a progress bar is shown.
    pub(crate) fn has_bar(&self) -> bool {
        lock(&self.shared.bar).is_some()
    }

    /// Keeps messages and this progress bar from overwriting each other, until it is cleared.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        *lock(&self.shared.bar) = bar;
    }

    /// Holds messages back while something uses the whole screen, until [`Messages::release`].
    pub(crate) fn hold(&self) {
        *lock(&self.shared.held) = Some(Vec::new());
    }

    /// Shows the messages that were held back.
    pub(crate) fn release(&self) {
        let held = lock(&self.shared.held).take();
        if let Some(held) = held.filter(|held| !held.is_empty()) {
            self.write(&held);
        }
    }

    /// Discards the messages that were held back.
    pub(crate) fn forget(&self) {
        drop(lock(&self.shared.held).take());
    }

    /// If stderr fails, there is nowhere to report it.
    fn write(&self, bytes: &[u8]) {
        if let Some(held) = &mut *lock(&self.shared.held) {
            if held.len() + bytes.len() <= MOST_HELD {
                held.extend_from_slice(bytes);
            }
            return;
        }
        let write = || {
            let mut sink = lock(&self.shared.sink);
            if self.shared.terminal && signals::take_echo() {
                let _ = sink.write_all(b"\n");
            }
            let _ = sink.write_all(bytes);
            let _ = sink.flush();
        };
        match lock(&self.shared.bar).as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// Maximum bytes to hold back.
const MOST_HELD: usize = 16 << 10;

/// Shows what is sent and received, a line each, under `-vvv` or as configured by the tool's log variable.
#[derive(Clone)]
pub struct Trace(Option<(Messages, String)>);

impl Trace {
    /// Whether the trace is shown.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Shows something sent.
    pub fn sent(&self, what: impl Display) {
        self.show(format_args!("> {what}"));
    }

    /// Shows something received.
    pub fn came(&self, what: impl Display) {
        self.show(format_args!("< {what}"));
    }

    /// Shows any other line.
    pub fn show(&self, line: impl Display) {
        if let Some((messages, target)) = &self.0 {
            messages.log(Level::Trace, target, &line.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Memory;

    fn captured(write: impl FnOnce(&Messages)) -> String {
        let sink = Memory::default();
        write(&Messages::to(Box::new(sink.clone()), "tool", false, false));
        let bytes = sink.bytes();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn failures_print_cause_and_hint_or_one_object() {
        let error = CliError::not_found("job 42 does not exist\x1b[2J").hint("job 42");
        assert_eq!(
            captured(|messages| messages.failure(&error, false)),
            "error: NOT_FOUND: job 42 does not exist\\x1b[2J\n  try: job 42\n"
        );
        let json = captured(|messages| messages.failure(&error, true));
        assert_eq!(json.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["error"]["exit"], 1);
    }

    #[test]
    fn lines_may_be_objects() {
        let text = captured(|messages| {
            let messages = messages.clone().with_format(LogFormat::Json).stamped();
            messages.warn_of("job 7\x1b: exit 3", Map::from_iter([("exit".to_owned(), 3.into())]));
            messages.decision("hidden");
            messages.failure(&CliError::not_found("job 42 is not there").hint("job 43"), false);
        });
        assert!(!text.contains('\x1b'), "{text}");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [warning, failure] = lines.as_slice() else { panic!("{text}") };
        assert_eq!(warning["level"], "warn");
        assert_eq!(warning["message"], "job 7\x1b: exit 3");
        assert_eq!(warning["exit"], 3);
        assert!(humantime::parse_rfc3339(warning["ts"].as_str().unwrap()).is_ok(), "{text}");
        assert_eq!(failure["level"], "error");
        assert_eq!((&failure["code"], &failure["exit"]), (&json!("NOT_FOUND"), &json!(1)));
        assert_eq!(failure["message"], "job 42 is not there");
        assert_eq!(failure["hints"], json!(["job 43"]));
    }

    #[test]
    fn notes_are_escaped() {
        assert_eq!(captured(|messages| messages.note("tube \u{202e}x")), "tube \\u{202e}x\n");
        assert_eq!(captured(|messages| messages.decision("hidden")), "");
    }
}
