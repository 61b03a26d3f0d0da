//! Names for completion in every session: settings with their values, and what can be explained.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use super::complete::{Values, Wanted};
use super::guest::{Guest, Interactive, lock};
use super::known::KnownNames;
use super::shell::Setting;
use super::{builtin, contexts};
use crate::rules::filter::Field;
use crate::rules::metrics::Measurable;

/// The settings that completion offers; clones share them.
pub(crate) type KnownSettings = Arc<Mutex<Vec<Setting>>>;

/// The names of a tool, and those of every session.
pub(crate) struct AllValues<T> {
    pub(crate) names: KnownNames,
    /// The fields that filters of a verb can name.
    pub(crate) filters: fn(&str) -> &'static [Field],
    /// `None` for a line of a shell.
    pub(crate) session: Option<OfSession>,
    pub(crate) kind: PhantomData<fn() -> T>,
}

/// The values that completion knows in a session only.
pub(crate) struct OfSession {
    pub(super) settings: KnownSettings,
    pub(super) verbs: Vec<String>,
    /// The groups of `help`, as it calls them.
    pub(super) groups: Vec<String>,
}

impl<T: Interactive> Values for AllValues<T> {
    fn filters(&self, verb: &str) -> &'static [Field] {
        (self.filters)(verb)
    }

    fn checks(&self) -> &'static [Measurable] {
        T::CHECKS
    }

    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        let names = || {
            let shared = contexts::candidates(&self.names, wanted);
            shared.unwrap_or_else(|| <T::Guest<'_> as Guest>::candidates(&self.names, wanted))
        };
        let Some(OfSession { settings, verbs, groups }) = &self.session else { return names() };
        match wanted.value_name {
            builtin::SETTING => {
                lock(settings).iter().map(|setting| setting.name.to_owned()).collect()
            }
            builtin::SETTING_VALUE if wanted.verb == ":set" => {
                let settings = lock(settings);
                let is_meant = |s: &&Setting| wanted.before.last().is_some_and(|n| s.name == n);
                let allowed = settings.iter().find(is_meant).map(|s| s.allowed);
                allowed.into_iter().flatten().map(|value| (*value).to_owned()).collect()
            }
            builtin::TOPIC => verbs.iter().chain(groups).cloned().collect(),
            _ => names().into_iter().filter(|name| !wanted.before.contains(name)).collect(),
        }
    }
}
