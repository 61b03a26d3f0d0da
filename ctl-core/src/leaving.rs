//! Jobs that leave the queue for the output: written first, and deleted when they have arrived there.

use crate::bulk::Bulk;
use crate::error::{CliError, Exit};
use crate::output::Handover;
use crate::signals::Interrupts;

/// A queue that jobs leave, one batch after the other.
pub trait Source {
    /// A job that was taken.
    type Job;
    /// What stands for it until it has arrived.
    type Key;

    /// The next jobs, at most `most`; none when there are none in time, or a signal came.
    ///
    /// # Errors
    /// The failure of the connection.
    fn next(&mut self, most: usize) -> Result<Vec<Self::Job>, CliError>;

    /// Hands jobs over and deletes them; after the last ones the list ends.
    ///
    /// # Errors
    /// Failures of writing or of the connection; a signal. What has not arrived is back in the queue, or will be when the
    /// connection ends.
    fn hand_over(
        &mut self,
        out: &mut Handover<'_, Self::Key>,
        jobs: Vec<Self::Job>,
        are_last: bool,
        bulk: &mut Bulk,
    ) -> Result<(), CliError>;

    /// What it means that nothing came.
    fn nothing(&self) -> CliError;
}

/// Jobs that are held at once.
const WINDOW: usize = 100;

/// Runs `pop`: takes up to `count` jobs for good. The reader of the last one of them may wait for the end of this process.
///
/// # Errors
/// Nothing came, or a signal before anything did; what [`Source`] gives; failures of writing.
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
