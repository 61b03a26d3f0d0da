//! Deadlines with names, so that an error can say which one passed.

use crate::{Deadline, Error};

/// A point in time by which one step has to be done.
pub(crate) type Limit = queue_core::Limit<Error>;

/// The error of a deadline that passed.
pub(crate) fn timed_out(which: impl Into<Deadline>) -> Error {
    queue_core::Error::timed_out(which.into()).into()
}
