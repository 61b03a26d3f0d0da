//! Leaving while foreground jobs are under way: the server drops those that still wait for a worker when their client
//! goes.

use std::sync::Mutex;

use ctl_core::error::CliError;
use ctl_core::repl::guest::lock;
use ctl_core::repl::on_exit::{ASK, Answers, choose};
use ctl_core::repl::shell::Terminal;
use ctl_core::units;

use super::state::{LEAVE, State, WAIT};
use crate::commands::run;
use crate::names::show_handle;

/// Settles the foreground jobs before the session ends. Asks the person if there is one and no setting answers. True to
/// go on.
///
/// # Errors
/// What showing the results reports; the session stays.
pub(super) fn settle(
    shared: &Mutex<State<'_>>,
    person: Option<&mut dyn Terminal>,
) -> Result<bool, CliError> {
    let (open, left, on_exit) = {
        let mut state = lock(shared);
        (state.count_open(), state.session().runs.len(), state.on_exit)
    };
    // Who waits wants to see the results of those that have ended, too.
    if open == 0 && (left == 0 || on_exit.word != WAIT) {
        return Ok(true);
    }
    let fate = match (on_exit.word, person) {
        (ASK, Some(person)) => match ask(shared, person)? {
            Some(fate) => fate,
            None => return Ok(false),
        },
        (ASK, None) => LEAVE,
        (fate, _) => fate,
    };
    let mut state = lock(shared);
    if fate == WAIT {
        return state.wait_for_all();
    }
    state.leave_all();
    Ok(true)
}

/// Asks a person; none to stay. The state is not locked while the person thinks.
fn ask(
    shared: &Mutex<State<'_>>,
    person: &mut dyn Terminal,
) -> Result<Option<&'static str>, CliError> {
    lock(shared).show_jobs()?;
    // The second Ctrl-D: out, whatever it costs.
    let answers = Answers { words: &[WAIT, LEAVE], at_end: LEAVE };
    choose(person, answers, LEAVE, || {
        let open = lock(shared).count_open();
        let jobs = units::count(open as u64, "foreground job");
        (open > 0).then(|| format!("{jobs} under way (the server drops queued ones)"))
    })
}

impl State<'_> {
    /// Shows the results of all jobs. False when Ctrl-C ends the waiting: the person stays.
    fn wait_for_all(&mut self) -> Result<bool, CliError> {
        while !self.session().runs.is_empty() {
            let running = self.session().runs.remove(0);
            let exit = match run::follow(self.tool, running) {
                Ok(exit) => exit,
                // One job's failure is no reason not to wait for the others.
                Err(error) if !error.is_broken_pipe() => {
                    self.tool.messages.failure(&error, false);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if matches!(exit, ctl_core::error::Exit::Interrupted) {
                return Ok(false);
            }
        }
        self.tool.out.flush().map(|()| true)
    }

    fn leave_all(&mut self) {
        let jobs = units::count(self.count_open() as u64, "foreground job");
        let handles: Vec<String> = self.open_jobs().iter().map(show_handle).collect();
        let names =
            if handles.is_empty() { String::new() } else { format!(": {}", handles.join(", ")) };
        self.left_behind = true;
        self.session().runs.clear();
        self.tool.messages.warn(format!("{jobs} left to the server{names}"));
    }
}
