//! What completion knows: tubes of the server, jobs of the session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beanstalk_client::protocol::ListTubes;
use beanstalk_client::{JobId, TubeName};
use ctl_core::repl::complete::{Values, Wanted};
use ctl_core::repl::names::LiveNames;

use crate::link::Link;

/// How many ids that were shown are remembered.
const MAX_SEEN: usize = 1000;

/// The names; clones share them.
#[derive(Clone, Default)]
pub(super) struct Names {
    known: Arc<Mutex<Known>>,
    tubes: Option<LiveNames>,
    /// The connection that the background thread is to take next.
    next_link: Arc<Mutex<Option<Link>>>,
}

#[derive(Default)]
struct Known {
    held: Vec<String>,
    /// Newest first.
    seen: Vec<String>,
    used: Option<TubeName>,
    watched: Vec<TubeName>,
}

impl Names {
    /// Names with live tubes, fetched over a second connection to the same server.
    pub(super) fn live(link: Link) -> Self {
        let mut names = Self::default();
        names.connect_to(link);
        let next = Arc::clone(&names.next_link);
        let mut link: Option<Link> = None;
        names.tubes = Some(LiveNames::new(move || {
            if let Some(fresh) = next.lock().unwrap_or_else(PoisonError::into_inner).take() {
                link = Some(fresh);
            }
            let tubes = link.as_mut()?.call(ListTubes).ok()?;
            Some(tubes.iter().map(ToString::to_string).collect())
        }));
        names
    }

    /// The names come from another server from now on.
    pub(super) fn connect_to(&mut self, link: Link) {
        *self.next_link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        self.lock().seen.clear();
        if let Some(tubes) = &self.tubes {
            tubes.forget();
            tubes.refresh();
        }
    }

    /// Tubes may have come or gone.
    pub(super) fn refresh(&self) {
        if let Some(tubes) = &self.tubes {
            tubes.refresh();
        }
    }

    /// The reserved jobs, and the used tube and the watch list if there is a connection.
    pub(super) fn held(&self, held: Vec<String>, place: Option<(TubeName, Vec<TubeName>)>) {
        let mut known = self.lock();
        known.held = held;
        if let Some((used, watched)) = place {
            known.used = Some(used);
            known.watched = watched;
        }
    }

    /// The ids of the reserved jobs.
    pub(super) fn held_ids(&self) -> Vec<String> {
        self.lock().held.clone()
    }

    /// Jobs that a command showed.
    pub(super) fn saw(&self, ids: &[JobId]) {
        let mut known = self.lock();
        for id in ids.iter().rev() {
            let id = id.to_string();
            known.seen.retain(|seen| *seen != id);
            known.seen.insert(0, id);
        }
        known.seen.truncate(MAX_SEEN);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tubes(&self) -> Vec<String> {
        let mut tubes = self.tubes.as_ref().map(LiveNames::get).unwrap_or_default();
        let known = self.lock();
        tubes.extend(known.used.iter().chain(&known.watched).map(ToString::to_string));
        tubes.sort();
        tubes.dedup();
        tubes
    }
}

impl Values for Names {
    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        let without_given = |names: Vec<String>| {
            names.into_iter().filter(|name| !wanted.before.contains(name)).collect()
        };
        match (wanted.value_name, wanted.verb) {
            ("TUBE", "ignore") => {
                let watched = self.lock().watched.iter().map(ToString::to_string).collect();
                without_given(watched)
            }
            ("TUBE" | "PATTERN" | "GLOB", _) => without_given(self.tubes()),
            ("ID", verb) => {
                let known = self.lock();
                let mut ids = known.held.clone();
                ids.extend(known.seen.iter().filter(|id| !known.held.contains(id)).cloned());
                if matches!(verb, "touch" | "hold" | "unhold") {
                    ids = known.held.clone();
                    ids.push("all".to_owned());
                }
                drop(known);
                without_given(ids)
            }
            _ => Vec::new(),
        }
    }
}
