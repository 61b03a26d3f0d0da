//! Outcomes of jobs, decided by their handlers or their counters.

use std::{fmt, str::FromStr, time::Duration};

use queue_core::Span;
use queue_core::{DurationText, decimal, excerpt, read_duration, unknown_word};

use crate::{Error, JobStats, Priority};

/// The outcome that a handler chooses for its job.
///
/// A handler returns an outcome, or `()` for [`Delete`](Outcome::Delete), or a `Result` of either: an error is a
/// [`Retry`](Outcome::Retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Delete,
    /// Released: ready again after the delay, however often that happened before. For a job that has not failed, but
    /// cannot be done now: a deferral, which does not count towards [`Retries::releases`], as far as this worker
    /// remembers. The server counts every release, so a worker keeps the deferrals of up to 10,000 jobs of a server,
    /// and forgets the oldest.
    Release {
        /// In whole seconds (rounded up), at most `u32::MAX`.
        #[cfg_attr(feature = "serde", serde(default, with = "queue_core::seconds"))]
        delay: Duration,
        /// `None` keeps the job's priority.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        priority: Option<Priority>,
    },
    /// Set aside until it is kicked; or put into the [dead-letter tube](crate::WorkerOptions::dead_letter), if there is
    /// one.
    Bury {
        /// `None` keeps the job's priority.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        priority: Option<Priority>,
    },
    /// The job failed: it is released with a growing delay, and buried after too many releases; see [`Retries`].
    Retry,
    /// The same, with its own delay.
    RetryAfter(
        /// In whole seconds (rounded up), at most `u32::MAX`.
        #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
        Duration,
    ),
}

impl Outcome {
    /// Releases the job at once, with its priority unchanged: a deferral. The server hands it out again before all younger
    /// jobs of its priority, so with a delay, [`defer`](Self::defer) lets them pass.
    #[must_use]
    pub const fn release() -> Self {
        Self::defer(Duration::ZERO)
    }

    /// Releases the job with a delay and its priority unchanged: a deferral, which never buries it. For a failure with
    /// its own delay, use [`retry_after`](Self::retry_after).
    #[doc(alias = "release_after")]
    #[must_use]
    pub const fn defer(delay: Duration) -> Self {
        Outcome::Release { delay, priority: None }
    }

    /// The job failed and is released with this delay, or buried after too many releases.
    #[must_use]
    pub const fn retry_after(delay: Duration) -> Self {
        Outcome::RetryAfter(delay)
    }

    /// Whether the job has failed, and its counters decide what becomes of it.
    #[must_use]
    pub const fn is_retry(&self) -> bool {
        matches!(self, Outcome::Retry | Outcome::RetryAfter(_))
    }

    /// Buries the job with its priority unchanged.
    #[must_use]
    pub const fn bury() -> Self {
        Outcome::Bury { priority: None }
    }
}

impl fmt::Display for Outcome {
    /// Formats as `delete`, `retry after 5s`, or `release after 5s with priority 7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, priority) = match self {
            Outcome::Delete => ("delete", None),
            Outcome::Release { priority, .. } => ("release", *priority),
            Outcome::Bury { priority } => ("bury", *priority),
            Outcome::Retry | Outcome::RetryAfter(_) => ("retry", None),
        };
        f.write_str(word)?;
        let (Outcome::Release { delay, .. } | Outcome::RetryAfter(delay)) = self else {
            return priority.map_or(Ok(()), |priority| write!(f, " with priority {priority}"));
        };
        if !delay.is_zero() {
            write!(f, " after {}", DurationText(*delay))?;
        }
        priority.map_or(Ok(()), |priority| write!(f, " with priority {priority}"))
    }
}

queue_core::decisions! {
    /// An outcome and its reason.
    ///
    /// ```
    /// use beanstalk_client::{Decision, Outcome};
    ///
    /// enum Refused { Malformed, Busy }
    /// # impl std::fmt::Display for Refused {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("refused") }
    /// # }
    /// # fn send(_: &[u8]) -> Result<(), Refused> { Err(Refused::Malformed) }
    /// // What a handler may return:
    /// # fn handler(body: &[u8]) -> Decision {
    /// Decision::classify(send(body), |refused| match refused {
    ///     Refused::Malformed => Outcome::bury(),
    ///     Refused::Busy => Outcome::Retry,
    /// })
    /// # }
    /// # assert_eq!(handler(b"x").outcome, Outcome::bury());
    /// # let _ = Refused::Busy;
    /// ```
    Delete
}

