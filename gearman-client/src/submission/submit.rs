//! Submission options.

use std::{fmt, str::FromStr, time::Duration};

use crate::{Error, UniqueId};

/// The priority of a job among the jobs of its function.
///
/// Up to server 1.1, a worker is first given jobs of the function that it announced last, whatever their priority. The
/// workers of this crate announce the one last that was registered first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// After all others.
    Low,
}

queue_core::words!(Priority, Error, "priority": "high" = High, "normal" = Normal, "low" = Low);

/// The key that makes two submissions of a function the same job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Unique {
    /// Nothing: every submission has its own random id, which can be used to look the job up.
    ///
    /// gearmand keeps ids in 991 hash chains unless it was started with `--hashtable-buckets=N`, and searches one of
    /// them for every submission that has an id. Measured with raw pipelines: 208,000 submissions a second into an
    /// empty queue, 15,000 into one of 200,000 jobs; with `--hashtable-buckets=100003` 110,000 to 160,000 at any depth,
    /// and [without ids](SubmitOptions::without_id) over 450,000.
    #[default]
    Random,
    /// This id.
    ///
    /// gearmand may join a foreground job to one that it is about to drop, because the connections of all its
    /// submitters are lost and no worker has taken it: then it is never run. Set a [timeout](SubmitOptions::timeout).
    Id(UniqueId),
    /// The workload (`-` on the wire): the server joins submissions with equal workloads.
    ByPayload,
    /// Nothing. The job cannot be looked up by an id. A server with a persistent queue keeps only one such background
    /// job for each function.
    None,
}

impl fmt::Display for Unique {
    /// Formats as `random`, `by-payload`, `none`, or `id:` and the id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unique::Random => f.pad("random"),
            Unique::Id(id) => f.pad(&format!("id:{id}")),
            Unique::ByPayload => f.pad("by-payload"),
            Unique::None => f.pad("none"),
        }
    }
}

impl FromStr for Unique {
    type Err = Error;

    /// Parses the formatted text.
    fn from_str(text: &str) -> Result<Self, Error> {
        match (text, text.strip_prefix("id:")) {
            ("random", _) => Ok(Unique::Random),
            ("by-payload", _) => Ok(Unique::ByPayload),
            ("none", _) => Ok(Unique::None),
            (_, Some(id)) => id.parse().map(Unique::Id),
            (other, None) => {
                let words = ["random", "by-payload", "none", "id:ID"];
                Err(queue_core::unknown_word("uniqueness", other, &words).into())
            }
        }
    }
}

impl From<UniqueId> for Unique {
    fn from(id: UniqueId) -> Self {
        Unique::Id(id)
    }
}

/// How a job is submitted: normal priority, a random unique id and no timeout unless set.
///
/// ```
/// use std::time::Duration;
/// use gearman_client::{Priority, SubmitOptions};
///
/// let urgent = SubmitOptions::default().priority(Priority::High).timeout(Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct SubmitOptions {
    pub(crate) priority: Priority,
    pub(crate) unique: Unique,
    #[cfg_attr(
        feature = "serde",
        serde(with = "queue_core::seconds::optional", skip_serializing_if = "Option::is_none")
    )]
    pub(crate) timeout: Option<Duration>,
    pub(crate) idempotent: bool,
}

queue_core::setters! {
    self: SubmitOptions;

    /// How urgent the job is.
    priority(priority: Priority) => self.priority = priority;

    /// Which submissions to merge with this one.
    ///
    /// If a foreground submission joins a queued background job and then goes away, gearmand never runs that job. Keep
    /// the ids of foreground and background submissions apart.
    unique(unique: impl Into<Unique>) => self.unique = unique.into();

    /// How long to wait for the end of a foreground job. The server does not know about it: the job continues.
    timeout(timeout: Duration) => self.timeout = Some(timeout);

    /// Declares that running the job twice does no harm: a submission of unknown outcome, and a foreground job whose
    /// connection is lost, is then resubmitted.
    ///
    /// A background job goes to the same server first, with the same unique id, so that the server merges both. A
    /// foreground job gets a new id: a server drops a queued job when its only submitter's connection is lost, together
    /// with any late submission merged into it. With a [custom id](Unique::Id), it is submitted again once the server
    /// has forgotten the old job, or runs it.
    idempotent(idempotent: bool) => self.idempotent = idempotent;
}

impl SubmitOptions {
    /// Submits the job without a unique id, which keeps gearmand fast when its queue is deep: [`Unique::None`].
    ///
    /// The job can then only be looked up by its handle, and a submission of unknown outcome cannot be recognized when
    /// it is repeated. Not for servers with a persistent queue: they keep one row for each function and id, so of
    /// several queued background jobs without an id all but one are lost in a restart.
    #[must_use]
    pub fn without_id(self) -> Self {
        self.unique(Unique::None)
    }
}

/// A cron-like schedule of SUBMIT_JOB_SCHED. gearmand does not support it.
///
/// As text, the five numbers of [`new`](Self::new) separated by spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    pub(crate) fields: [u8; 5],
}

impl Schedule {
    /// Minute (0 to 59), hour (0 to 23), day of the month (1 to 31), month (1 to 12), day of the week (0 to 6, 0 is
    /// Monday).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a number out of range.
    pub fn new(minute: u8, hour: u8, day: u8, month: u8, weekday: u8) -> Result<Self, Error> {
        let fields = [
            ("minute", minute, 0, 59),
            ("hour", hour, 0, 23),
            ("day of the month", day, 1, 31),
            ("month", month, 1, 12),
            ("day of the week", weekday, 0, 6),
        ];
        for (what, value, least, most) in fields {
            if !(least..=most).contains(&value) {
                return Err(Error::invalid(format!(
                    "{what} {value} is not valid: it is {least} to {most}"
                )));
            }
        }
        Ok(Schedule { fields: [minute, hour, day, month, weekday] })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [minute, hour, day, month, weekday] = self.fields;
        write!(f, "{minute} {hour} {day} {month} {weekday}")
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::invalid(format!(
                "schedule {} is not valid: it must be five numbers, for minute, hour, day, month and day of the week",
                queue_core::excerpt(text.as_bytes())
            ))
        };
        let numbers: Option<Vec<u8>> =
            text.split_ascii_whitespace().map(|number| number.parse().ok()).collect();
        match numbers.ok_or_else(wrong)?[..] {
            [minute, hour, day, month, weekday] => Self::new(minute, hour, day, month, weekday),
            _ => Err(wrong()),
        }
    }
}

#[cfg(feature = "serde")]
queue_core::serde_as_text!(Schedule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_bounded() {
        assert!(Schedule::new(59, 23, 31, 12, 6).is_ok() && Schedule::new(0, 0, 1, 1, 0).is_ok());
        for (minute, hour, day, month, weekday) in
            [(60, 0, 1, 1, 0), (0, 24, 1, 1, 0), (0, 0, 0, 1, 0), (0, 0, 1, 13, 0), (0, 0, 1, 1, 7)]
        {
            assert!(Schedule::new(minute, hour, day, month, weekday).is_err());
        }
    }

    #[test]
    fn priorities_have_names() {
        for priority in [Priority::High, Priority::Normal, Priority::Low] {
            assert_eq!(priority.to_string().parse::<Priority>().unwrap(), priority);
        }
        assert!("urgent".parse::<Priority>().is_err());
    }
}
