//! The work of a worker, past and present, in numbers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use queue_core::lock;

use super::CommandEnd;
use crate::commands::exporter::{Kind, Metrics};
use crate::error::{CliError, Exit};
use crate::text::units;

/// How long a job may be held whose command does not run: until the server has its end, or is given up.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// The work of a worker, past and present, for its end and for those who watch it.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) finished: Mutex<Counts>,
    /// Number of running commands.
    pub(super) running: AtomicUsize,
    /// The servers that it has lost.
    pub(super) lost: Mutex<HashSet<String>>,
    /// When it last made progress, once it has started.
    seen: Mutex<Option<Instant>>,
}

impl Account {
    /// Checks the worker, which holds a job if it is busy: it makes progress if it needs none, or its command runs.
    pub(super) fn look(&self, is_busy: bool, now: Instant) {
        if !is_busy || self.running.load(Ordering::SeqCst) > 0 {
            *lock(&self.seen) = Some(now);
        }
    }

    /// Whether it made progress lately, or has not started: it may wait for a server.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        let is_long_ago = |seen| now.saturating_duration_since(seen) >= LONGEST_STEP;
        !lock(&self.seen).is_some_and(is_long_ago)
    }

    /// The metrics of this tool's worker.
    pub(super) fn metrics(&self, tool: &str) -> Metrics {
        let mut metrics = Metrics::default();
        let mut add = |kind, name: &str, help, label: Option<(&str, &str)>, value: f64| {
            metrics.add(kind, &format!("{tool}_work_{name}"), help, label, value);
        };
        let finished = lock(&self.finished);
        for (fate, count) in &finished.fates {
            let label = Some(("fate", *fate));
            add(Kind::Counter, "jobs", "Finished jobs by outcome.", label, *count as f64);
        }
        for (end, count) in [("succeeded", finished.succeeded), ("failed", finished.failed)] {
            let label = Some(("end", end));
            add(Kind::Counter, "commands", "Finished commands.", label, count as f64);
        }
        let time = finished.time.as_secs_f64();
        drop(finished);
        add(Kind::Counter, "command_seconds", "Time that finished commands took.", None, time);
        let running = self.running.load(Ordering::SeqCst);
        add(Kind::Gauge, "running", "Commands that run now.", None, running as f64);
        let lost = lock(&self.lost).len();
        add(Kind::Gauge, "servers_lost", "Servers that are tried again.", None, lost as f64);
        metrics
    }
}

/// Numbers of finished jobs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// By the words of their fates.
    fates: BTreeMap<&'static str, u64>,
    /// Those whose command exited with 0.
    succeeded: u64,
    /// Those whose command ended otherwise on its own, or for its time limit, or could not get its job.
    failed: u64,
    /// How long commands ran.
    time: Duration,
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

    /// The number of jobs with this fate.
    pub(super) fn of(&self, fate: &str) -> u64 {
        self.fates.get(fate).copied().unwrap_or(0)
    }

    /// The exit code: 0, unless jobs failed, and none succeeded.
    pub(super) fn check(&self, noun: &str) -> Result<Exit, CliError> {
        if self.failed == 0 || self.succeeded > 0 {
            return Ok(Exit::Done);
        }
        let failed = units::count(self.failed, "command");
        let why = format!("no {noun} succeeded: {failed} failed");
        Err(CliError::new(Exit::Negative, "JOBS_FAILED", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_when_a_job_outlives_its_command() {
        let (account, start) = (Account::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, is_busy, running, goes_on) in [
            (100, false, 0, true),
            (1000, true, 1, true),
            (1001, true, 0, true),
            (1059, true, 0, true),
            (1061, true, 0, false),
            (1062, true, 1, true),
            (1063, true, 0, true),
            (1200, true, 0, false),
            (1201, false, 0, true),
        ] {
            account.running.store(running, Ordering::SeqCst);
            account.look(is_busy, at(second));
            assert_eq!(account.goes_on(at(second)), goes_on, "at {second}");
        }
    }

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
