//! Lines from a person at a terminal that supports editing. The only file that knows rustyline.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use clap::Command;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::history::{MemHistory, SearchDirection};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Behavior, Cmd, ColorMode, CompletionType, Config, Context, Helper, KeyCode, KeyEvent, Modifiers,
};
use unicode_width::UnicodeWidthStr;

use super::complete::{Values, complete};
use super::ending::wake_editor;
use super::hint::hint;
use super::history::MAX_ENTRIES;
use super::lexer::{self, LexError, Open};
use super::prompt::Prompt;
use super::source::MAX_STATEMENT;
use crate::error::CliError;
use crate::output::color::Role;
use crate::system::signals::{self, Interrupts};

/// What a line editor needs.
pub struct EditorSetup {
    /// The grammar for completion, hints and the check for open quotes; it must be built.
    pub grammar: Command,
    /// The source of live names.
    pub values: Box<dyn Values>,
    /// Whether the terminal gets colours.
    pub color: bool,
    /// Whether hints are shown; may change during the editor's lifetime.
    pub hints: Rc<Cell<bool>>,
    /// Older entries, oldest first.
    pub history: Vec<String>,
    /// What a new prompt clears: it interrupts the editor by the same signal as a person.
    pub interrupts: Interrupts,
}

/// A line editor on the terminal.
pub struct Editor {
    inner: rustyline::Editor<Assistant, MemHistory>,
    color: bool,
    screen: Arc<Screen>,
    interrupts: Interrupts,
    /// Wake-ups that arrived when the line had already ended: the next lines will see them.
    late: usize,
}

/// The prompt of the line that is being edited, shared with the thread that changes it.
#[derive(Default)]
struct Screen {
    live: Mutex<Option<Arc<Live>>>,
    /// Notified when a line ends or is drawn anew.
    ended: Condvar,
    /// Whether the line can be erased and drawn anew.
    redraws: bool,
}

/// A prompt that can change while its line is edited. The line editor measures it once and asks for its text whenever it
/// draws the line. A prompt of another width therefore needs a new start of the editor, with the text typed so far.
struct Live {
    first: Version,
    width: usize,
    /// Whether it belongs to a body, whose prompt says nothing that could change.
    fixed: bool,
    typed: Mutex<Typed>,
    /// The prompt to start anew with.
    next: Mutex<Option<Prompt>>,
    /// Whether the editor was woken to start with it.
    woken: AtomicBool,
}

/// What has been typed behind a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Typed {
    text: String,
    /// Where the cursor is, in bytes.
    at: usize,
}

struct Version {
    plain: String,
    styled: String,
    next: OnceLock<Box<Version>>,
}

/// A line that is edited for longer sees no more of them.
const VERSIONS: usize = 1000;

/// How long a changed prompt may take to be drawn before the next one is considered.
const REDRAW: Duration = Duration::from_secs(1);

impl Live {
    fn new(prompt: &Prompt, fixed: bool) -> Self {
        let (first, width) = (Version::new(prompt), prompt.plain().width());
        let (typed, next, woken) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { first, width, fixed, typed, next, woken }
    }

    /// Pads with blanks; a wider one is not shown.
    fn change(&self, prompt: &Prompt) {
        if let Some(prompt) = prompt.fitted(self.width)
            && self.versions().count() < VERSIONS
            && let Some(last) = self.versions().last()
        {
            let _ = last.next.set(Box::new(Version::new(&prompt)));
        }
    }

    /// Asks for a new start with this prompt, if its width differs and the old line fills no more than one row of
    /// `columns`: only such a line can be erased without knowing how the terminal has wrapped it.
    fn replace(&self, prompt: &Prompt, columns: usize) -> bool {
        let typed = lock(&self.typed);
        let is_one_row = !typed.text.contains('\n') && self.width + typed.text.width() < columns;
        let replaces = is_one_row && prompt.plain().width() != self.width;
        if replaces {
            *lock(&self.next) = Some(prompt.clone());
        }
        replaces
    }

    fn note(&self, text: &str, at: usize) {
        let mut typed = lock(&self.typed);
        if typed.text != text {
            text.clone_into(&mut typed.text);
        }
        typed.at = at;
    }

    fn versions(&self) -> impl Iterator<Item = &Version> {
        std::iter::successors(Some(&self.first), |version| version.next.get().map(|next| &**next))
    }

    fn last(&self) -> &Version {
        self.versions().last().unwrap_or(&self.first)
    }
}

