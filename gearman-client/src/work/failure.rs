//! Why handlers fail, and why jobs are lost.

use std::fmt;
use std::{any::Any, borrow::Cow};

use bytes::Bytes;

/// Why a handler failed.
///
/// Any error that implements `Display` converts into one with `?`, boxed ones and those of anyhow included: an exception
/// with the error's text in its alternate form (`{:#}`), which for anyhow's errors includes the causes.
///
/// ```
/// use gearman_client::Failure;
///
/// fn resize() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
///     Err("no such picture".into())
/// }
///
/// fn handler() -> Result<Vec<u8>, Failure> {
///     let picture = resize()?;
///     Ok(picture)
/// }
/// # assert_eq!(handler(), Err(Failure::exception("no such picture")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// WORK_FAIL: a plain failure.
    Fail,
    /// WORK_EXCEPTION: a failure with a description.
    Exception(Bytes),
    /// The job cannot be done here or now, for this reason: see [`give_back`](Self::give_back).
    GiveBack(String),
}

impl Failure {
    /// A failure with a description.
    #[must_use]
    pub fn exception(what: impl Into<Bytes>) -> Self {
        Failure::Exception(what.into())
    }

    /// Gives the job back to the server, which runs it again, here or elsewhere, without a word to its submitters.
    ///
    /// The protocol returns a job only with its connection. So the connection requests no further job; when those that
    /// it still runs have ended, it closes, and the next one follows after a delay that grows while jobs are given back
    /// and none ends: the delays of [`ConnectOptions::retry`](crate::ConnectOptions::retry). The reason goes to
    /// [`WorkerEventKind::GivenBack`](crate::WorkerEventKind::GivenBack). The next connection serves the function of such
    /// a job last, so that those of others have their turn. A server that limits the attempts of a job
    /// (`--job-retries`) counts this as one.
    #[must_use]
    #[allow(clippy::needless_pass_by_value)]
    pub fn give_back(why: impl fmt::Display) -> Self {
        Failure::GiveBack(format!("{why:#}"))
    }
}

/// A failure has no `Display` of its own, so that every error that has one can be converted.
impl<E: fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Exception(format!("{error:#}").into())
    }
}

/// Why a worker has lost a job although its handler is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum LostReason {
    /// The connection that held it is gone: the server gives the job to another worker.
    ConnectionLost,
    /// The worker was stopped and its grace has passed, or it was dropped.
    Stopped,
    /// The job's timeout announced to the server has expired: the server gives the job to other workers. The result is
    /// still sent, since the timer of servers up to 1.1 can miss a job; a server that has given up on the job rejects
    /// it.
    TimedOut,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::ConnectionLost => "the connection was lost",
            LostReason::Stopped => "the worker was stopped",
            LostReason::TimedOut => "the time announced for it has passed",
        })
    }
}

/// How a handler failed.
#[derive(Debug)]
pub(crate) enum Failed {
    Handler(Failure),
    /// With this message. It is not sent to submitters, because it may contain anything.
    Panic(String),
    /// It was not called; the job goes back to the server. Carries the reason, if it is news.
    #[cfg(feature = "tower")]
    NotRun(Option<String>),
}

impl Failed {
    pub(crate) fn panic(panic: &(dyn Any + Send)) -> Self {
        Failed::Panic(queue_core::panic_text(panic).to_owned())
    }

    /// The end of a job with this outcome.
    pub(crate) fn end_of(outcome: &Result<Bytes, Self>) -> crate::protocol::JobEnd<'_> {
        match outcome {
            Ok(result) => crate::protocol::JobEnd::Complete(result),
            Err(failed) => failed.end(),
        }
    }

    /// The end to send to the submitters.
    fn end(&self) -> crate::protocol::JobEnd<'_> {
        match self {
            Failed::Handler(Failure::Exception(what)) => crate::protocol::JobEnd::Exception(what),
            Failed::Handler(Failure::Fail) => crate::protocol::JobEnd::Fail,
            Failed::Panic(why) => crate::protocol::JobEnd::Panic(why),
            Failed::Handler(Failure::GiveBack(_)) => crate::protocol::JobEnd::GiveBack,
            #[cfg(feature = "tower")]
            Failed::NotRun(_) => crate::protocol::JobEnd::GiveBack,
        }
    }

    /// The message for the worker's own side.
    pub(crate) fn words(&self) -> Cow<'_, str> {
        match self {
            Failed::Handler(Failure::Exception(what)) => String::from_utf8_lossy(what),
            Failed::Handler(Failure::Fail) => "the handler gave no reason".into(),
            Failed::Handler(Failure::GiveBack(why)) => why.into(),
            Failed::Panic(text) => format!("the handler panicked: {text}").into(),
            #[cfg(feature = "tower")]
            Failed::NotRun(why) => why.as_deref().unwrap_or_default().into(),
        }
    }

    /// Whether to report it: the loss of a job before it was run is already known.
    pub(crate) fn is_news(&self) -> bool {
        #[cfg(feature = "tower")]
        if let Failed::NotRun(why) = self {
            return why.is_some();
        }
        true
    }

    /// A single word: `error.type`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failed::Handler(Failure::Fail) => "fail",
            Failed::Handler(Failure::Exception(_)) => "exception",
            Failed::Handler(Failure::GiveBack(_)) => "given-back",
            Failed::Panic(_) => "panic",
            #[cfg(feature = "tower")]
            Failed::NotRun(_) => "not-run",
        }
    }
}
