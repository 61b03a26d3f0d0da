//! Leaving while jobs are reserved: they are treated like an open transaction.

use std::sync::Mutex;

use beanstalk_client::protocol::{Bury, Delete, Release};
use beanstalk_client::{JobId, ReleaseOptions};
use ctl_core::error::CliError;
use ctl_core::link::Link as _;
use ctl_core::repl::guest::lock;
use ctl_core::repl::on_exit::{ASK, Answers, choose};
use ctl_core::repl::shell::Terminal;
use ctl_core::units;

use super::held::list;
use super::state::{BURY, CLOSE, DELETE, RELEASE, State};
use crate::error::{NOT_FOUND, cli_error};

/// Settles the reserved jobs before the session ends, goes to another server, or runs a file. Asks the
/// person if there is one and no setting answers. True to go on.
///
/// # Errors
/// A job could not be settled: the session stays.
pub(super) fn settle(
    shared: &Mutex<State<'_>>,
    person: Option<&mut dyn Terminal>,
) -> Result<bool, CliError> {
    let (held, on_exit) = {
        let mut state = lock(shared);
        // Who is told that jobs go back must not have lost them long ago.
        if let Some(said) = state.note_loss() {
            state.tool.messages.note(said);
        }
        (state.held_ids(), state.on_exit)
    };
    if held.is_empty() {
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
    lock(shared).apply(fate)?;
    Ok(true)
}

/// Asks a person; none to stay. The state is not locked while the person thinks.
fn ask(
    shared: &Mutex<State<'_>>,
    person: &mut dyn Terminal,
) -> Result<Option<&'static str>, CliError> {
    lock(shared).show_reserved()?;
    // The second Ctrl-D: the default.
    let answers = Answers { words: &[RELEASE, BURY, DELETE], at_end: RELEASE };
    choose(person, answers, CLOSE, || {
        let count = lock(shared).held_ids().len();
        (count > 0).then(|| format!("{} reserved", units::count(count as u64, "job")))
    })
}

impl State<'_> {
    fn apply(&mut self, fate: &str) -> Result<(), CliError> {
        let ids = self.held_ids();
        if fate == CLOSE {
            self.close(&ids);
            return Ok(());
        }
        for id in &ids {
            self.settle_one(*id, fate)?;
        }
        let past = match fate {
            RELEASE => "released",
            BURY => "buried",
            _ => "deleted",
        };
        let jobs = units::count(ids.len() as u64, "job");
        self.tool.messages.note(format!("{jobs} {past}: {}", list(&ids)));
        Ok(())
    }

    fn settle_one(&mut self, id: JobId, fate: &str) -> Result<(), CliError> {
        let job = self.held(id)?.job;
        let pri = self.notebook.get(id).map(|note| note.pri).unwrap_or_default();
        let link = &mut self.tool.link;
        let settled = match fate {
            BURY => link.call(Bury::new(job, pri)),
            DELETE => link.call(Delete::new(job)),
            _ => {
                let release = Release::new(job, ReleaseOptions::new(pri)).map_err(cli_error)?;
                link.call(release).map(|_| ())
            }
        };
        match settled {
            Ok(()) => {}
            // Its time was over: it is where a release would have put it, or gone.
            Err(error) if error.code == NOT_FOUND => {
                self.tool.messages.warn(format!("job {id} was no longer reserved"));
            }
            Err(error) => return Err(error),
        }
        self.forget(id);
        Ok(())
    }

    /// Closing the connection gives the jobs back with priority and counters as they are.
    fn close(&mut self, ids: &[JobId]) {
        self.left_behind = ids.to_vec();
        self.tool.link.close();
        self.start_connection();
        self.forget_all();
        let jobs = units::count(ids.len() as u64, "reserved job");
        self.tool.messages.warn(format!("{jobs} went back to ready: {}", list(ids)));
    }
}