/// The result of a handler.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The message of a failure.
    pub(crate) reason: Option<String>,
    /// The class of the failure: `error.type`.
    pub(crate) error: Option<&'static str>,
    /// The span of the job, within which it is settled.
    pub(crate) span: Span,
}

impl Ended {
    pub(crate) fn with(made: impl IntoOutcome) -> Self {
        let (outcome, reason) = made.into_outcome();
        let has_failed = reason.is_some() || outcome.is_retry();
        Ended { outcome, reason, error: has_failed.then_some("error"), span: Span::none() }
    }

    /// A panic is a failure of its job only.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let reason = format!("the handler panicked: {}", queue_core::panic_text(panic));
        Ended {
            outcome: Outcome::Retry,
            reason: Some(reason),
            error: Some("panic"),
            span: Span::none(),
        }
    }

    /// Not run, or aborted, because its job was lost.
    pub(crate) fn lost() -> Self {
        Ended { outcome: Outcome::Retry, reason: None, error: None, span: Span::none() }
    }
}

/// What to do with a failed job, based on the job's own counters, so that it works across workers and restarts.
///
/// A failed job is released with a delay of `base × factor` to the power of its `releases`, at most `cap`. It is buried
/// instead after enough releases, or reserves without a release. It is buried without being run if it exceeds those
/// reserves or its time to run expired too often: such a job kills its process, or hangs. `buries` does not count,
/// because it grows when a server restarts with a write-ahead log.
///
/// Each kick grants all of these again: a job that was kicked twice has three times the allowance. (The server also
/// counts the kick of a delayed job.) A job that was buried without being run always runs again after one kick, even if
/// others have reserved it, or it has expired, many times before a worker with these limits saw it. The counters do not
/// say what happened since a kick, so beyond what was granted, allowances alternate: a job is buried unrun if it has
/// used up one, three or five too many, and otherwise runs until the next one is used up. A new job meets only the
/// first: it is caught when its allowance ends, and again one allowance after each kick. But a job that had used up two
/// too many when it was first seen runs for one more, and if it is buried meanwhile, for another reason, it may take
/// two kicks to run again.
///
/// Deferrals ([`Outcome::defer`]) are no failures. They never bury a job, and a job that was reserved 1000 times and
/// released 1000 times is no suspect. But the server counts them among the `releases`, as it has no other counter: only
/// the worker that deferred a job knows that these releases were no failures. If several workers defer and fail the
/// same jobs, allow more [`releases`](Self::releases).
///
/// As text, comma-separated settings; omitted ones have their defaults:
///
/// ```
/// use beanstalk_client::Retries;
///
/// let retries: Retries = "base=5s,releases=3".parse()?;
/// assert_eq!(retries.to_string(), "base=5s,factor=2,cap=3600s,releases=3,reserves=25");
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Retries {
    #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
    base: Duration,
    factor: u32,
    #[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))]
    cap: Duration,
    releases: u64,
    pub(crate) reserves: u64,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) timeouts: Option<u64>,
}

impl Default for Retries {
    /// 1 s doubling up to 1 h, buried after 10 releases or 25 reserves; no limit of timeouts.
    fn default() -> Self {
        Retries {
            base: Duration::from_secs(1),
            factor: 2,
            cap: Duration::from_secs(3600),
            releases: 10,
            reserves: 25,
            timeouts: None,
        }
    }
}

impl Retries {
    /// The delays: `base`, times `factor` for each release, at most `cap`.
    #[must_use]
    pub const fn backoff(mut self, base: Duration, factor: u32, cap: Duration) -> Self {
        self.base = base;
        self.factor = factor;
        self.cap = cap;
        self
    }

    /// Number of releases after which a failing job is buried; 0 buries at the first failure.
    #[must_use]
    pub const fn releases(mut self, releases: u64) -> Self {
        self.releases = releases;
        self
    }

    /// Maximum number of times a job is run without being released: by workers that died, lost their connections or
    /// were stopped; a few more if not every job is [inspected](crate::Inspect::Suspects).
    #[must_use]
    pub const fn reserves(mut self, reserves: u64) -> Self {
        self.reserves = reserves;
        self
    }

    /// Number of expired reservations after which a job is buried instead of run again.
    #[must_use]
    pub const fn timeouts(mut self, timeouts: u64) -> Self {
        self.timeouts = Some(timeouts);
        self
    }

    /// The delay after this many releases.
    #[must_use]
    pub fn delay(&self, releases: u64) -> Duration {
        let mut delay = self.base.min(self.cap);
        for _ in 0..releases {
            let next = delay.saturating_mul(self.factor).min(self.cap);
            if next == delay {
                break;
            }
            delay = next;
        }
        delay
    }

