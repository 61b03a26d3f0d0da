//! Leaving while jobs are reserved: they are treated like an open transaction.

use std::sync::Mutex;

use beanstalk_client::protocol::{Bury, Delete, Release};
use beanstalk_client::{JobId, ReleaseOptions};
use ctl_core::color::Role;
use ctl_core::error::CliError;
use ctl_core::repl::Prompt;
use ctl_core::repl::editor::Edited;
use ctl_core::repl::guest::lock;
use ctl_core::repl::shell::Terminal;
use ctl_core::units;

use super::held::list;
use super::state::{OnExit, State};
use crate::error::{NOT_FOUND, cli_error};

/// What becomes of the reserved jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Release,
    Bury,
    Delete,
    Close,
}

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
    let fate = match (on_exit, person) {
        (OnExit::Ask, Some(person)) => match ask(shared, person)? {
            Some(fate) => fate,
            None => return Ok(false),
        },
        (OnExit::Ask | OnExit::Close, _) => Fate::Close,
        (OnExit::Release, _) => Fate::Release,
        (OnExit::Bury, _) => Fate::Bury,
        (OnExit::Delete, _) => Fate::Delete,
    };
    lock(shared).apply(fate)?;
    Ok(true)
}

/// Asks until there is an answer; none to stay. The state is not locked while the person thinks.
fn ask(shared: &Mutex<State<'_>>, person: &mut dyn Terminal) -> Result<Option<Fate>, CliError> {
    lock(shared).show_reserved()?;
    loop {
        let count = lock(shared).held_ids().len();
        if count == 0 {
            return Ok(Some(Fate::Close));
        }
        let jobs = units::count(count as u64, "job");
        let question = Prompt::new().role(
            Role::Warning,
            format!("{jobs} reserved: [r]elease (default) / [b]ury / [d]elete / [c]ancel: "),
        );
        let answer = match person.ask(&question)? {
            Edited::Text(text) => String::from_utf8_lossy(&text).trim().to_ascii_lowercase(),
            // The second Ctrl-D: the default.
            Edited::End => return Ok(Some(Fate::Release)),
            Edited::Interrupted => return Ok(None),
        };
        match answer.as_str() {
            "" | "r" | "release" => return Ok(Some(Fate::Release)),
            "b" | "bury" => return Ok(Some(Fate::Bury)),
            "d" | "delete" => return Ok(Some(Fate::Delete)),
            "c" | "cancel" => return Ok(None),
            _ => {}
        }
    }
}

impl State<'_> {
    fn apply(&mut self, fate: Fate) -> Result<(), CliError> {
        let ids = self.held_ids();
        if fate == Fate::Close {
            self.close(&ids);
            return Ok(());
        }
        for id in &ids {
            self.settle_one(*id, fate)?;
        }
        let past = match fate {
            Fate::Release => "released",
            Fate::Bury => "buried",
            _ => "deleted",
        };
        let jobs = units::count(ids.len() as u64, "job");
        self.tool.messages.note(format!("{jobs} {past}: {}", list(&ids)));
        Ok(())
    }

    fn settle_one(&mut self, id: JobId, fate: Fate) -> Result<(), CliError> {
        let job = self.held(id)?.job;
        let pri = self.notebook.get(id).map(|note| note.pri).unwrap_or_default();
        let link = &mut self.tool.link;
        let settled = match fate {
            Fate::Bury => link.call(Bury::new(job, pri)),
            Fate::Delete => link.call(Delete::new(job)),
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