impl Version {
    fn new(prompt: &Prompt) -> Self {
        Self { plain: prompt.plain(), styled: prompt.styled(), next: OnceLock::new() }
    }
}

impl rustyline::Prompt for Live {
    fn raw(&self) -> &str {
        &self.last().plain
    }

    fn styled(&self) -> &str {
        &self.last().styled
    }
}

/// Input from the terminal.
#[derive(Debug)]
pub enum Edited {
    /// A text of one or more complete statements.
    Text(Vec<u8>),
    /// Ctrl-C, or a signal.
    Interrupted,
    /// Ctrl-D on an empty line, or the terminal is gone.
    End,
}

/// Whether lines can be edited here: stdin is a terminal that knows cursor movement.
#[must_use]
pub fn is_possible() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    let plain = ["dumb", "cons25", "emacs"].iter().any(|name| term.eq_ignore_ascii_case(name));
    io::stdin().is_terminal() && !plain
}

impl Editor {
    /// An editor on the terminal of stdin.
    ///
    /// # Errors
    /// The terminal cannot be used: exit 74.
    pub fn new(setup: EditorSetup) -> Result<Self, CliError> {
        let color = setup.color;
        let config = config(color)?;
        let history = MemHistory::with_config(&config);
        let mut inner = rustyline::Editor::with_history(config, history).map_err(unusable)?;
        let (grammar, values, hints) = (setup.grammar, setup.values, setup.hints);
        let (prompt, in_body) = (Cell::default(), Cell::default());
        let live = RefCell::default();
        let assistant = Assistant { grammar, values, color, hints, prompt, in_body, live };
        inner.set_helper(Some(assistant));
        inner.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        for entry in setup.history {
            remember(&mut inner, &entry);
        }
        // Elsewhere than on stdout, the editor opens the terminal itself.
        let redraws = cfg!(unix) && io::stdout().is_terminal();
        let screen = Arc::new(Screen { redraws, ..Screen::default() });
        Ok(Self { inner, color, screen, interrupts: setup.interrupts, late: 0 })
    }

    /// Reads one text, with quotes, brackets and `<<` bodies complete. The lines of a body have a prompt of their own.
    ///
    /// # Errors
    /// The terminal fails: exit 74. Input that is not UTF-8: exit 65.
    pub fn read(&mut self, prompt: &Prompt) -> Result<Edited, CliError> {
        let mut text = match self.line(prompt, false)? {
            Edited::Text(text) => text,
            other => return Ok(other),
        };
        let more = Prompt::new().role(Role::Faint, if self.color { "…" } else { "..." }).text("> ");
        while what_is_open(&text).is_some_and(|open| matches!(open, Open::Heredoc { .. })) {
            match self.line(&more, true)? {
                Edited::Text(line) if text.len() + line.len() < MAX_STATEMENT => {
                    text.push(b'\n');
                    text.extend_from_slice(&line);
                }
                Edited::Interrupted => return Ok(Edited::Interrupted),
                // What is missing is reported as for any other text.
                Edited::Text(_) | Edited::End => break,
            }
        }
        Ok(Edited::Text(text))
    }

    fn line(&mut self, prompt: &Prompt, in_body: bool) -> Result<Edited, CliError> {
        let (mut prompt, mut typed) = (prompt.clone(), Typed::default());
        let screen = Arc::clone(&self.screen);
        loop {
            let live = Arc::new(Live::new(&prompt, in_body));
            if let Some(assistant) = self.inner.helper() {
                assistant.prompt.set(prompt.plain().chars().count());
                assistant.in_body.set(in_body);
                assistant.live.replace(Some(Arc::clone(&live)));
            }
            *lock(&screen.live) = Some(Arc::clone(&live));
            let read = self.inner.readline_with_initial(&*live, typed.halves());
            let mut shown = lock(&screen.live);
            *shown = None;
            let is_woken = live.woken.load(Ordering::SeqCst);
            if !self.was_woken(&read, is_woken) {
                screen.ended.notify_all();
                return edited(read);
            }
            prompt = lock(&live.next).take().unwrap_or(prompt);
            typed = lock(&live.typed).clone();
            erase_row();
            screen.ended.notify_all();
        }
    }

    /// Whether the line ended only because another thread woke the editor.
    fn was_woken(&mut self, read: &rustyline::Result<String>, is_asked: bool) -> bool {
        if is_asked {
            // The signal was meant for the editor alone.
            self.interrupts.clear();
            let _ = signals::take_echo();
        }
        let is_interrupted = matches!(read, Err(ReadlineError::Interrupted));
        match (is_interrupted, is_asked) {
            (true, true) => true,
            (true, false) if self.late > 0 => {
                self.late -= 1;
                true
            }
            (false, true) => {
                self.late += 1;
                false
            }
            (_, false) => false,
        }
    }

