//! The user's choices in the live view, and the meaning of the keys.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::{Known, Row};
use super::selection::Selection;
use crate::text::escape;

/// The minimum and maximum polling interval.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
/// Maximum length of a filter, in characters.
const LONGEST: usize = 100;

/// The user's choices.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The figure that rows are sorted by.
    pub(super) sort: usize,
    /// Reverses the default order.
    pub(super) reversed: bool,
    /// Shows only matching queues, unless it is empty.
    pub(super) filter: String,
    /// The filter being typed.
    pub(super) typing: Option<String>,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The selected row.
    pub(super) chosen: usize,
    /// Shows only the selected row, with all its data.
    pub(super) detail: bool,
    /// Shows only the jobs of the selected row.
    pub(super) jobs: Option<Listing>,
    /// Number of rows scrolled past.
    pub(super) skip: usize,
    /// The question or message below the rows.
    pub(super) prompt: Prompt,
    /// The polling interval.
    pub(super) every: Duration,
}

/// Jobs of a queue, as their command prints them.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    /// Which listing it is: only the answer to the last one counts.
    pub(super) turn: u64,
    pub(super) queue: String,
    pub(super) lines: Vec<String>,
    /// Number of lines scrolled past.
    pub(super) skip: usize,
}

/// A question or a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Prompt {
    #[default]
    None,
    /// A command is running.
    Waits(String),
    /// A command asks for confirmation.
    Asks(String),
    /// A command asks for the name of a protected context, of which this is typed.
    Names(String),
    /// The outcome of a command.
    Told(String),
}

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Redraw after a change of the view.
    Show,
    /// Poll now, and at the view's interval from now on.
    Look,
    /// List the jobs of the selected row.
    List,
    /// Show what the command of this key would do to the selected row.
    Act(char),
    /// Confirm.
    Agree,
    /// Redraw everything.
    Redraw,
    Suspend,
    Quit,
}

impl View {
    /// A view sorted by this figure.
    pub(super) fn new(sort: usize, every: Duration) -> Self {
        Self { sort, every, ..Self::default() }
    }

