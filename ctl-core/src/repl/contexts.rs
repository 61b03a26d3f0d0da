//! The names of contexts, settings and formats, for completion.

use super::complete::Wanted;
use super::known::KnownNames;
use crate::args::DECODE;
use crate::config::{CONTEXT, Settings, keys};
use crate::program::Program;

/// The value name of an argument for a key of the file.
pub const KEY: &str = "KEY";

/// Caches these names for completion.
pub(crate) fn keep_names(settings: &Settings, program: &Program, names: &KnownNames) {
    names.keep(CONTEXT, settings.config().contexts.keys().cloned().collect());
    names.keep(KEY, keys::all(program).map(|key| key.shown(program).to_owned()).collect());
    names.keep(DECODE, settings.config().envelopes.names().map(str::to_owned).collect());
}

/// The completions for such an argument.
pub(crate) fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Option<Vec<String>> {
    let ours = [CONTEXT, KEY, DECODE].into_iter().find(|name| *name == wanted.value_name);
    ours.map(|name| names.kept(name))
}
