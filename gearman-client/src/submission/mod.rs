//! A job as its client sees it: how it is submitted, where it is, what it reports.

pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod submit;
