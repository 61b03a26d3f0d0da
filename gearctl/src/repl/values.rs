//! What completion knows: functions of the server, handles that were seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctl_core::repl::complete::{Values, Wanted};
use ctl_core::repl::names::LiveNames;
use gearman_client::FunctionStatus;
use gearman_client::protocol::AdminCommand;

use crate::link::Link;
use crate::names::show_function;

/// How many handles that were shown are remembered.
const MAX_SEEN: usize = 1000;

/// The names; clones share them.
#[derive(Clone, Default)]
pub(super) struct Names {
    known: Arc<Mutex<Known>>,
    functions: Option<LiveNames>,
    /// The connection that the background thread is to take next.
    next_link: Arc<Mutex<Option<Link>>>,
}

#[derive(Default)]
struct Known {
    /// Jobs of the session, newest first.
    own: Vec<String>,
    /// Foreground jobs of the session that have not ended.
    open: Vec<String>,
    /// Newest first.
    seen: Vec<String>,
}

impl Names {
    /// Names with live functions, fetched over a second connection to the same servers.
    pub(super) fn live(link: Link) -> Self {
        let mut names = Self::default();
        names.connect_to(link);
        let next = Arc::clone(&names.next_link);
        let mut link: Option<Link> = None;
        names.functions = Some(LiveNames::new(move || {
            if let Some(fresh) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
                link = Some(fresh);
            }
            let status = link.as_mut()?.listing::<FunctionStatus>(&AdminCommand::Status).ok()?;
            Some(status.iter().map(|function| show_function(&function.name)).collect())
        }));
        names
    }

    /// The names come from other servers from now on.
    pub(super) fn connect_to(&mut self, link: Link) {
        *self.next_link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        self.lock().seen.clear();
        if let Some(functions) = &self.functions {
            functions.forget();
            functions.refresh();
        }
    }

    /// Functions may have come or gone.
    pub(super) fn refresh(&self) {
        if let Some(functions) = &self.functions {
            functions.refresh();
        }
    }

    /// The jobs of the session, newest first, and those that would be left behind.
    pub(super) fn own(&self, own: Vec<String>, open: Vec<String>) {
        let mut known = self.lock();
        known.own = own;
        known.open = open;
    }

    /// The jobs that would be left behind.
    pub(super) fn open(&self) -> Vec<String> {
        self.lock().open.clone()
    }

    /// Handles that a command showed.
    pub(super) fn saw(&self, handles: Vec<String>) {
        let mut known = self.lock();
        for handle in handles.into_iter().rev() {
            known.seen.retain(|seen| *seen != handle);
            known.seen.insert(0, handle);
        }
        known.seen.truncate(MAX_SEEN);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Values for Names {
    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        let names = match wanted.value_name {
            "FUNCTION" | "GLOB" | "PATTERN" => {
                self.functions.as_ref().map(LiveNames::get).unwrap_or_default()
            }
            "HANDLE" => {
                let known = self.lock();
                let others = wanted.verb != "fg";
                let seen = known.seen.iter().filter(|h| others && !known.own.contains(h));
                known.own.iter().chain(seen).cloned().collect()
            }
            "PRIORITY" => ["high", "normal", "low"].map(str::to_owned).to_vec(),
            _ => Vec::new(),
        };
        names.into_iter().filter(|name| !wanted.before.contains(name)).collect()
    }
}
