//! What becomes of a job: as its handler says, or as its counters say.

use std::{fmt, time::Duration};

use crate::{JobStats, Priority};

/// What a handler wants to become of its job.
///
/// A handler returns one of these, or `()` for [`Delete`](Outcome::Delete), or a `Result` of either: an error is a
/// [`Retry`](Outcome::Retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Delete,
    /// Given back, ready after the delay.
    Release {
        /// In whole seconds (rounded up), at most `u32::MAX`.
        delay: Duration,
        /// `None` leaves the job its priority.
        priority: Option<Priority>,
    },
    /// Set aside until somebody kicks it.
    Bury {
        /// `None` leaves the job its priority.
        priority: Option<Priority>,
    },
    /// The job failed: it is released with a delay that grows, and buried when that was done too often; see
    /// [`Retries`].
    Retry,
}

impl Outcome {
    /// Given back at once, with its priority unchanged.
    #[must_use]
    pub const fn release() -> Self {
        Self::release_after(Duration::ZERO)
    }

    /// Given back after a delay, with its priority unchanged.
    #[must_use]
    pub const fn release_after(delay: Duration) -> Self {
        Outcome::Release { delay, priority: None }
    }

    /// Set aside, with its priority unchanged.
    #[must_use]
    pub const fn bury() -> Self {
        Outcome::Bury { priority: None }
    }

    /// The same with a reason, which is told as the words of a failure are:
    /// [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed). The server keeps none.
    #[must_use]
    pub fn because(self, reason: impl fmt::Display) -> Decision {
        Decision { outcome: self, reason: Some(reason.to_string()) }
    }
}

/// An outcome, and the reason for it.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// What is to become of the job.
    pub outcome: Outcome,
    /// Why, if there is something to say.
    pub reason: Option<String>,
}

impl Decision {
    /// The decision for what came of a job, where the caller's own errors decide: `classify` says what one makes of the job,
    /// and what it displays is the reason.
    pub fn classify<T, E>(result: Result<T, E>, classify: impl FnOnce(&E) -> Outcome) -> Self
    where
        T: IntoOutcome,
        E: fmt::Display,
    {
        match result {
            Ok(value) => {
                let (outcome, reason) = value.into_outcome();
                Decision { outcome, reason }
            }
            Err(error) => classify(&error).because(error),
        }
    }
}

impl From<Outcome> for Decision {
    fn from(outcome: Outcome) -> Self {
        Decision { outcome, reason: None }
    }
}

/// What a handler may return: `()`, an [`Outcome`], a [`Decision`], or a `Result` of one of them, whose error may be anything that
/// can be displayed.
pub trait IntoOutcome {
    /// The outcome, and for a failure its words.
    fn into_outcome(self) -> (Outcome, Option<String>);
}

impl IntoOutcome for () {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (Outcome::Delete, None)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (self, None)
    }
}

impl IntoOutcome for Decision {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (self.outcome, self.reason)
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => (Outcome::Retry, Some(error.to_string())),
        }
    }
}

/// What becomes of a job that failed, by its own counters, so that it holds over workers and restarts.
///
/// A failed job is released with a delay of `base × factor` to the power of its `releases`, at most `cap`. It is buried
/// instead when it was released or reserved often enough; and it is not even run, but buried, when it was reserved more
/// often than that, or its time to run was over too often: such a job takes its process with it, or hangs. `buries` does
/// not count: it grows when a server restarts with a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    base: Duration,
    factor: u32,
    cap: Duration,
    releases: u64,
    pub(crate) reserves: u64,
    pub(crate) timeouts: Option<u64>,
}

impl Default for Retries {
    /// 1 s doubling up to 1 h, buried after 10 releases or 25 reserves; any number of timeouts.
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

    /// A job that fails and was released so often already is buried; 0 buries at the first failure.
    #[must_use]
    pub const fn releases(mut self, releases: u64) -> Self {
        self.releases = releases;
        self
    }

    /// A job is run at most so often, whatever came in between; a few times more where not every job is
    /// [looked at](crate::Inspect::Suspects). Count with some more than the releases: a stop of the
    /// worker, a lost connection and a restart of the server give jobs back, too.
    #[must_use]
    pub const fn reserves(mut self, reserves: u64) -> Self {
        self.reserves = reserves;
        self
    }

    /// A job whose time to run was over so often is not run again, but buried.
    #[must_use]
    pub const fn timeouts(mut self, timeouts: u64) -> Self {
        self.timeouts = Some(timeouts);
        self
    }

    /// The delay of the release after so many.
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

    /// Why a job that was just reserved must not be run.
    #[must_use]
    pub fn poison(&self, stats: &JobStats) -> Option<Poison> {
        if stats.reserves > self.reserves {
            return Some(Poison::Reserves(stats.reserves));
        }
        match self.timeouts {
            Some(most) if stats.timeouts >= most => Some(Poison::Timeouts(stats.timeouts)),
            _ => None,
        }
    }

    /// What becomes of a job that failed.
    #[must_use]
    pub fn failed(&self, stats: &JobStats) -> Outcome {
        if stats.releases >= self.releases || stats.reserves >= self.reserves {
            Outcome::bury()
        } else {
            Outcome::release_after(self.delay(stats.releases))
        }
    }
}

/// Why a job is buried without being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Poison {
    /// It was reserved so often: probably it kills the process that runs it.
    Reserves(u64),
    /// Its time to run was over so often.
    Timeouts(u64),
    /// Its body has so many bytes, more than the client takes.
    Size(u64),
    /// The server lost the end of its body in a crash: [`ErrorKind::BodyDamaged`](crate::ErrorKind::BodyDamaged).
    Damaged,
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Poison::Reserves(times) => write!(f, "it was reserved {times} times"),
            Poison::Timeouts(times) => write!(f, "its time to run was over {times} times"),
            Poison::Size(bytes) => write!(f, "its body has {bytes} bytes"),
            Poison::Damaged => f.write_str("the server lost the end of its body in a crash"),
        }
    }
}
