//! The state of a session: the tool with its connection, the jobs it holds, its settings.

use std::time::{Duration, Instant};

use beanstalk_client::{Epoch, JobId};
use ctl_core::error::CliError;
use ctl_core::repl::guest::{ASK, Guest as _, OnExit};
use ctl_core::repl::known::KnownNames;
use ctl_core::repl::reconnect::Reconnector;

use super::held::Due;
use crate::error::NOT_FOUND;
use crate::seen::Seen;
use crate::tool::{Held, Session, Tool, forget_held, held};

/// The fates of reserved jobs when a session ends: the values of `on_exit`.
pub(super) const RELEASE: &str = "release";
pub(super) const BURY: &str = "bury";
pub(super) const DELETE: &str = "delete";
/// The connection is closed, which gives jobs back as they were.
pub(super) const CLOSE: &str = "close";
const ON_EXIT: &[&str] = &[ASK, RELEASE, BURY, DELETE, CLOSE];

/// Names for completion: ids of reserved jobs, the used tube, and the watch list.
pub(super) const HELD: &str = "held";
pub(super) const USED: &str = "used";
pub(super) const WATCHED: &str = "watched";

/// A session.
pub struct State<'t> {
    pub(super) tool: &'t mut Tool,
    pub(super) on_exit: OnExit,
    /// Whether a person is using the session.
    pub(super) person: bool,
    /// The server refused a put because it is draining.
    pub(super) draining: bool,
    /// The job whose body was shown last.
    pub(super) last_shown: Option<JobId>,
    pub(super) names: KnownNames,
    pub(super) epoch: Option<Epoch>,
    pub(super) again: Reconnector,
}

impl<'t> State<'t> {
    /// A session of this tool, which has been prepared for sessions.
    pub(super) fn new(tool: &'t mut Tool, person: bool, names: KnownNames) -> Self {
        Self {
            tool,
            on_exit: OnExit::ask(ON_EXIT),
            person,
            draining: false,
            last_shown: None,
            names,
            epoch: None,
            again: Reconnector::default(),
        }
    }

    /// The reserved jobs.
    pub(super) fn session(&mut self) -> &mut Session {
        self.tool.session.get_or_insert_default()
    }

    /// The ids of the reserved jobs, smallest first.
    pub(super) fn held_ids(&self) -> Vec<JobId> {
        let session = self.tool.session.as_ref();
        session.map(|session| session.held.keys().copied().collect()).unwrap_or_default()
    }

    /// A reserved job, with what is needed to act on it.
    pub(super) fn held(&self, id: JobId) -> Result<&Held, CliError> {
        held(self.tool, id).ok_or_else(|| {
            CliError::not_found(format!("job {id} is not reserved by this session"))
                .hint("reserved, to list the jobs it holds")
        })
    }

    /// The session no longer holds this job.
    pub(super) fn forget(&mut self, id: JobId) {
        forget_held(self.tool, id);
        self.tidy();
    }

    /// The session holds no job any more.
    pub(super) fn forget_all(&mut self) {
        self.session().held.clear();
        self.tidy();
    }

    /// The connection was given up on purpose, so its replacement is not a loss.
    pub(super) fn start_connection(&mut self) {
        self.epoch = None;
        self.draining = false;
    }

    /// Whether the session is connected, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.tool.link.is_connected()
    }

    /// Does what has become due.
    pub(super) fn act(&mut self, due: Due) -> Option<String> {
        match due {
            Due::Touch(id) => {
                let error = self.touch(id).err()?;
                // The next tick notices and reports a lost connection.
                (error.code == NOT_FOUND).then_some(error.message)
            }
            Due::Warn(id, left) => Some(format!(
                "job {id}: {} s left (touch {id}, hold {id}, or :set autotouch on)",
                left.as_secs()
            )),
            Due::Over(id) => {
                self.forget(id);
                Some(format!("job {id}: its time to run expired, and it went back to ready"))
            }
        }
        .filter(|_| self.person)
    }

    /// Restores a reserved job's full time.
    pub(super) fn touch(&mut self, id: JobId) -> Result<(), CliError> {
        let job = self.held(id)?.job;
        let sent = Instant::now();
        let touched = self.tool.link.call(beanstalk_client::protocol::Touch::new(job));
        if let Err(error) = touched {
            if error.code != NOT_FOUND {
                return Err(error);
            }
            self.forget(id);
            return Err(CliError::not_found(format!(
                "job {id} is no longer reserved by this session: its time to run expired, or another client deleted it"
            )));
        }
        if let Some(held) = self.session().held.get_mut(&id) {
            (held.touched, held.warned) = (sent, false);
        }
        Ok(())
    }

    /// Connects again after a loss.
    pub(super) fn try_again(&mut self, now: Instant) -> Option<String> {
        self.tool.link.place()?;
        if !self.person {
            return None;
        }
        let client = self.tool.link.client().ok()?;
        if !self.again.try_again(now, || client.reconnect().is_ok()) {
            return None;
        }
        self.epoch = Some(client.epoch());
        Some("reconnected; used tube and watch list restored".to_owned())
    }

    /// Records a job that was just reserved. `sent` is when the request went out: the job's time cannot
    /// have started before.
    pub(super) fn add(
        &mut self,
        seen: &Seen,
        stats: Option<&beanstalk_client::JobStats>,
        sent: Instant,
    ) {
        let ttr = stats.map_or(1, |stats| u64::try_from(stats.ttr).unwrap_or(1).max(1));
        let session = self.session();
        let held = Held {
            job: seen.job(),
            tube: stats.map(|stats| stats.tube.clone()),
            body: seen.body().clone(),
            pri: stats.map(|stats| stats.pri).unwrap_or_default(),
            ttr: Duration::from_secs(ttr),
            touched: sent,
            hold: false,
            order: session.held.values().map(|held| held.order + 1).max().unwrap_or(0),
            warned: false,
        };
        let id = held.job.id();
        session.held.insert(id, held);
        self.last_shown = Some(id);
        self.tidy();
    }
}
