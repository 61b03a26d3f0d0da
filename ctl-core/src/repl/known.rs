//! The names for completion: those of the server, and those that the session has seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use queue_core::lock;

pub use super::names::Fetch;
use super::names::LiveNames;

/// Maximum number of shown names that are remembered.
const MAX_SEEN: usize = 1000;

/// The names; clones share them.
#[derive(Clone, Default)]
pub struct KnownNames {
    lists: Arc<Mutex<Lists>>,
    live: Option<LiveNames>,
}

#[derive(Default)]
struct Lists {
    kept: BTreeMap<&'static str, Vec<String>>,
    /// The newest first.
    seen: Vec<String>,
}

impl KnownNames {
    /// Names that the server also has.
    #[must_use]
    pub fn live(fetch: Fetch) -> Self {
        Self { live: Some(LiveNames::new(fetch)), ..Self::default() }
    }

    /// Switches to another server: names shown from the previous one are forgotten.
    pub(crate) fn go_to(&self, fetch: Fetch) {
        lock(&self.lists).seen.clear();
        if let Some(live) = &self.live {
            live.go_to(fetch);
        }
    }

    /// The server's names may have changed.
    pub(crate) fn refresh(&self) {
        if let Some(live) = &self.live {
            live.refresh();
        }
    }

    /// The names that the server has, as far as is known.
    pub fn of_server(&self) -> Vec<String> {
        self.live.as_ref().map(LiveNames::get).unwrap_or_default()
    }

    /// Replaces the list of this kind.
    pub fn keep(&self, kind: &'static str, names: Vec<String>) {
        lock(&self.lists).kept.insert(kind, names);
    }

    /// The list of this kind.
    pub fn kept(&self, kind: &'static str) -> Vec<String> {
        lock(&self.lists).kept.get(kind).cloned().unwrap_or_default()
    }

    /// Adds names that a command showed, in this order.
    pub fn saw(&self, names: &[String]) {
        let mut lists = lock(&self.lists);
        for name in names.iter().rev() {
            lists.seen.retain(|seen| seen != name);
            lists.seen.insert(0, name.clone());
        }
        lists.seen.truncate(MAX_SEEN);
    }

    /// The list of this kind, followed by other shown names, newest first.
    pub fn kept_and_seen(&self, kind: &'static str) -> Vec<String> {
        let lists = lock(&self.lists);
        let mut names = lists.kept.get(kind).cloned().unwrap_or_default();
        let seen: Vec<String> =
            lists.seen.iter().filter(|seen| !names.contains(seen)).cloned().collect();
        names.extend(seen);
        names
    }
}
