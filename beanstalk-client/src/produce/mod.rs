//! Shared by the producers of both faces: options, events, reports.

pub(crate) mod events;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod shared;
