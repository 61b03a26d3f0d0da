//! A job's events while it runs, its outcome, and its status.

use std::fmt;

use bytes::Bytes;

use crate::{JobHandle, Submitted, text::decimal};

/// An event of a foreground job. `Complete`, `Fail` and `Exception` end it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// The server has accepted the job.
    Created(JobHandle),
    /// Partial data.
    Data(Bytes),
    /// A warning from the worker.
    Warning(Bytes),
    /// Progress of the job.
    Status(Progress),
    /// The job is done; this is the result, or its last piece.
    Complete(Bytes),
    /// The job failed.
    Fail,
    /// The job failed with an exception.
    Exception(Bytes),
}

impl JobEvent {
    /// Whether this ends the job.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(self, JobEvent::Complete(_) | JobEvent::Fail | JobEvent::Exception(_))
    }

    /// The outcome, if this ends the job.
    #[must_use]
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            JobEvent::Complete(result) => Some(Outcome::Complete(result)),
            JobEvent::Fail => Some(Outcome::Fail),
            JobEvent::Exception(text) => Some(Outcome::Exception(text)),
            _ => None,
        }
    }

    /// Its size in a backlog, in bytes.
    pub(crate) fn weight(&self) -> usize {
        const OWN: usize = std::mem::size_of::<JobEvent>();
        match self {
            JobEvent::Data(bytes) | JobEvent::Warning(bytes) => OWN + bytes.len(),
            _ => OWN,
        }
    }
}

/// The outcome of the job, if this is its last item.
pub(crate) fn end_of(
    event: &crate::Result<JobEvent>,
    job: &Submitted,
) -> Option<crate::Result<Outcome>> {
    match event {
        Ok(event) if event.is_last() => event.clone().outcome().map(Ok),
        Ok(_) => None,
        Err(error) => {
            Some(Err(error.share().with_handle(job.handle.clone()).with_unique(job.unique)))
        }
    }
}

impl fmt::Debug for JobEvent {
    /// Payloads may be secret and large, so only their length is shown; an exception's text is shown, shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobEvent::Created(handle) => f.debug_tuple("Created").field(handle).finish(),
            JobEvent::Status(progress) => f.debug_tuple("Status").field(progress).finish(),
            JobEvent::Fail => f.write_str("Fail"),
            JobEvent::Exception(text) => write!(f, "Exception(\"{}\")", FailureText(text)),
            JobEvent::Data(bytes) => write!(f, "Data({} bytes)", bytes.len()),
            JobEvent::Warning(bytes) => write!(f, "Warning({} bytes)", bytes.len()),
            JobEvent::Complete(bytes) => write!(f, "Complete({} bytes)", bytes.len()),
        }
    }
}

impl fmt::Display for JobEvent {
    /// Formats the event, with the length of a payload only, and an exception's text on one line, shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobEvent::Created(handle) => {
                write!(f, "created {}", handle.to_string().escape_debug())
            }
            JobEvent::Data(bytes) => write!(f, "data ({} bytes)", bytes.len()),
            JobEvent::Warning(bytes) => write!(f, "warning ({} bytes)", bytes.len()),
            JobEvent::Status(progress) => write!(f, "status {progress}"),
            JobEvent::Complete(bytes) => write!(f, "complete ({} bytes)", bytes.len()),
            JobEvent::Fail => f.pad("fail"),
            JobEvent::Exception(text) => write!(f, "exception: {}", FailureText(text)),
        }
    }
}

/// How a foreground job ended. All three are ordinary outcomes.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a job may have failed"]
pub enum Outcome {
    /// Done, with the worker's final result. Data sent earlier are events.
    Complete(Bytes),
    /// The worker reported a failure, or the job was cancelled.
    Fail,
    /// The worker reported a failure, with a description.
    Exception(Bytes),
}

impl Outcome {
    /// The result, if the job is done.
    #[must_use]
    pub fn complete(self) -> Option<Bytes> {
        match self {
            Outcome::Complete(result) => Some(result),
            Outcome::Fail | Outcome::Exception(_) => None,
        }
    }

    /// Whether the job is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Outcome::Complete(_))
    }

    /// The result, for callers to whom a failed job is an error:
    ///
    /// ```
    /// use gearman_client::Outcome;
    ///
    /// let failed = Outcome::Exception("no such picture".into()).into_result();
    /// assert_eq!(failed.unwrap_err().to_string(), "the job failed: no such picture");
    /// assert_eq!(Outcome::Complete("done".into()).into_result()?, "done");
    /// # Ok::<(), gearman_client::JobFailed>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the job failed.
    pub fn into_result(self) -> Result<Bytes, JobFailed> {
        match self {
            Outcome::Complete(result) => Ok(result),
            Outcome::Fail => Err(JobFailed(None)),
            Outcome::Exception(text) => Err(JobFailed(Some(text))),
        }
    }
}

/// A foreground job that ran and failed: [`Outcome::Fail`] or [`Outcome::Exception`] as an error.
#[derive(Clone, PartialEq, Eq)]
pub struct JobFailed(Option<Bytes>);