    /// The rows in the order of the view.
    pub(super) fn rows<'k>(&self, known: &'k Known) -> Vec<Row<'k>> {
        let Self { filter, sort, reversed, .. } = self;
        Selection { filter, sort: Some(*sort), reversed: *reversed }.rows(known)
    }

    /// Handles a key, with this number of figures, and of rows on a page.
    pub(super) fn key(&mut self, key: KeyEvent, figures: usize, page: usize) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Quit,
                KeyCode::Char('l') => Action::Redraw,
                KeyCode::Char('z') => Action::Suspend,
                _ => Action::Nothing,
            };
        }
        if let Some(mut typed) = self.typing.take() {
            match key.code {
                KeyCode::Enter => self.filter_by(typed),
                KeyCode::Esc => {}
                key => {
                    type_into(&mut typed, key);
                    self.typing = Some(typed);
                }
            }
            return Action::Show;
        }
        if let Prompt::Names(typed) = &mut self.prompt {
            match key.code {
                KeyCode::Enter => return Action::Agree,
                KeyCode::Esc => self.prompt = Prompt::None,
                key => type_into(typed, key),
            }
            return Action::Show;
        }
        match self.prompt {
            Prompt::Asks(_) if key.code == KeyCode::Char('y') => return Action::Agree,
            Prompt::None | Prompt::Waits(_) | Prompt::Names(_) => {}
            Prompt::Asks(_) | Prompt::Told(_) => {
                let was = std::mem::replace(&mut self.prompt, Prompt::None);
                if matches!(was, Prompt::Asks(_)) {
                    return Action::Show;
                }
            }
        }
        if self.help {
            self.help = false;
            return if key.code == KeyCode::Char('q') { Action::Quit } else { Action::Show };
        }
        if let Some(listing) = &mut self.jobs {
            let most = listing.lines.len().saturating_sub(page);
            match key.code {
                KeyCode::Char('q') => return Action::Quit,
                KeyCode::Char('?' | 'h') => self.help = true,
                KeyCode::Char(' ') => return Action::List,
                KeyCode::Esc => self.jobs = None,
                KeyCode::Up => listing.skip = listing.skip.saturating_sub(1),
                KeyCode::Down => listing.skip = (listing.skip + 1).min(most),
                KeyCode::PageUp => listing.skip = listing.skip.saturating_sub(page),
                KeyCode::PageDown => listing.skip = (listing.skip + page).min(most),
                KeyCode::Home => listing.skip = 0,
                KeyCode::End => listing.skip = most,
                _ => return Action::Nothing,
            }
            return Action::Show;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Enter if self.detail => return Action::List,
            KeyCode::Enter => self.detail = true,
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(self.sort + 1, figures),
            KeyCode::Char('S') | KeyCode::Left => {
                self.sort_by(self.sort + figures.saturating_sub(1), figures);
            }
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.typing = Some(self.filter.clone()),
            KeyCode::Esc => self.filter_by(String::new()),
            KeyCode::Char('p') => {
                self.paused = !self.paused;
                return Action::Look;
            }
            KeyCode::Char(' ') => return Action::Look,
            KeyCode::Char('+') => {
                self.every = (self.every * 2).min(PAUSES.1);
                return Action::Look;
            }
            KeyCode::Char('-') => {
                self.every = (self.every / 2).max(PAUSES.0);
                return Action::Look;
            }
            KeyCode::Up => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down => self.chosen = self.chosen.saturating_add(1),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(page),
            KeyCode::PageDown => self.chosen = self.chosen.saturating_add(page),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = usize::MAX,
            // Only one command runs at a time.
            KeyCode::Char(key) if !matches!(self.prompt, Prompt::Waits(_)) => {
                return Action::Act(key);
            }
            _ => return Action::Nothing,
        }
        Action::Show
    }

    /// Shows the jobs that have come, unless others or none are wanted by now.
    pub(super) fn came(&mut self, listing: Listing) {
        if let Some(shown) = self.jobs.as_mut().filter(|shown| shown.turn == listing.turn) {
            *shown = listing;
        }
    }

    /// The name that the user has typed, if a command asked for it.
    pub(super) fn typed_name(&self) -> Option<String> {
        match &self.prompt {
            Prompt::Names(typed) => Some(typed.clone()),
            _ => None,
        }
    }

    /// Keeps the selection within the rows, and scrolls so that it is visible.
    pub(super) fn keep_within(&mut self, rows: usize, page: usize) {
        self.chosen = self.chosen.min(rows.saturating_sub(1));
        let last = self.chosen.saturating_sub(page.saturating_sub(1));
        self.skip = self.skip.clamp(last, self.chosen).min(rows.saturating_sub(page));
    }

    fn sort_by(&mut self, figure: usize, figures: usize) {
        self.sort = figure.checked_rem(figures).unwrap_or(0);
        self.reversed = false;
        self.chosen = 0;
    }

    fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.chosen = 0;
    }
}

