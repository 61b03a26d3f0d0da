//! Jobs that leave the queue for the output: written first, and deleted when they have arrived there.

use std::fmt::Display;

use queue_core::Fate;

use crate::bulk::Bulk;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::{Handover, Shape};
use crate::text::units;

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

/// Runs `pop`: takes and deletes up to `count` jobs; none if there was none. The reader of the last one may be waiting
/// for the end of this process.
///
/// `own` is the connection for that. `next` brings at most so many jobs, and `hand_over` deletes them once they have
/// arrived; after the last ones it ends the list.
///
/// # Errors
/// Those of `next` and `hand_over`; write failures; a signal, if there was none.
pub fn pop<T: Tool, J, K>(
    tool: &mut Context<T>,
    (noun, count, shape): (&'static str, u64, &'static Shape),
    own: fn(&mut T::Link) -> &mut T::Link,
    next: impl Fn(&mut T::Link, usize) -> Result<Vec<J>, CliError>,
    hand_over: impl Fn(
        &mut T::Link,
        &mut Handover<'_, K>,
        Vec<J>,
        bool,
        &mut Bulk,
    ) -> Result<(), CliError>,
) -> Result<Option<Exit>, CliError> {
    let interrupts = tool.interrupts()?;
    let mut bulk = tool.bulk_of("took", noun, count)?;
    let list = tool.out.list(shape)?;
    bulk.beside(&list);
    let mut out = Handover::new(list, interrupts.clone(), &tool.messages)?;
    let (link, gate, mut taken) = (own(&mut tool.link), bulk.gate(), 0);
    while taken < count && gate.is_open() {
        let left = usize::try_from(count - taken).unwrap_or(usize::MAX);
        let jobs = next(link, out.window(left.min(WINDOW)))?;
        if jobs.is_empty() {
            break;
        }
        taken += jobs.len() as u64;
        let handed = hand_over(link, &mut out, jobs, taken == count, &mut bulk);
        bulk = bulk.after(handed)?;
    }
    if taken == 0 {
        return interrupts.check().map(|()| None);
    }
    if taken < count {
        bulk = bulk.after(out.finish(&mut |_| Ok(())))?;
    }
    bulk.finish_quietly().map(Some)
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
