//! Shared by the workers of both faces: options, failures, outcomes, events, reports.

pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod handle;
pub(crate) mod ledger;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod report;
pub(crate) mod script;
