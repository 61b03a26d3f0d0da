//! The metrics that thresholds can name.

use super::filter::{Field, Kind};

/// The metrics of one kind of check.
#[derive(Debug, Clone, Copy)]
pub struct Measurable {
    /// The subcommand of `check`.
    pub what: &'static str,
    /// Its metrics, in groups that kinds of checks share.
    pub groups: &'static [Group],
}

/// Metrics of one unit: it, and their names.
pub type Group = (&'static str, &'static [&'static str]);

impl Measurable {
    /// The names and units of its metrics.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        self.groups.iter().flat_map(|(unit, names)| names.iter().map(|name| (*name, *unit)))
    }
}

/// The metrics as fields of a comparison, by name. Without the kind of check, those of all kinds.
pub(crate) fn fields(checks: &[Measurable], what: &str) -> Vec<Field> {
    let is_known = checks.iter().any(|check| check.what == what);
    let checks = checks.iter().filter(|check| check.what == what || !is_known);
    let mut names: Vec<&str> = checks.flat_map(Measurable::metrics).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| Field::new(name, Kind::Whole)).collect()
}