    /// Asks a question, without history and completion.
    ///
    /// # Errors
    /// See [`Editor::read`].
    pub fn ask(&mut self, question: &Prompt) -> Result<Edited, CliError> {
        let config = config(self.color)?;
        let mut plain: rustyline::Editor<(), MemHistory> =
            rustyline::Editor::with_history(config, MemHistory::new()).map_err(unusable)?;
        edited(plain.readline(&question.plain()))
    }

    /// Adds an entry to what Up and Ctrl-R find.
    pub fn remember(&mut self, entry: &str) {
        remember(&mut self.inner, entry);
    }

    /// Clears the screen.
    ///
    /// # Errors
    /// The terminal fails: exit 74.
    pub fn clear_screen(&mut self) -> Result<(), CliError> {
        self.inner.clear_screen().map_err(unusable)
    }

    /// A way to print above the edited line from other threads.
    pub fn notices(&mut self) -> Notices {
        match self.inner.create_external_printer() {
            Ok(printer) => Notices::to(Box::new(printer), Arc::clone(&self.screen)),
            // stdin and stdout are not both terminals, so there is no line to keep whole.
            Err(_) => Notices::stderr(),
        }
    }
}

impl Typed {
    /// What is before and behind the cursor.
    fn halves(&self) -> (&str, &str) {
        self.text.split_at_checked(self.at).unwrap_or((&self.text, ""))
    }
}

/// Erases the row above, where a line was that the editor has left, and goes there.
fn erase_row() {
    let mut out = io::stdout();
    // A terminal that is gone shows at the next read.
    let _ = out.write_all(b"\x1b[A\r\x1b[J").and_then(|()| out.flush());
}

/// Entries come from a file that others may have written, so only lines that a terminal shows unchanged are used.
fn remember(editor: &mut rustyline::Editor<Assistant, MemHistory>, entry: &str) {
    if entry.chars().all(|c| c == '\n' || !crate::output::escape::acts(c)) {
        // Only a full disk could fail, and this history is in memory.
        let _ = editor.add_history_entry(entry);
    }
}

fn config(color: bool) -> Result<Config, CliError> {
    // The prompt must not end up in a redirected stdout, so the terminal itself is used then.
    let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
    let builder = Config::builder()
        .max_history_size(MAX_ENTRIES)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(unusable)?;
    Ok(builder
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(if color { ColorMode::Enabled } else { ColorMode::Disabled })
        .behavior(behavior)
        .bracketed_paste(true)
        .build())
}

fn edited(result: rustyline::Result<String>) -> Result<Edited, CliError> {
    match result {
        Ok(text) => Ok(Edited::Text(text.into_bytes())),
        Err(ReadlineError::Interrupted) => Ok(Edited::Interrupted),
        Err(ReadlineError::Eof) => Ok(Edited::End),
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(CliError::bad_data("the input is not UTF-8")
                .hint("write other bytes as \"\\xHH\" or hex:…"))
        }
        Err(error) => Err(unusable(error)),
    }
}

fn unusable(error: ReadlineError) -> CliError {
    CliError::reading("the terminal", &io::Error::other(error.to_string()))
}

/// Prints lines from any thread without breaking the line that is being edited.
#[derive(Clone)]
pub struct Notices {
    printer: Option<Arc<Mutex<Box<dyn rustyline::ExternalPrinter + Send>>>>,
    screen: Arc<Screen>,
}

impl Notices {
    /// Lines go to stderr unchanged, because nothing is being edited.
    #[must_use]
    pub fn stderr() -> Self {
        Self { printer: None, screen: Arc::default() }
    }

    fn to(printer: Box<dyn rustyline::ExternalPrinter + Send>, screen: Arc<Screen>) -> Self {
        Self { printer: Some(Arc::new(Mutex::new(printer))), screen }
    }

    /// Changes the prompt of the line that is being edited, from the next printed line on; see [`Notices::redraw`].
    pub fn change_prompt(&self, prompt: &Prompt) {
        let shown = lock(&self.screen.live);
        let Some(live) = shown.as_ref().filter(|live| !live.fixed) else { return };
        if !self.screen.redraws || !live.replace(prompt, columns()) {
            live.change(prompt);
        }
    }

