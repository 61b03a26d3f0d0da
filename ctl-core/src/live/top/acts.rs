//! The commands of the live view: a user's changes to a queue, of which the tool first shows what would be done and
//! does it if the user agrees, and the jobs of a queue.

use std::sync::{Arc, mpsc};
use std::thread;

use serde_json::Value;

use super::board::{Board, Known, Row};
use super::view::{Listing, Prompt, View};
use crate::context::Context;
use crate::error::CliError;
use crate::live::own::{self, Came, Own};
use crate::output::Format;
use crate::repl::guest::Interactive;
use crate::system::signals::Interrupts;

/// Runs commands in threads, so that the live view continues.
pub(super) struct Acts<T: Interactive> {
    own: Arc<Own<T>>,
    answers: (mpsc::Sender<Answer>, mpsc::Receiver<Answer>),
    /// The question of the prompt.
    asked: Option<Asked>,
    /// Whether changes are allowed.
    writes: bool,
    /// Ends the last listing, and its number.
    listing: (Interrupts, u64),
}

#[derive(Debug)]
struct Asked {
    server: String,
    line: Vec<String>,
    /// For example `mail: kick the buried jobs`.
    what: String,
}

enum Answer {
    Act { is_done: bool, asked: Asked, came: Result<Came, CliError> },
    Jobs(Listing),
}

impl<T: Interactive> Acts<T>
where
    T::Link: Send,
{
    /// Creates its own connections.
    ///
    /// # Errors
    /// Those of [`Own::of`].
    pub(super) fn of(context: &mut Context<T>, writes: bool) -> Result<Self, CliError> {
        let (own, listing) = (Arc::new(Own::of(context)?), (Interrupts::none(), 0));
        Ok(Self { own, answers: mpsc::channel(), asked: None, writes, listing })
    }

    /// Lists jobs of a queue, instead of those that are being listed.
    pub(super) fn list(&mut self, row: &Row<'_>, board: &Board) -> Listing {
        self.stop_listing();
        self.listing = (Interrupts::none(), self.listing.1 + 1);
        let (interrupts, turn) = self.listing.clone();
        let name = own::name(row.name, "the name").map_err(|error| error.message);
        let line = board.jobs.map_err(str::to_owned).and_then(|line| {
            let name = name?;
            Ok(line.iter().map(|word| word.replace("{queue}", &name)).collect::<Vec<_>>())
        });
        let asked = Listing { turn, queue: row.name.to_owned(), lines: Vec::new(), skip: 0 };
        let line = match line {
            Ok(line) => line,
            Err(why) => return Listing { lines: vec![why], ..asked },
        };
        let waiting = Listing { lines: vec!["asking…".to_owned()], ..asked.clone() };
        let (own, answers) = (Arc::clone(&self.own), self.answers.0.clone());
        let server = row.server.to_owned();
        thread::spawn(move || {
            let text = match own.run(&server, Format::Table, (line, None), &interrupts) {
                Ok(Came { result: Value::String(table), messages, .. }) => messages + &table,
                Ok(came) => came.line(),
                Err(error) => error.message,
            };
            let lines = text.lines().map(str::to_owned).collect();
            let _ = answers.send(Answer::Jobs(Listing { lines, ..asked }));
        });
        waiting
    }

    /// The jobs are no longer wanted.
    pub(super) fn stop_listing(&self) {
        self.listing.0.raise();
    }

    /// Does what the prompt asks, with the name of a protected context if the user had to type it.
    pub(super) fn go(&mut self, name: Option<String>) -> Prompt {
        match self.asked.take() {
            Some(asked) => self.run(asked, Some(name)),
            None => Prompt::None,
        }
    }

    /// Shows what would be done unless it is agreed to.
    fn run(&self, asked: Asked, agreed: Option<Option<String>>) -> Prompt {
        let mut line = asked.line.clone();
        let is_done = agreed.is_some();
        line.insert(1, if is_done { "--yes" } else { "--dry-run" }.to_owned());
        if let Some(name) = agreed.flatten() {
            line.insert(1, format!("--confirm={name}"));
        }
        let (own, answers) = (Arc::clone(&self.own), self.answers.0.clone());
        let what = asked.what.clone();
        thread::spawn(move || {
            let came = own.run(&asked.server, Format::Table, (line, None), &Interrupts::none());
            let _ = answers.send(Answer::Act { is_done, asked, came });
        });
        Prompt::Waits(what)
    }

    /// Shows the outcome of a command in the view, once; false if none has come.
    pub(super) fn came(&mut self, view: &mut View) -> bool {
        let (is_done, asked, came) = match self.answers.1.try_recv() {
            Err(_) => return false,
            Ok(Answer::Jobs(listing)) => {
                view.came(listing);
                return true;
            }
            Ok(Answer::Act { is_done, asked, came }) => (is_done, asked, came),
        };
        view.prompt = match came {
            Err(error) if is_done && error.wants_name() => {
                self.asked = Some(asked);
                Prompt::Names(String::new())
            }
            Err(error) => Prompt::Told(format!("{}: {}", asked.what, error.message)),
            Ok(came) if is_done => Prompt::Told(came.line()),
            Ok(_) => Prompt::Asks(self.asked.insert(asked).what.clone()),
        };
        true
    }

    /// The prompt for the key of an act; `None` if no act has it.
    pub(super) fn prompt(&self, key: char, row: Option<&Row<'_>>, known: &Known) -> Option<Prompt> {
        let mut ours = known.board.acts.iter().filter(|act| act.key == key).peekable();
        ours.peek()?;
        if !self.writes {
            return Some(Prompt::Told(format!("{key} makes a change: top --write enables it")));
        }
        let row = row?;
        let Some(act) = ours.find(|act| (act.fits)(row)) else {
            return Some(Prompt::Told(format!("{}: nothing to do for {key}", row.name)));
        };
        let name = match own::name(row.name, known.noun) {
            Ok(name) => name,
            Err(error) => return Some(Prompt::Told(error.message)),
        };
        let line = act.line.iter().map(|word| word.replace("{queue}", &name)).collect();
        let mut what = row.name.to_owned();
        if known.servers.len() > 1 {
            what.push_str(&format!(" on {}", row.server));
        }
        what.push_str(&format!(": {}", act.name));
        let asked = Asked { server: row.server.to_owned(), line, what };
        Some(self.run(asked, None))
    }
}
