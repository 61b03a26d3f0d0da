//! Ids, names and values of the protocol. Each is validated when it is built.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use queue_core::{decimal, excerpt};

use crate::{Epoch, Error};

/// The number of a job, unique on its server.
///
/// Ids start at 1 and are assigned in the order in which the server reads `put` lines. A server without a write-ahead
/// log (`-b`) starts at 1 again when it restarts, and so reuses ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct JobId(u64);

impl JobId {
    /// The id as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<&Job> for JobId {
    fn from(job: &Job) -> Self {
        job.id
    }
}

/// How urgent a job is: 0 is the most urgent, `u32::MAX` the least.
///
/// Jobs of one priority are reserved in the order of their ids. The server counts jobs below 1024 as "urgent" in its
/// statistics. The default is 1024.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Priority(u32);

impl Priority {
    /// The priority that is reserved first.
    pub const MOST_URGENT: Priority = Priority(0);
    /// The priority that is reserved last.
    pub const LEAST_URGENT: Priority = Priority(u32::MAX);

    /// The priority as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether the server counts such a job as urgent: below 1024.
    #[must_use]
    pub const fn is_urgent(self) -> bool {
        self.0 < 1024
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority(1024)
    }
}

/// The conversions of numbers: from a number and from text, and to text. An invalid text is refused as `$what`, which
/// is `$rule` and has a maximum.
macro_rules! number {
    ($name:ident($number:ty): $what:literal, $rule:literal) => {
        impl From<$number> for $name {
            fn from(number: $number) -> Self {
                $name(number)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let number = decimal(text.as_bytes()).and_then(|number| number.try_into().ok());
                number.map($name).ok_or_else(|| {
                    Error::invalid(format!(
                        concat!($what, " {} is not valid: ", $rule, " to {}"),
                        excerpt(text.as_bytes()),
                        <$number>::MAX
                    ))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(JobId(u64): "job id", "an id is a whole number from 0");
number!(Priority(u32): "priority", "a priority is a whole number from 0 (most urgent)");
number!(Seconds(u32): "seconds", "it must be a whole number from 0");

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({})", self.0)
    }
}

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Priority({})", self.0)
    }
}

/// The name of a tube: 1 to 200 bytes of `A-Z a-z 0-9 - + / ; . $ _ ( )`, not starting with `-`.
///
/// Names are validated, so no byte of one can end the command line that carries it. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TubeName(Arc<str>);

impl TubeName {
    /// The longest name the server accepts, in bytes.
    pub const MAX_LEN: usize = 200;

    /// The names without duplicates, in order of first occurrence; `InvalidInput` with the text `none` if there are
    /// none.
    pub(crate) fn distinct<I>(tubes: I, none: &'static str) -> Result<Vec<Self>, Error>
    where
        I: IntoIterator,
        I::Item: TryInto<Self>,
        Error: From<<I::Item as TryInto<Self>>::Error>,
    {
        let mut distinct = Vec::new();
        for tube in tubes {
            let tube = tube.try_into()?;
            if !distinct.contains(&tube) {
                distinct.push(tube);
            }
        }
        if distinct.is_empty() { Err(Error::invalid(none)) } else { Ok(distinct) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn check(name: &[u8]) -> Result<(), Error> {
        let broken = match name {
            [] => Some("it is empty".to_owned()),
            [b'-', ..] => Some("it starts with '-'".to_owned()),
            _ if name.len() > Self::MAX_LEN => Some(format!("it has {} bytes", name.len())),
            _ => name.iter().position(|&byte| !is_name_byte(byte)).map(|at| {
                let byte = name.get(at).copied().unwrap_or_default();
                format!("byte 0x{byte:02x} ({}) at position {at}", byte.escape_ascii())
            }),
        };
        broken.map_or(Ok(()), |why| {
            Err(Error::invalid(format!(
                "tube name is not valid: {why} (allowed: A-Z a-z 0-9 - + / ; . $ _ ( ), 1 to 200 bytes, not starting \
                 with '-')"
            )))
        })
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

impl Default for TubeName {
    /// `default`, the tube that every server has and every connection starts with.
    fn default() -> Self {
        TubeName("default".into())
    }
}

impl TryFrom<&[u8]> for TubeName {
    type Error = Error;

    fn try_from(name: &[u8]) -> Result<Self, Error> {
        Self::check(name)?;
        // `check` has seen that every byte is ASCII.
        Ok(TubeName(String::from_utf8_lossy(name).into()))
    }
}

impl FromStr for TubeName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::check(name.as_bytes())?;
        Ok(TubeName(name.into()))
    }
}

queue_core::try_from_text!(TubeName, Error);

impl From<&TubeName> for TubeName {
    fn from(name: &TubeName) -> Self {
        name.clone()
    }
}

impl AsRef<str> for TubeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for TubeName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for TubeName {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for TubeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(feature = "serde")]
queue_core::serde_as_text!(TubeName);

/// A whole number of seconds, as the protocol carries delays and times to run: 0 to `u32::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Seconds(u32);

impl Seconds {
    /// The seconds as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Rounds a duration up to whole seconds, so that half a second never becomes "at once".
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is longer than `max` seconds; `what` names it in the message.
    pub fn round_up(what: &str, duration: Duration, max: u32) -> Result<Self, Error> {
        let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
        match u32::try_from(seconds) {
            Ok(seconds) if seconds <= max => Ok(Seconds(seconds)),
            _ => Err(Error::invalid(format!(
                "{what} {seconds} s is too long: the maximum is {max} s"
            ))),
        }
    }
}

impl From<Seconds> for Duration {
    fn from(seconds: Seconds) -> Self {
        Duration::from_secs(u64::from(seconds.0))
    }
}

/// A job as sent by the server, either reserved by this connection or only peeked at.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The job's number.
    pub id: JobId,
    /// The bytes that were put. Cheap to clone; shares the receive buffer.
    pub body: Bytes,
    /// The connection that reserved it; `None` for a job that was only peeked at.
    pub(crate) reservation: Option<Epoch>,
}

impl Job {
    /// A fictitious job that looks reserved, for tests of code that takes one. A command on it fails with
    /// [`JobLost`](crate::ErrorKind::JobLost).
    pub fn for_test(id: impl Into<JobId>, body: impl Into<Bytes>) -> Self {
        Job { id: id.into(), body: body.into(), reservation: Some(Epoch::next()) }
    }

    /// Whether it came from a reserve, so that its connection holds it.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.reservation.is_some()
    }
}

impl fmt::Debug for Job {
    /// Bodies may be secret and large, so only their length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Job { id, body, reservation } = self;
        f.debug_struct("Job")
            .field("id", id)
            .field("body", &format_args!("{} bytes", body.len()))
            .field("reserved", &reservation.is_some())
            .finish()
    }
}

/// The job that a command acts on: an id, or a reservation.
///
/// Created from a [`JobId`] (or a number), it names the job wherever it is. Created from a reserved [`Job`], it also
/// carries the connection that holds the job: after a reconnect, such a command fails locally with
/// [`JobLost`](crate::ErrorKind::JobLost) and nothing is sent, because the job may by then belong to another client, or
/// the id to a different job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRef {
    pub(crate) id: JobId,
    pub(crate) reservation: Option<Epoch>,
}

impl JobRef {
    /// The job's number.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }
}

impl From<JobId> for JobRef {
    fn from(id: JobId) -> Self {
        JobRef { id, reservation: None }
    }
}

impl From<u64> for JobRef {
    fn from(id: u64) -> Self {
        JobId(id).into()
    }
}

impl From<&Job> for JobRef {
    fn from(job: &Job) -> Self {
        JobRef { id: job.id, reservation: job.reservation }
    }
}

/// The result of a `put`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[must_use = "a buried job waits for a kick: check is_buried()"]
pub enum Inserted {
    /// `INSERTED`: the job is ready, or delayed as asked.
    Ready(JobId),
    /// `BURIED`: the job exists, but the server was out of memory to queue it; it waits for a kick.
    Buried(JobId),
}

impl Inserted {
    /// The new job's number.
    #[must_use]
    pub fn id(self) -> JobId {
        match self {
            Inserted::Ready(id) | Inserted::Buried(id) => id,
        }
    }

    /// Whether the server could only bury the job.
    #[must_use]
    pub fn is_buried(self) -> bool {
        matches!(self, Inserted::Buried(_))
    }
}

impl fmt::Display for Inserted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inserted::Ready(id) => write!(f, "inserted {id}"),
            Inserted::Buried(id) => write!(f, "buried {id}"),
        }
    }
}