    /// Draws the line anew if its prompt was changed to one of another width. Do not hold a lock that the reader of the
    /// terminal needs: this may wait for it.
    pub fn redraw(&self) {
        let shown = lock(&self.screen.live);
        let Some(live) = shown.clone().filter(|live| lock(&live.next).is_some()) else { return };
        // Under the lock: whoever takes it when the line has ended knows whether the signal was sent.
        live.woken.store(true, Ordering::SeqCst);
        wake_editor();
        let is_old = |shown: &mut Option<Arc<Live>>| {
            shown.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, &live))
        };
        let _ = self.screen.ended.wait_timeout_while(shown, REDRAW, is_old);
    }

    /// Prints one line; anything that could act on a terminal is escaped. Do not hold a lock that the reader of the
    /// terminal needs, because this may wait for it.
    pub fn print(&self, text: &str) {
        let line = format!("{}\n", crate::output::escape::line(text));
        let printed =
            self.printer.as_ref().is_some_and(|printer| lock(printer).print(line.clone()).is_ok());
        if !printed {
            eprint!("{line}");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Assistance while a line is typed.
struct Assistant {
    grammar: Command,
    values: Box<dyn Values>,
    color: bool,
    hints: Rc<Cell<bool>>,
    /// The width of the prompt.
    prompt: Cell<usize>,
    /// Whether the line belongs to a body, which is not a command.
    in_body: Cell<bool>,
    /// The line that is being edited.
    live: RefCell<Option<Arc<Live>>>,
}

impl Assistant {
    /// Remembers what is typed, for a new start.
    fn note(&self, line: &str, pos: usize) {
        if let Some(live) = &*self.live.borrow() {
            live.note(line, pos);
        }
    }
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.in_body.get() {
            return Ok((pos, Vec::new()));
        }
        let text = line.get(..pos).unwrap_or(line);
        let (start, candidates) = complete(&self.grammar, self.values.as_ref(), text);
        let pair =
            |c: super::complete::Candidate| Pair { display: c.shown, replacement: c.replacement };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

/// A hint; only one from history can be accepted with the right arrow.
struct Suggestion {
    shown: String,
    text: Option<String>,
}

impl Hint for Suggestion {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl Hinter for Assistant {
    type Hint = Suggestion;

    fn hint(&self, line: &str, pos: usize, context: &Context<'_>) -> Option<Suggestion> {
        self.note(line, pos);
        // Without colours, hints could not be distinguished from what was typed.
        if self.in_body.get()
            || !self.hints.get()
            || !self.color
            || pos < line.len()
            || line.trim().is_empty()
        {
            return None;
        }
        let room = room(self.prompt.get(), line, columns());
        if let Some(text) = from_history(line, context) {
            return Some(Suggestion { shown: fitting(&text, room)?, text: Some(text) });
        }
        let shown = fitting(&hint(&self.grammar, line)?, room)?;
        Some(Suggestion { shown, text: None })
    }
}

/// How wide the terminal is, or is taken to be.
fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into())
}

/// How much fits after the line in its last row. A hint that continues in the next row would not be erased there.
fn room(prompt: usize, line: &str, width: usize) -> usize {
    let column = match line.rsplit_once('\n') {
        Some((_, last)) => last.chars().count(),
        None => prompt + line.chars().count(),
    };
    // The last column would wrap the cursor.
    (width.max(1) - column % width.max(1)).saturating_sub(1)
}

/// The hint, cut to the room there is; none if a cut one would be meaningless.
fn fitting(hint: &str, room: usize) -> Option<String> {
    if hint.chars().count() <= room {
        return Some(hint.to_owned());
    }
    let kept = room.checked_sub(1).filter(|kept| *kept >= 3)?;
    Some(hint.chars().take(kept).chain(['…']).collect())
}

/// The rest of the newest entry that starts with `line`.
fn from_history(line: &str, context: &Context<'_>) -> Option<String> {
    let newest = context.history_index().min(context.history().len()).checked_sub(1)?;
    let found = context.history().starts_with(line, newest, SearchDirection::Reverse).ok()??;
    let rest = found.entry.get(line.len()..)?;
    (!rest.is_empty() && !rest.contains('\n')).then(|| rest.to_owned())
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(crate::output::color::Role::Faint.paint(hint, self.color))
    }

    /// Called after every key, also where only the cursor moves; without colours, the editor asks for hints alone, and
    /// a new start puts the cursor where the text was changed last.
    fn highlight_char(&self, line: &str, pos: usize, _: CmdKind) -> bool {
        self.note(line, pos);
        false
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = what_is_open(context.input().as_bytes());
        // The lines of a body are read one by one.
        let goes_on = open.is_some_and(|open| !matches!(open, Open::Heredoc { .. }));
        Ok(if goes_on && !self.in_body.get() {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

/// Unfinished quotes, brackets, `<<` body or backslash at the end of the text.
fn what_is_open(text: &[u8]) -> Option<Open> {
    let mut rest = text;
    while !rest.is_empty() {
        match lexer::next_statement(rest) {
            Ok(statement) => rest = rest.get(statement.used.max(1)..).unwrap_or_default(),
            Err(LexError::Incomplete(open)) => return Some(open),
            Err(LexError::Invalid(_)) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rustyline::history::History as _;

    use super::*;

    #[test]
    fn enter_goes_on_while_something_is_open() {
        for open in [
            "put \"a",
            "put 'a\nb",
            "put <<E\nx",
            "put {",
            "put \\",
            "put a\nput \"",
            "put <<E\nE\nput '",
        ] {
            assert!(what_is_open(open.as_bytes()).is_some(), "{open}");
        }
        for done in
            ["", "put a", "put \"a\nb\"", "put <<E\nx\nE", "put \"a\"b", "put a\nput b", "put {\n}"]
        {
            assert!(what_is_open(done.as_bytes()).is_none(), "{done}");
        }
    }

    #[test]
    fn a_prompt_changes_to_one_of_the_same_width() {
        use rustyline::Prompt as _;
        let prompt = |text: &str| Prompt::new().text(text).text("> ");
        let live = Live::new(&prompt("one:1 mail"), false);
        live.change(&prompt("gone"));
        assert_eq!(live.raw(), "gone      > ");
        live.change(&prompt("much wider than it was"));
        assert_eq!(live.raw(), "gone      > ");
        (0..2 * VERSIONS).for_each(|n| live.change(&prompt(&n.to_string())));
        assert_eq!(live.versions().count(), VERSIONS);
    }

    #[test]
    fn a_prompt_of_another_width_starts_the_line_anew_where_that_is_one_row() {
        let prompt = |text: &str| Prompt::new().text(text).text("> ");
        let live = Live::new(&prompt("not connected"), false);
        let next = |live: &Live| lock(&live.next).take().map(|prompt| prompt.plain());
        assert!(!live.replace(&prompt("not connected"), 80), "nothing to do");
        assert!(live.replace(&prompt("one:1 mail"), 80));
        assert_eq!(next(&live).as_deref(), Some("one:1 mail> "));
        live.note("put tüp", 5);
        assert!(live.replace(&prompt("one:1 mail"), 23));
        assert!(!live.replace(&prompt("one:1 mail"), 22), "the cursor may be in the next row");
        assert_eq!(lock(&live.typed).halves(), ("put t", "üp"));
        live.note("put 'a\nb", 9);
        assert!(!live.replace(&prompt("one:1 mail"), 80));
        live.note("ü", 1);
        assert_eq!(lock(&live.typed).halves(), ("ü", ""), "no boundary");
    }

    #[test]
    fn a_hint_stays_in_the_row_of_the_cursor() {
        for (prompt, line, width, expected) in [
            (10, "put ", 60, 45),
            (10, "put ", 14, 13),
            (50, "put abcde", 60, 0),
            (10, "x\ny", 60, 58),
        ] {
            assert_eq!(room(prompt, line, width), expected, "{prompt} {line:?} {width}");
        }
        assert_eq!(fitting("[-t TUBE] BODY", 14).as_deref(), Some("[-t TUBE] BODY"));
        assert_eq!(fitting("[-t TUBE] BODY", 8).as_deref(), Some("[-t TUB…"));
        assert_eq!(fitting("[-t TUBE] BODY", 3), None);
        assert_eq!(fitting("[-t TUBE] BODY", 0), None);
    }

    #[test]
    fn the_newest_entry_that_fits_is_suggested() {
        let mut history = MemHistory::new();
        for entry in ["put a", "put b", "stats", "put <<E\nx\nE"] {
            history.add(entry).unwrap();
        }
        let context = Context::new(&history);
        assert_eq!(from_history("pu", &context), None, "the newest has several lines");
        assert_eq!(from_history("put b", &context), None);
        assert_eq!(from_history("st", &context).as_deref(), Some("ats"));
        assert_eq!(from_history("put a", &context), None);
        assert_eq!(from_history("x", &Context::new(&MemHistory::new())), None);
    }
}