    /// Why a just-reserved job must not be run.
    #[must_use]
    pub fn poison(&self, stats: &JobStats) -> Option<Poison> {
        self.after(unfinished(stats).saturating_sub(1), stats)
    }

    /// What to do with a failed job, of which every release counts as a failure.
    #[must_use]
    pub fn failed(&self, stats: &JobStats) -> Outcome {
        self.failed_after(stats.releases, stats)
    }

    /// The same after this number of releases that count as failures: without the `deferrals` of the job's context,
    /// which the server does not tell from failures.
    #[must_use]
    pub fn failed_after(&self, failures: u64, stats: &JobStats) -> Outcome {
        let most = self.releases.saturating_mul(stats.kicks.saturating_add(1));
        // A release does not take back earlier reservations: the next one may be one too many.
        let is_last = matches!(self.after(unfinished(stats), stats), Some(Poison::Reserves(_)));
        if failures >= most || is_last {
            Outcome::bury()
        } else {
            Outcome::defer(self.delay(failures))
        }
    }

    /// Why a job must not be run after this many runs that have come to nothing.
    ///
    /// It is granted one allowance, and one more for each kick. A burial and a kick leave the allowances that it has
    /// used up alone, so it must run with one kick more wherever it must not with one less: those beyond alternate.
    fn after(&self, runs: u64, stats: &JobStats) -> Option<Poison> {
        // A limit of 0 allows nothing ever.
        let used_up = |used: u64, limit| used.checked_div(limit).unwrap_or(u64::MAX);
        let by_reserves = used_up(runs, self.reserves);
        let by_timeouts = self.timeouts.map_or(0, |most| used_up(stats.timeouts, most));
        let most = by_reserves.max(by_timeouts);
        let must_run = most < u64::MAX && most.saturating_sub(stats.kicks).is_multiple_of(2);
        let why = match by_reserves >= by_timeouts {
            true => Poison::Reserves(unreleased(stats)),
            false => Poison::Timeouts(stats.timeouts),
        };
        (!must_run).then_some(why)
    }
}

/// How often a job was reserved without being released, including this time.
fn unreleased(stats: &JobStats) -> u64 {
    stats.reserves.saturating_sub(stats.releases)
}

/// The same, without the reservations that ended in a burial and were followed by a kick. So it is the same before such
/// a burial and after the kick. `buries` cannot say it, because a server that restarts counts some twice.
fn unfinished(stats: &JobStats) -> u64 {
    unreleased(stats).saturating_sub(stats.kicks)
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retries { base, factor, cap, releases, reserves, timeouts } = self;
        write!(f, "base={},factor={factor},cap={}", DurationText(*base), DurationText(*cap))?;
        write!(f, ",releases={releases},reserves={reserves}")?;
        timeouts.map_or(Ok(()), |timeouts| write!(f, ",timeouts={timeouts}"))
    }
}

impl FromStr for Retries {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut retries = Retries::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let number = || {
                decimal(value.as_bytes()).ok_or_else(|| {
                    let shown = excerpt(setting.as_bytes());
                    Error::invalid(format!(
                        "setting {shown} of retries is not valid: it needs a whole number"
                    ))
                })
            };
            match name {
                "base" => retries.base = read_duration(name, value)?,
                "factor" => retries.factor = u32::try_from(number()?).unwrap_or(u32::MAX),
                "cap" => retries.cap = read_duration(name, value)?,
                "releases" => retries.releases = number()?,
                "reserves" => retries.reserves = number()?,
                "timeouts" => retries.timeouts = Some(number()?),
                other => return Err(unknown_word("setting of retries", other, &SETTINGS).into()),
            }
        }
        Ok(retries)
    }
}

/// The settings of [`Retries`] as text.
const SETTINGS: [&str; 6] = ["base", "factor", "cap", "releases", "reserves", "timeouts"];

