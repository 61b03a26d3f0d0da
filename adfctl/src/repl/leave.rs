//! Leaving while messages are pulled: they are treated like an open transaction.

use std::sync::Mutex;

use ctl_core::error::CliError;
use ctl_core::link::Link as _;
use ctl_core::repl::guest::lock;
use ctl_core::repl::on_exit::{ASK, Answers, choose};
use ctl_core::repl::shell::Terminal;
use ctl_core::units;

use super::state::{CLOSE, DELETE, LCANCEL, RCANCEL, State};

/// Settles the pulled messages before the session ends, goes to another server, or runs a file. Asks the person if there
/// is one and no setting answers. True to go on.
///
/// # Errors
/// A message could not be settled: the session stays.
pub(super) fn settle(
    shared: &Mutex<State<'_>>,
    person: Option<&mut dyn Terminal>,
) -> Result<bool, CliError> {
    let (held, on_exit) = {
        let mut state = lock(shared);
        // Who is told that messages go back must not have lost them long ago.
        if let Some(said) = state.note_loss() {
            state.tool.messages.note(said);
        }
        (state.held().len(), state.on_exit)
    };
    if held == 0 {
        return Ok(true);
    }
    let fate = match (on_exit.word, person) {
        (ASK, Some(person)) => match ask(shared, person)? {
            Some(fate) => fate,
            None => return Ok(false),
        },
        (ASK, None) => CLOSE,
        (fate, _) => fate,
    };
    let mut state = lock(shared);
    if fate == CLOSE {
        state.close();
        return Ok(true);
    }
    state.settle_all(fate).map(|()| true)
}

/// Asks a person; none to stay. The state is not locked while the person thinks.
fn ask(
    shared: &Mutex<State<'_>>,
    person: &mut dyn Terminal,
) -> Result<Option<&'static str>, CliError> {
    lock(shared).show_pulled()?;
    // The second Ctrl-D: the default.
    let answers = Answers { words: &[LCANCEL, RCANCEL, DELETE], at_end: LCANCEL };
    choose(person, answers, CLOSE, || {
        let count = lock(shared).held().len();
        (count > 0).then(|| format!("{} pulled", units::count(count as u64, "message")))
    })
}

impl State<'_> {
    /// Closing the connection gives the messages back where they were.
    fn close(&mut self) {
        let pulls = self.pulls();
        self.left_behind = true;
        self.tool.link.close();
        self.start_connection();
        self.forget_all();
        let messages = units::count(pulls.len() as u64, "pulled message");
        let pulls = pulls.join(", ");
        self.tool.messages.warn(format!("{messages} went back where they were: pull {pulls}"));
    }
}
