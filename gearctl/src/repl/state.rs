//! The state of a session: the tool with its connections, its jobs, its settings.

use std::time::Instant;

use ctl_core::repl::guest::{ASK, Guest as _, OnExit};
use ctl_core::repl::known::KnownNames;
use ctl_core::repl::reconnect::Reconnector;
use gearman_client::{Epoch, JobHandle};

use crate::submit::running::Running;
use crate::tool::Tool;

/// The fates of foreground jobs when a session ends: the values of `on_exit`.
pub(super) const WAIT: &str = "wait";
pub(super) const LEAVE: &str = "leave";
const ON_EXIT: &[&str] = &[ASK, WAIT, LEAVE];

/// Names for completion: the jobs of the session, newest first, and those that would be left behind.
pub(super) const OWN: &str = "own";
pub(super) const OPEN: &str = "open";

/// A session.
pub struct State<'t> {
    pub(super) tool: &'t mut Tool,
    pub(super) names: KnownNames,
    pub(super) on_exit: OnExit,
    /// Messages for the user about events of jobs.
    pub(super) unsaid: Vec<String>,
    /// Whether a person is using the session.
    pub(super) person: bool,
    /// The connections that the session knew, one for each server; none before the first.
    pub(super) epochs: Option<Vec<Epoch>>,
    /// As of the last poll; a client that has not been polled was connected when it was made.
    pub(super) was_connected: bool,
    pub(super) again: Reconnector,
}

impl<'t> State<'t> {
    /// A session of this tool, which has been prepared for sessions.
    pub(super) fn new(tool: &'t mut Tool, person: bool, names: KnownNames) -> Self {
        Self {
            tool,
            names,
            on_exit: OnExit::ask(ON_EXIT),
            unsaid: Vec::new(),
            person,
            epochs: None,
            was_connected: true,
            again: Reconnector::default(),
        }
    }

    /// The session's memory.
    pub(super) fn session(&mut self) -> &mut Vec<Running> {
        self.tool.session.get_or_insert_default()
    }

    /// The foreground jobs that have not ended, as far as is known.
    pub(super) fn open_jobs(&mut self) -> Vec<JobHandle> {
        self.collect(Instant::now());
        self.session().iter().flat_map(Running::open).cloned().collect()
    }

    /// Number of foreground jobs that have not ended, as far as is known, including those that have no handle yet.
    pub(super) fn count_open(&mut self) -> usize {
        self.collect(Instant::now());
        self.session().iter().map(Running::count_open).sum()
    }

    /// Takes the events of jobs that arrived in the meantime.
    pub(super) fn collect(&mut self, now: Instant) {
        let news = self.session().iter_mut().flat_map(|run| run.collect(now)).collect::<Vec<_>>();
        if self.person {
            self.unsaid.extend(news);
        }
    }

    /// Whether the session is connected, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.tool.link.is_connected()
    }

    /// The connections were given up on purpose, so their replacements are not a loss.
    pub(super) fn start_connection(&mut self) {
        self.epochs = None;
        self.was_connected = true;
    }

    /// Connects again after a loss.
    pub(super) fn try_again(&mut self, now: Instant) -> Option<String> {
        let client = self.tool.link.opened_mut()?;
        if !self.again.try_again(now, || client.reconnect().is_ok()) {
            return None;
        }
        self.start_connection();
        self.notice_loss();
        Some("reconnected".to_owned())
    }
}