/// Why a job is buried without being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Poison {
    /// It was reserved this often without being released: probably it kills the process that runs it.
    Reserves(u64),
    /// Its time to run expired this often.
    Timeouts(u64),
    /// The size of its body in bytes, which exceeds the client's limit.
    Size(u64),
    /// The server lost the end of its body in a crash: [`ErrorKind::BodyDamaged`](crate::ErrorKind::BodyDamaged).
    Damaged,
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Poison::Reserves(times) => write!(f, "it was reserved {times} times without a release"),
            Poison::Timeouts(times) => write!(f, "its time to run expired {times} times"),
            Poison::Size(bytes) => write!(f, "its body has {bytes} bytes"),
            Poison::Damaged => f.write_str("the server lost the end of its body in a crash"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Command, Response, StatsJob};

    /// The counters of a job; those that are not given are 0.
    fn counters(counters: &[(&str, u64)]) -> JobStats {
        let mut text = "---\nid: 1\ntube: t\nstate: reserved\nttr: 60\n".to_owned();
        for (key, value) in counters {
            text.push_str(&format!("{key}: {value}\n"));
        }
        StatsJob(1.into()).decode(Response::Ok(text.into_bytes().into())).unwrap().unwrap()
    }

    /// The counters of a job that was just reserved.
    #[derive(Clone, Copy, Debug)]
    struct Life {
        reserves: u64,
        timeouts: u64,
        kicks: u64,
    }

    impl Life {
        fn stats(self) -> JobStats {
            counters(&[
                ("reserves", self.reserves),
                ("timeouts", self.timeouts),
                ("buries", self.kicks),
                ("kicks", self.kicks),
            ])
        }

        /// Its process was killed, or it hung, and another worker has it.
        fn again(&mut self, hangs: bool) {
            self.reserves += 1;
            self.timeouts += u64::from(hangs);
        }

        /// It was buried and kicked, and a worker has it.
        fn kicked(&mut self) {
            self.reserves += 1;
            self.kicks += 1;
        }

        /// How often it is run until it is buried.
        fn runs(&mut self, retries: Retries, hangs: bool) -> u64 {
            let mut runs = 0;
            while retries.poison(&self.stats()).is_none() {
                self.again(hangs);
                runs += 1;
                assert!(runs < 1000, "{self:?} is never buried");
            }
            runs
        }
    }

    #[test]
    fn each_kick_grants_the_allowance_again() {
        let retries = Retries::default().releases(2).reserves(3).timeouts(2);
        for (hangs, allowed) in [(false, 3), (true, 2)] {
            let mut job = Life { reserves: 1, timeouts: 0, kicks: 0 };
            for _ in 0..10 {
                assert_eq!(job.runs(retries, hangs), allowed, "{job:?}");
                let why = match hangs {
                    false => Poison::Reserves(job.reserves),
                    true => Poison::Timeouts(job.timeouts),
                };
                assert_eq!(retries.poison(&job.stats()), Some(why));
                job.kicked();
            }
        }
        for kicks in 0..3 {
            let failed = |of, times| {
                let job = counters(&[(of, times), ("kicks", kicks)]);
                retries.failed(&job) == Outcome::bury()
            };
            let (releases, reserves) = (2 * (kicks + 1), 3 * (kicks + 1) + kicks);
            assert!(!failed("releases", releases - 1) && failed("releases", releases));
            assert!(!failed("reserves", reserves - 1) && failed("reserves", reserves));
        }
    }

    /// Others may have had it many times before it was seen by a worker that counts.
    #[test]
    fn a_job_buried_unrun_runs_after_one_kick() {
        let limits = Retries::default();
        let both =
            (1..5).flat_map(|some| [1, 3, 7].map(|more| limits.reserves(more).timeouts(some)));
        for retries in (1..5).map(|some| limits.reserves(some)).chain(both) {
            for (timeouts, more, kicks) in (0..20_u64)
                .step_by(3)
                .flat_map(|timeouts| (1..30).step_by(2).map(move |more| (timeouts, more)))
                .flat_map(|(timeouts, more)| (0..4).map(move |kicks| (timeouts, more, kicks)))
            {
                let mut job = Life { reserves: timeouts + more, timeouts, kicks };
                // It kills its processes until it is caught.
                job.runs(retries, false);
                job.kicked();
                assert_eq!(retries.poison(&job.stats()), None, "{retries}: {job:?}");
            }
        }
    }

    #[test]
    fn a_limit_of_zero_never_runs_a_job() {
        let none = Retries::default().reserves(0);
        for kicks in 0..4 {
            let job = counters(&[("reserves", 9), ("kicks", kicks)]);
            assert_eq!(none.poison(&job), Some(Poison::Reserves(9)));
        }
    }

    #[test]
    fn a_deferred_job_is_not_a_suspect() {
        let retries = Retries::default();
        let deferred = |times| counters(&[("reserves", times + 1), ("releases", times)]);
        assert_eq!(retries.poison(&deferred(1000)), None);
        assert_eq!(retries.poison(&counters(&[("reserves", 1026), ("releases", 1000)])), {
            Some(Poison::Reserves(26))
        });
        let patient = retries.releases(u64::MAX);
        assert!(matches!(patient.failed(&deferred(1000)), Outcome::Release { .. }));
    }
}
