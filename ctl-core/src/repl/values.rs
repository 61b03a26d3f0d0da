//! Names for completion in every session: settings with their values, and what can be explained.

use std::sync::{Arc, Mutex};

use queue_core::lock;

use super::complete::{Values, Wanted};
use super::known::KnownNames;
use super::shell::Setting;
use super::{builtin, contexts};
use crate::rules::filter::Field;
use crate::rules::metrics::Measurable;

/// The settings that completion offers; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownSettings(Arc<Mutex<Vec<Setting>>>);

impl KnownSettings {
    /// These are the settings now.
    pub(super) fn are(&self, settings: Vec<Setting>) {
        *lock(&self.0) = settings;
    }

    fn get(&self) -> Vec<Setting> {
        lock(&self.0).clone()
    }
}

/// The names of the tool, and those of every session.
pub(super) struct AllValues {
    pub(super) names: KnownNames,
    /// Which of them fit.
    pub(super) of_tool: fn(&KnownNames, &Wanted<'_>) -> Vec<String>,
    pub(super) settings: KnownSettings,
    pub(super) verbs: Vec<String>,
    /// The groups of `help`, as it calls them.
    pub(super) groups: Vec<String>,
    pub(super) filters: &'static [Field],
    pub(super) checks: &'static [Measurable],
}

impl Values for AllValues {
    fn filters(&self, _verb: &str) -> &'static [Field] {
        self.filters
    }

    fn checks(&self) -> &'static [Measurable] {
        self.checks
    }

    fn values(&self, wanted: &Wanted<'_>) -> Vec<String> {
        match wanted.value_name {
            builtin::SETTING => {
                self.settings.get().iter().map(|setting| setting.name.to_owned()).collect()
            }
            builtin::SETTING_VALUE if wanted.verb == ":set" => {
                let settings = self.settings.get();
                let is_meant = |s: &&Setting| wanted.before.last().is_some_and(|n| s.name == n);
                let allowed = settings.iter().find(is_meant).map(|s| s.allowed);
                allowed.into_iter().flatten().map(|value| (*value).to_owned()).collect()
            }
            builtin::TOPIC => self.verbs.iter().chain(&self.groups).cloned().collect(),
            _ => {
                let settings = contexts::candidates(&self.names, wanted);
                let names = settings.unwrap_or_else(|| (self.of_tool)(&self.names, wanted));
                names.into_iter().filter(|name| !wanted.before.contains(name)).collect()
            }
        }
    }
}