impl JobFailed {
    /// The description of an exception, whole and as the worker sent it.
    #[must_use]
    pub fn exception(&self) -> Option<&Bytes> {
        self.0.as_ref()
    }
}

impl fmt::Debug for JobFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobFailed({:?})", self.to_string())
    }
}

impl fmt::Display for JobFailed {
    /// Formats the failure on one line; a long description is shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("the job failed"),
            Some(text) => write!(f, "the job failed: {}", FailureText(text)),
        }
    }
}

impl std::error::Error for JobFailed {}

/// The text of a failure on one line. A worker decides how long it is, so no more than its beginning is shown.
struct FailureText<'a>(&'a [u8]);

impl fmt::Display for FailureText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 500;
        let (shown, is_cut) = match self.0.get(..SHOWN) {
            Some(beginning) => (beginning, self.0.len() > SHOWN),
            None => (self.0, false),
        };
        write!(f, "{}", String::from_utf8_lossy(shown).escape_debug())?;
        if is_cut { write!(f, "... ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Complete(bytes) => write!(f, "Complete({} bytes)", bytes.len()),
            Outcome::Fail => f.write_str("Fail"),
            Outcome::Exception(text) => write!(f, "Exception(\"{}\")", FailureText(text)),
        }
    }
}

impl fmt::Display for Outcome {
    /// Formats the outcome, with the length of a result only, and an exception's text on one line, shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Complete(bytes) => write!(f, "complete ({} bytes)", bytes.len()),
            Outcome::Fail => f.pad("fail"),
            Outcome::Exception(text) => write!(f, "exception: {}", FailureText(text)),
        }
    }
}

/// A job's progress as last reported by its worker: a share of a total.
///
/// A server passes on any text that the worker sent; one that is not a number is `None`. With the feature `serde` it is
/// a map of the two numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "ProgressParts", into = "ProgressParts")
)]
pub struct Progress {
    numerator: Bytes,
    denominator: Bytes,
}

impl Progress {
    pub(crate) fn new(numerator: Bytes, denominator: Bytes) -> Self {
        Progress { numerator, denominator }
    }

    /// The completed parts.
    #[must_use]
    pub fn numerator(&self) -> Option<u64> {
        decimal(&self.numerator)
    }

    /// The total.
    #[must_use]
    pub fn denominator(&self) -> Option<u64> {
        decimal(&self.denominator)
    }

    /// The completed fraction, from 0 to 1; `None` if the total is zero or unknown.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match (self.numerator()?, self.denominator()?) {
            (_, 0) => None,
            (done, whole) => Some((done as f64 / whole as f64).min(1.0)),
        }
    }

    /// The two values as sent by the server.
    #[must_use]
    pub fn raw(&self) -> (&[u8], &[u8]) {
        (&self.numerator, &self.denominator)
    }
}

impl fmt::Display for Progress {
    /// Formats as `3/4`, with `?` for a value that is not a number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |number: Option<u64>| number.map_or_else(|| "?".into(), |n| n.to_string());
        write!(f, "{}/{}", shown(self.numerator()), shown(self.denominator()))
    }
}

/// A server's knowledge of a job.
///
/// A finished job is as unknown as one that never existed: results are not kept. With the feature `serde` it is a map
/// with the keys `known`, `running`, `numerator`, `denominator` and, if reported, `waiting`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct JobStatus {
    /// Whether the server has the job, queued or running. A cancelled job stays known until a worker would take it.
    #[cfg_attr(feature = "serde", serde(rename = "known"))]
    pub is_known: bool,
    /// Whether a worker has it.
    #[cfg_attr(feature = "serde", serde(rename = "running"))]
    pub is_running: bool,
    /// Its progress.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub progress: Progress,
    /// Number of submitters that wait for it; only if it was asked for by its unique id.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub waiting: Option<u64>,
}

impl fmt::Display for JobStatus {
    /// Formats as `unknown`, `queued`, or `running` and the progress.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_known, self.is_running) {
            (false, _) => f.pad("unknown"),
            (true, false) => f.pad("queued"),
            (true, true) => write!(f, "running {}", self.progress),
        }
    }
}

/// The two numbers; `None` for a text that is not a number.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct ProgressParts {
    #[serde(default)]
    numerator: Option<u64>,
    #[serde(default)]
    denominator: Option<u64>,
}

#[cfg(feature = "serde")]
impl From<Progress> for ProgressParts {
    fn from(progress: Progress) -> Self {
        let (numerator, denominator) = (progress.numerator(), progress.denominator());
        ProgressParts { numerator, denominator }
    }
}

#[cfg(feature = "serde")]
impl From<ProgressParts> for Progress {
    fn from(ProgressParts { numerator, denominator }: ProgressParts) -> Self {
        let text = |number: Option<u64>| number.map_or_else(Bytes::new, |n| n.to_string().into());
        Progress::new(text(numerator), text(denominator))
    }
}
