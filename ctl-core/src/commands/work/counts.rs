//! The finished jobs of a worker in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::CommandEnd;
use crate::error::{CliError, Exit};
use crate::text::units;

/// Numbers of finished jobs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By the words of their fates.
    pub(super) fates: BTreeMap<&'static str, u64>,
    /// Those whose command exited with 0.
    pub(super) succeeded: u64,
    /// Those whose command ended otherwise on its own, or for its time limit, or could not get its job.
    pub(super) failed: u64,
    /// How long commands ran.
    pub(super) time: Duration,
}

impl Counts {
    pub(super) fn add(&mut self, end: &CommandEnd, fate: &'static str) {
        *self.fates.entry(fate).or_default() += 1;
        match end.has_succeeded() {
            Some(true) => self.succeeded += 1,
            Some(false) => self.failed += 1,
            None => {}
        }
        self.time = self.time.saturating_add(end.time.unwrap_or_default());
    }

    /// The exit code: 0, unless jobs failed, and none succeeded.
    pub(super) fn check(&self, noun: &str) -> Result<Exit, CliError> {
        if self.failed == 0 || self.succeeded > 0 {
            return Ok(Exit::Done);
        }
        let failed = units::count(self.failed, noun);
        let why = format!("no {noun} succeeded: the commands of {failed} failed");
        Err(CliError::new(Exit::Negative, "JOBS_FAILED", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_fails_if_jobs_failed_and_none_succeeded() {
        let exit = |code| CommandEnd { exit: Some(code), ..CommandEnd::default() };
        let killed = CommandEnd { signal: Some(9), ..CommandEnd::default() };
        let otherwise = |how| CommandEnd { otherwise: Some(how), ..CommandEnd::default() };
        for (ends, code) in [
            (vec![], 0),
            // Not run, such as one that failed too often before.
            (vec![CommandEnd::default()], 0),
            (vec![otherwise("stopped")], 0),
            (vec![exit(0), exit(1)], 0),
            (vec![exit(3), killed], 1),
            (vec![otherwise("over --max-runtime"), otherwise("stopped")], 1),
        ] {
            let mut counts = Counts::default();
            ends.iter().for_each(|end| counts.add(end, "released"));
            let checked = counts.check("job").unwrap_or_else(|error| error.exit);
            assert_eq!(checked.code(), code, "{ends:?}");
        }
    }
}
