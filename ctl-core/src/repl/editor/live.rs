//! The prompt of the line that is being edited: other threads change it, and print above it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use queue_core::lock;
use unicode_width::UnicodeWidthStr;

use crate::repl::prompt::Prompt;
use crate::text::escape;

/// The prompt of the line that is being edited, shared with the thread that changes it.
#[derive(Default)]
pub(super) struct Screen {
    pub(super) live: Mutex<Option<Arc<Live>>>,
    /// Notified when a line ends or is drawn anew.
    pub(super) ended: Condvar,
    /// Whether the line can be erased and drawn anew.
    pub(super) redraws: bool,
}

/// A prompt that can change while its line is edited. The line editor measures it once and asks for its text whenever
/// it draws the line. A prompt of another width therefore needs a new start of the editor, with the text typed so far.
pub(super) struct Live {
    first: Version,
    width: usize,
    /// Whether it belongs to a body, whose prompt says nothing that could change.
    fixed: bool,
    pub(super) typed: Mutex<Typed>,
    /// The prompt to start anew with.
    pub(super) next: Mutex<Option<Prompt>>,
    /// Whether the editor was woken to start with it.
    pub(super) woken: AtomicBool,
}

/// The input behind a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
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
    /// The first version.
    pub(super) fn new(prompt: &Prompt, fixed: bool) -> Self {
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

    /// Remembers what is typed, for a new start.
    pub(super) fn note(&self, text: &str, at: usize) {
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

impl Typed {
    /// The text before and behind the cursor.
    pub(super) fn halves(&self) -> (&str, &str) {
        self.text.split_at_checked(self.at).unwrap_or((&self.text, ""))
    }
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

    pub(super) fn to(
        printer: Box<dyn rustyline::ExternalPrinter + Send>,
        screen: Arc<Screen>,
    ) -> Self {
        Self { printer: Some(Arc::new(Mutex::new(printer))), screen }
    }

    /// Changes the prompt of the line that is being edited, from the next printed line on; see [`Notices::redraw`].
    pub(crate) fn change_prompt(&self, prompt: &Prompt) {
        let shown = lock(&self.screen.live);
        let Some(live) = shown.as_ref().filter(|live| !live.fixed) else { return };
        if !self.screen.redraws || !live.replace(prompt, columns()) {
            live.change(prompt);
        }
    }

    /// Draws the line anew if its prompt was changed to one of another width. Do not hold a lock that the reader of the
    /// terminal needs: this may wait for it.
    pub(crate) fn redraw(&self) {
        let shown = lock(&self.screen.live);
        let Some(live) = shown.clone().filter(|live| lock(&live.next).is_some()) else { return };
        // Under the lock, so that the holder knows after the line whether the signal was sent.
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
        let line = format!("{}\n", escape::line(text));
        let printed =
            self.printer.as_ref().is_some_and(|printer| lock(printer).print(line.clone()).is_ok());
        if !printed {
            eprint!("{line}");
        }
    }
}

/// Makes a line editor waiting for keys return, as if Ctrl-C had been typed.
pub(crate) fn wake_editor() {
    // This can only fail for a signal that does not exist.
    #[cfg(unix)]
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGINT);
}

/// How wide the terminal is, or is taken to be.
pub(super) fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_prompt_of_another_width_redraws_a_single_row() {
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
}