/// The result of a reserve. All three are ordinary outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a dropped reserved job stays unavailable to others until its time to run expires"]
pub enum Reserved {
    /// A job, held by this connection until it is deleted, released or buried, or its time to run expires.
    Job(Job),
    /// No job came within the timeout.
    TimedOut,
    /// A job that this connection holds has less than a second left to run. Touch or finish it before the next
    /// reserve: until then the server gives this answer at once, every time.
    DeadlineSoon,
}

impl Reserved {
    /// The job, if any.
    #[must_use]
    pub fn job(self) -> Option<Job> {
        match self {
            Reserved::Job(job) => Some(job),
            Reserved::TimedOut | Reserved::DeadlineSoon => None,
        }
    }
}

/// The result of a `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Released {
    /// `RELEASED`: ready again, or delayed as asked.
    Queued,
    /// `BURIED`: the server was out of memory to queue it; it waits for a kick.
    Buried,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Released::Queued => "released",
            Released::Buried => "buried",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_tube_name_is_checked_at_every_position() {
        for byte in 0..=u8::MAX {
            for at in 0..3 {
                let mut name = *b"abc";
                name[at] = byte;
                let allowed = (byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte))
                    && !(at == 0 && byte == b'-');
                assert_eq!(TubeName::try_from(&name[..]).is_ok(), allowed, "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn tube_name_length_is_1_to_200() {
        for (length, ok) in [(0, false), (1, true), (200, true), (201, false)] {
            assert_eq!(TubeName::try_from("a".repeat(length)).is_ok(), ok, "{length}");
        }
    }

    #[test]
    fn invalid_tube_names_state_problem_position_and_rule() {
        let error = TubeName::try_from("mail\r\ndelete 1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "tube name is not valid: byte 0x0d (\\r) at position 4 (allowed: A-Z a-z 0-9 - + / ; . $ _ ( ), 1 to 200 \
             bytes, not starting with '-')"
        );
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        assert_eq!(error.fate(), crate::Fate::NotSent);
    }

    #[test]
    fn durations_round_up_and_are_bounded() {
        let seconds = |d| Seconds::round_up("delay", d, u32::MAX).map(Seconds::get);
        assert_eq!(seconds(Duration::ZERO).unwrap(), 0);
        assert_eq!(seconds(Duration::from_nanos(1)).unwrap(), 1);
        assert_eq!(seconds(Duration::from_millis(1500)).unwrap(), 2);
        assert_eq!(seconds(Duration::from_secs(u64::from(u32::MAX))).unwrap(), u32::MAX);
        let error = seconds(Duration::from_secs(1 << 32)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "delay 4294967296 s is too long: the maximum is 4294967295 s"
        );
        assert!(seconds(Duration::MAX).is_err());
    }

    #[test]
    fn numbers_are_strict() {
        for bad in ["", "-1", "+1", " 1", "1 ", "01", "1x", "18446744073709551616"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad:?}");
        }
        assert_eq!("18446744073709551615".parse::<JobId>().unwrap().get(), u64::MAX);
        assert!("4294967296".parse::<Priority>().is_err());
        assert_eq!("0".parse::<Priority>().unwrap(), Priority::MOST_URGENT);
    }
}
