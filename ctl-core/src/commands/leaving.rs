//! Jobs that leave the queue for the output: written first, and deleted when they have arrived there.

use std::fmt::Display;

use queue_core::Fate;

use crate::bulk::Bulk;
use crate::error::{CliError, Exit};
use crate::output::Handover;
use crate::system::signals::Interrupts;
use crate::text::units;

/// A queue from which jobs are taken in batches.
pub trait Source {
    /// A taken job.
    type Job;
    /// Identifies the job until it has arrived.
    type Key;

    /// The next jobs, at most `most`; empty if none arrive in time, or after a signal.
    ///
    /// # Errors
    /// The failure of the connection.
    fn next(&mut self, most: usize) -> Result<Vec<Self::Job>, CliError>;

    /// Hands jobs over and deletes them; after the last ones the list ends.
    ///
    /// # Errors
    /// Write failures or of the connection; a signal. Jobs that have not arrived are back in the queue, or will be
    /// when the connection ends.
    fn hand_over(
        &mut self,
        out: &mut Handover<'_, Self::Key>,
        jobs: Vec<Self::Job>,
        are_last: bool,
        bulk: &mut Bulk,
    ) -> Result<(), CliError>;

    /// The error for an empty queue.
    fn nothing(&mut self) -> CliError;
}

/// Maximum number of names in an error.
const NAMED: usize = 20;

/// Adds to an error which items (each a `noun`) may now be both in the source and in `target`: then their fate is unknown.
#[must_use]
pub fn doubting(error: CliError, noun: &str, names: &[impl Display], target: &str) -> CliError {
    if names.is_empty() {
        return error;
    }
    let all = units::first_of(names, NAMED);
    let (s, they) = if names.len() == 1 { ("", "it was") } else { ("s", "they were") };
    let error = CliError { exit: Exit::Unknown, fate: Some(Fate::Unknown), ..error };
    error.remark(format!("({noun}{s} {all} may now exist both where {they} and in {target})"))
}

/// Maximum number of jobs held at once.
const WINDOW: usize = 100;

/// Runs `pop`: takes and deletes up to `count` jobs. The reader of the last one may be waiting for the end of this
/// process.
///
/// # Errors
/// Nothing arrived, or a signal came first; errors of [`Source`]; write failures.
pub fn pop<S: Source>(
    source: &mut S,
    mut out: Handover<'_, S::Key>,
    count: u64,
    mut bulk: Bulk,
    interrupts: &Interrupts,
) -> Result<Exit, CliError> {
    let (gate, mut taken) = (bulk.gate(), 0);
    while taken < count && gate.is_open() {
        let left = usize::try_from(count - taken).unwrap_or(usize::MAX);
        let jobs = source.next(out.window(left.min(WINDOW)))?;
        if jobs.is_empty() {
            break;
        }
        taken += jobs.len() as u64;
        let handed = source.hand_over(&mut out, jobs, taken == count, &mut bulk);
        bulk = bulk.after(handed)?;
    }
    if taken == 0 {
        interrupts.check()?;
        return Err(source.nothing());
    }
    if taken < count {
        bulk = bulk.after(out.finish(&mut |_| Ok(())))?;
    }
    bulk.finish_quietly()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_possible_duplicates_up_to_a_limit() {
        let said = |names: Vec<u64>| {
            let lost = CliError::unavailable("lost");
            let error = doubting(lost, "job", &names, "tube b");
            assert_eq!(error.is_unknown(), !names.is_empty());
            error.message
        };
        assert_eq!(said(vec![]), "lost");
        assert_eq!(said(vec![7]), "lost (job 7 may now exist both where it was and in tube b)");
        let many = said((1..=25).collect());
        assert!(
            many.contains("jobs 1, 2,") && many.contains("20 and 5 more may now exist"),
            "{many}"
        );
    }
}
