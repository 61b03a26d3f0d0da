//! One client at work: when its operations start, and how long they take.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;

use super::{Bodies, Client, SLICE, Shared};
use crate::error::CliError;
use crate::output::times;

/// Number of consecutive failures after which a client gives up.
const MOST_FAILURES: u32 = 100;

/// The measurements of a client.
pub(super) struct Tally {
    /// Nanoseconds.
    pub(super) times: Histogram<u64>,
    pub(super) bytes: u64,
    pub(super) errors: BTreeMap<&'static str, u64>,
    pub(super) last_error: Option<CliError>,
    /// When the last operation ended.
    pub(super) end: Option<Instant>,
}

impl Tally {
    /// No measurements, with this empty histogram.
    pub(super) fn new(times: Histogram<u64>) -> Self {
        Self { times, bytes: 0, errors: BTreeMap::new(), last_error: None, end: None }
    }

    /// The tally of a client that has measured nothing.
    pub(super) fn broken(times: Histogram<u64>) -> Self {
        let mut tally = Self::new(times);
        tally.fail(CliError::internal("a client of the benchmark panicked"));
        tally
    }

    fn fail(&mut self, error: CliError) {
        *self.errors.entry(error.code).or_default() += 1;
        self.last_error = Some(error);
    }

    /// Adds the measurements of another client.
    pub(super) fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.times.add(&other.times);
        self.bytes += other.bytes;
        for (code, count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.end = self.end.max(other.end);
    }
}

pub(super) struct Lane<'a, C> {
    client: C,
    shared: &'a Shared<'a>,
    bodies: Bodies,
    tally: Tally,
    failures: u32,
    /// Its next position in the schedule of an open loop.
    next: u64,
}

impl<'a, C: Client> Lane<'a, C> {
    pub(super) fn new(client: C, number: u64, shared: &'a Shared<'a>, tally: Tally) -> Self {
        let bodies = Bodies::new(shared.plan.flags.size, number);
        Self { client, shared, bodies, tally, failures: 0, next: number }
    }

    pub(super) fn run(mut self) -> Tally {
        while self.failures < MOST_FAILURES {
            let due = match self.shared.plan.flags.rate {
                Some(rate) => self.wait_for_due(rate),
                None => {
                    let now = Instant::now();
                    let over = self.shared.is_over(now);
                    (0..if over { 0 } else { self.shared.plan.flags.pipeline })
                        .map(|_| now)
                        .collect()
                }
            };
            if due.is_empty() || !self.perform(due) {
                break;
            }
        }
        self.tally
    }

    /// The operations that are due, as many as go together; waits for the first one. Empty when the run is over.
    fn wait_for_due(&mut self, rate: f64) -> Vec<Instant> {
        let Shared { plan, start, .. } = self.shared;
        let mut due = Vec::new();
        while due.len() < plan.flags.pipeline.into() {
            let at = Duration::try_from_secs_f64(self.next as f64 / rate).unwrap_or(Duration::MAX);
            let Some(at) = start.checked_add(at) else { break };
            let now = Instant::now();
            if self.shared.is_over(now) {
                due.clear();
                break;
            }
            if at <= now {
                due.push(at);
                self.next += u64::from(plan.flags.jobs);
            } else if due.is_empty() {
                thread::sleep((at - now).min(SLICE));
            } else {
                break;
            }
        }
        due
    }

    /// False when there is nothing left to do.
    fn perform(&mut self, mut due: Vec<Instant>) -> bool {
        let warm = due.first().is_some_and(|first| self.shared.is_warm(*first));
        if warm {
            let allowed = self.shared.take(due.len() as u64);
            due.truncate(usize::try_from(allowed).unwrap_or(usize::MAX));
        }
        if due.is_empty() {
            return false;
        }
        let bodies: Vec<Bytes> = due.iter().map(|_| self.bodies.next()).collect();
        let mut asked = due.iter().zip(&bodies);
        let (tally, failures, shared) = (&mut self.tally, &mut self.failures, self.shared);
        let mut told = 0;
        let mut done = |outcome: Result<(), CliError>| {
            let Some((due, body)) = asked.next() else { return };
            told += 1;
            match outcome {
                Ok(()) => *failures = 0,
                Err(_) => *failures += 1,
            }
            if !warm {
                return;
            }
            let now = Instant::now();
            tally.end = Some(now);
            match outcome {
                Ok(()) => {
                    tally.times.saturating_record(times::nanoseconds(now - *due));
                    tally.bytes += body.len() as u64;
                }
                Err(error) => tally.fail(error),
            }
            shared.ended.fetch_add(1, Ordering::Relaxed);
        };
        let performed = self.client.perform(&bodies, &mut done);
        let all = told == bodies.len();
        match performed {
            Ok(()) => all,
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let lost = bodies.len().saturating_sub(told) as u64;
                if warm && lost > 0 {
                    *self.tally.errors.entry(error.code).or_default() += lost;
                    self.tally.end = Some(Instant::now());
                }
                self.tally.last_error = Some(error);
                true
            }
        }
    }
}