/// A key of a line that is being typed.
fn type_into(typed: &mut String, key: KeyCode) {
    match key {
        KeyCode::Backspace => drop(typed.pop()),
        KeyCode::Char(c) if typed.chars().count() < LONGEST && !escape::acts(c) => typed.push(c),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BOARD, known};
    use super::*;

    fn typed(view: &mut View, keys: &str) -> Action {
        let mut action = Action::Nothing;
        for c in keys.chars() {
            let code = match c {
                '\r' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            action = view.key(KeyEvent::from(code), BOARD.figures.len(), 10);
        }
        action
    }

    fn names(view: &View) -> Vec<String> {
        view.rows(&known()).iter().map(|row| row.name.to_owned()).collect()
    }

    #[test]
    fn sorts_by_size_by_default() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        assert_eq!(names(&view), ["big", "mail", "sms"]);
        typed(&mut view, "r");
        assert_eq!(names(&view), ["mail", "sms", "big"]);
        typed(&mut view, "s");
        assert!(!view.reversed, "a new order begins as is usual for it");
        view.sort = 1;
        assert_eq!(names(&view), ["big", "mail", "sms"]);
        typed(&mut view, &"s".repeat(BOARD.figures.len()));
        assert_eq!(view.sort, 1);
    }

    #[test]
    fn filters_by_substring_or_pattern() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        typed(&mut view, "/m");
        assert_eq!(names(&view).len(), 3, "it counts once it is entered");
        typed(&mut view, "\r");
        assert_eq!(names(&view), ["mail", "sms"]);
        typed(&mut view, "/\x7f\u{202e}\x1b/*s\r");
        assert_eq!(view.filter, "m*s");
        assert!(names(&view).is_empty());
        typed(&mut view, "\x1b");
        assert_eq!(names(&view).len(), 3);
    }

    #[test]
    fn keeps_the_selected_row_visible() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        let mut press = |code: KeyCode| {
            view.key(KeyEvent::from(code), BOARD.figures.len(), 10);
            view.keep_within(25, 10);
            (view.chosen, view.skip)
        };
        assert_eq!(press(KeyCode::Up), (0, 0));
        assert_eq!(press(KeyCode::PageDown), (10, 1));
        assert_eq!(press(KeyCode::Up), (9, 1));
        assert_eq!(press(KeyCode::End), (24, 15));
        assert_eq!(press(KeyCode::PageUp), (14, 14));
        assert_eq!(press(KeyCode::Home), (0, 0));
    }

    #[test]
    fn actions_need_confirmation() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        assert_eq!(typed(&mut view, "k"), Action::Act('k'));
        view.prompt = Prompt::Asks("kick?".to_owned());
        assert_eq!(typed(&mut view, "q"), Action::Show, "any other key says no");
        assert_eq!(view.prompt, Prompt::None);
        view.prompt = Prompt::Asks("kick?".to_owned());
        assert_eq!(typed(&mut view, "y"), Action::Agree);
        view.prompt = Prompt::Told("done".to_owned());
        assert_eq!(typed(&mut view, "\r"), Action::Show);
        assert!(view.detail, "a key that clears a message does its own work, too");
    }

    #[test]
    fn protected_contexts_must_be_typed() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        view.prompt = Prompt::Names(String::new());
        typed(&mut view, "prodx");
        view.key(KeyEvent::from(KeyCode::Backspace), 1, 1);
        assert_eq!(view.typed_name().as_deref(), Some("prod"));
        assert_eq!(typed(&mut view, "\r"), Action::Agree);
        assert_eq!(typed(&mut view, "\x1b"), Action::Show);
        assert_eq!(view.prompt, Prompt::None);
    }

    #[test]
    fn runs_one_command_at_a_time() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        view.prompt = Prompt::Waits("mail: kick".to_owned());
        assert_eq!(typed(&mut view, "k"), Action::Nothing);
        assert_eq!(typed(&mut view, "y"), Action::Nothing, "nothing is asked yet");
        assert_eq!(view.prompt, Prompt::Waits("mail: kick".to_owned()));
        assert_eq!(typed(&mut view, "q"), Action::Quit);
    }

    #[test]
    fn opens_jobs_from_the_details() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        assert_eq!(typed(&mut view, "\r"), Action::Show);
        assert_eq!(typed(&mut view, "\r"), Action::List);
        let listing = |turn, lines: usize| {
            let lines = (0..lines).map(|line| line.to_string()).collect();
            Listing { turn, lines, ..Listing::default() }
        };
        view.jobs = Some(listing(2, 1));
        view.came(listing(1, 25));
        assert_eq!(view.jobs.as_ref().unwrap().lines.len(), 1, "it is an earlier one");
        view.came(listing(2, 25));
        let mut press = |code| {
            view.key(KeyEvent::from(code), BOARD.figures.len(), 10);
            view.jobs.as_ref().unwrap().skip
        };
        let keys = [KeyCode::Up, KeyCode::PageDown, KeyCode::End, KeyCode::Down, KeyCode::PageUp];
        assert_eq!(keys.map(&mut press), [0, 10, 15, 15, 5]);
        assert_eq!(typed(&mut view, " "), Action::List);
        assert_eq!(typed(&mut view, "k"), Action::Nothing, "a change is of a row that is seen");
        typed(&mut view, "\x1b");
        assert!(view.jobs.is_none() && view.detail);
        view.came(listing(2, 25));
        assert!(view.jobs.is_none(), "nobody waits for them");
        typed(&mut view, "\x1b");
        assert!(!view.detail);
    }

    #[test]
    fn keys_quit_pause_and_change_the_interval() {
        let mut view = View::new(BOARD.figure(None), Duration::from_secs(1));
        assert_eq!(typed(&mut view, "q"), Action::Quit);
        assert_eq!(typed(&mut view, "/q"), Action::Show, "a letter of the filter");
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.key(control, 1, 1), Action::Quit);
        typed(&mut view, "\x1b");
        assert_eq!(typed(&mut view, "p"), Action::Look);
        assert!(view.paused);
        typed(&mut view, "--------");
        assert_eq!(view.every, PAUSES.0);
        typed(&mut view, &"+".repeat(40));
        assert_eq!(view.every, PAUSES.1);
        assert_eq!(typed(&mut view, "?q"), Action::Quit);
    }
}
