//! Shared by the workers of both faces: options, outcomes, reports.

pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod report;
pub(crate) mod view;
pub(crate) mod worker_status;
