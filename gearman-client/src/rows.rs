//! The rows of the admin listings, typed.
//!
//! Function names and ids can contain bytes that corrupt rows. Invalid rows are kept separately, and a listing says
//! whether it can be trusted.

use std::{ops::Deref, slice};

use bytes::Bytes;

use crate::{Error, FunctionName, JobHandle, error::excerpt, protocol::AdminReply, text::decimal};

/// The rows of a listing. With the feature `serde` it is the rows alone: none is rejected when they are read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Listing<T> {
    rows: Vec<T>,
    #[cfg_attr(feature = "serde", serde(skip))]
    rejected: Vec<Bytes>,
    #[cfg_attr(feature = "serde", serde(skip))]
    is_forged: bool,
}

impl<T> Listing<T> {
    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[T] {
        &self.rows
    }

    /// The rows, to keep.
    #[must_use]
    pub fn into_rows(self) -> Vec<T> {
        self.rows
    }

    /// The lines that are not valid rows.
    #[must_use]
    pub fn rejected(&self) -> &[Bytes] {
        &self.rejected
    }

    /// Whether some name forges lines, so that rows may be invented or missing.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.is_forged || !self.rejected.is_empty()
    }
}

impl<T> Deref for Listing<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.rows
    }
}

impl<T> IntoIterator for Listing<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Listing<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

/// A line of a listing.
pub trait Row: Sized {
    /// Parses a line; `None` when it cannot be such a row.
    fn parse(line: &Bytes) -> Option<Self>;
}

impl<T: Row> Listing<T> {
    /// Parses the lines of a reply.
    ///
    /// # Errors
    ///
    /// `Protocol` when the reply is not a list.
    pub fn parse(reply: AdminReply) -> Result<Self, Error> {
        let (lines, is_forged) = match reply {
            AdminReply::List { lines, is_forged } => (lines, is_forged),
            AdminReply::Line(line) => {
                let error = Error::protocol("the server replied with a line instead of a list");
                return Err(error.with_detail(excerpt(&line)));
            }
        };
        let mut listing = Listing { rows: Vec::new(), rejected: Vec::new(), is_forged };
        for line in lines {
            match T::parse(&line) {
                Some(row) => listing.rows.push(row),
                None => listing.rejected.push(line),
            }
        }
        Ok(listing)
    }
}

/// A row of `status`: a function and its counts. A negative count is a counter that wrapped around in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FunctionStatus {
    /// The function.
    pub name: FunctionName,
    /// Queued and running jobs.
    pub total: i64,
    /// Jobs held by workers.
    pub running: i64,
    /// Registrations by workers: a worker that registers twice counts twice.
    pub workers: i64,
}

impl FunctionStatus {
    /// Jobs not held by a worker, including those for a later time, and cancelled ones until a worker skips them.
    #[must_use]
    pub fn queued(&self) -> i64 {
        self.total - self.running
    }
}

impl Row for FunctionStatus {
    fn parse(line: &Bytes) -> Option<Self> {
        let (name, [total, running, workers]) = name_and_counts(line)?;
        Some(FunctionStatus { name, total, running, workers })
    }
}

/// A row of `prioritystatus`: a function and its queued jobs. A negative count is a counter that wrapped around in the
/// server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FunctionPriorities {
    /// The function.
    pub name: FunctionName,
    /// Queued with high priority.
    pub high: i64,
    /// Queued with normal priority.
    pub normal: i64,
    /// Queued with low priority.
    pub low: i64,
    /// Registrations by workers.
    pub workers: i64,
}

impl Row for FunctionPriorities {
    fn parse(line: &Bytes) -> Option<Self> {
        let (name, [high, normal, low, workers]) = name_and_counts(line)?;
        Some(FunctionPriorities { name, high, normal, low, workers })
    }
}

/// A name and its tab-separated counts. The name may contain tabs.
fn name_and_counts<const N: usize>(line: &Bytes) -> Option<(FunctionName, [i64; N])> {
    let mut fields = line.rsplitn(N + 1, |byte| *byte == b'\t');
    let mut counts = [0; N];
    for slot in counts.iter_mut().rev() {
        *slot = count(fields.next()?)?;
    }
    Some((FunctionName::received(fields.next()?).ok()?, counts))
}

/// A counter of the server: a 32-bit number that can wrap below zero.
fn count(text: &[u8]) -> Option<i64> {
    let number = u32::try_from(decimal(text)?).ok()?;
    Some(i64::from(number.cast_signed()))
}

/// A row of `workers`: a connection, not necessarily of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The server's file descriptor; 0 from a server that does not report it, such as g2.
    pub fd: u64,
    /// The remote address of the connection.
    pub address: String,
    /// The worker's name.
    pub id: Option<String>,
    /// Its functions, the most recently registered first. A function registered twice is listed twice.
    pub functions: Vec<FunctionName>,
}

impl Row for WorkerInfo {
    /// `FD ADDRESS ID : FUNCTION FUNCTION`. Ids may contain spaces, and addresses colons.
    fn parse(line: &Bytes) -> Option<Self> {
        let mut fields = line.splitn(3, |byte| *byte == b' ');
        let fd = match fields.next()? {
            b"-" => 0,
            number => decimal(number)?,
        };
        let address = text(fields.next()?);
        let rest = fields.next()?;
        let (id, functions) = match last_colon(rest) {
            Some(at) => (rest.get(..at)?, rest.get(at + 2..)?),
            // An empty id.
            None => (&b""[..], rest.strip_prefix(b":")?),
        };
        let functions: Result<_, _> = functions
            .split(|byte| *byte == b' ')
            .filter(|name| !name.is_empty())
            .map(FunctionName::received)
            .collect();
        let id = match id {
            b"-" | b"" => None,
            id => Some(text(id)),
        };
        (!address.is_empty()).then_some(())?;
        Some(WorkerInfo { fd, address, id, functions: functions.ok()? })
    }
}

/// The position of the last ` :` that ends a field.
fn last_colon(text: &[u8]) -> Option<usize> {
    (0..text.len().saturating_sub(1)).rev().find(|at| {
        text.get(*at..at + 2) == Some(b" :") && matches!(text.get(at + 2), None | Some(b' '))
    })
}

/// A row of `show jobs`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct JobInfo {
    /// The job.
    pub handle: JobHandle,
    /// How often a worker that had it was lost.
    pub retries: u64,
    /// Whether it was cancelled, or its submitters are gone: a worker will skip it.
    pub is_ignored: bool,
    /// Whether it is in a persistent queue, as background jobs are.
    pub is_queued: bool,
}

impl Row for JobInfo {
    fn parse(line: &Bytes) -> Option<Self> {
        let mut fields = line.rsplitn(4, |byte| *byte == b'\t');
        let is_queued = decimal(fields.next()?)? != 0;
        let is_ignored = decimal(fields.next()?)? != 0;
        let retries = decimal(fields.next()?)?;
        let handle = JobHandle::try_from(fields.next()?).ok()?;
        Some(JobInfo { handle, retries, is_ignored, is_queued })
    }
}

/// A row of `show unique jobs`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UniqueJob {
    /// The job; only reported by servers 2.2 and later.
    pub handle: Option<JobHandle>,
    /// Its unique id; empty for a job without one.
    #[cfg_attr(feature = "serde", serde(with = "crate::names::text"))]
    pub unique: Bytes,
}

impl Row for UniqueJob {
    /// `UNIQUE`, or `HANDLE TAB UNIQUE` from servers 2.2 and later.
    fn parse(line: &Bytes) -> Option<Self> {
        let (handle, unique) = match line.iter().position(|byte| *byte == b'\t') {
            Some(at) => (Some(JobHandle::try_from(line.get(..at)?).ok()?), line.slice(at + 1..)),
            None => (None, line.clone()),
        };
        Some(UniqueJob { handle, unique })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing<T: Row>(lines: &[&'static str]) -> Listing<T> {
        let lines = lines.iter().map(|line| Bytes::from_static(line.as_bytes())).collect();
        Listing::parse(AdminReply::List { lines, is_forged: false }).unwrap()
    }

    #[test]
    fn quirk_wrapped_counters_are_below_zero() {
        let rows = listing::<FunctionStatus>(&["sleep_three\t4294967295\t4294967294\t0"]);
        assert_eq!((rows[0].total, rows[0].running, rows[0].queued()), (-1, -2, 1));
        assert!(!rows.is_untrusted());
    }

    #[test]
    fn impossible_rows_are_kept_aside_and_the_rest_stays() {
        let rows =
            listing::<FunctionStatus>(&["rev\t1\t0\t2", "forged", "x\t1\t2", "t\tab\t1\t0\t0"]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].name, "t\tab");
        assert_eq!(rows.rejected(), ["forged", "x\t1\t2"]);
        assert!(rows.is_untrusted());
        let rows = listing::<FunctionStatus>(&["a\t-1\t0\t0", "a\t4294967296\t0\t0"]);
        assert!(rows.is_empty() && rows.is_untrusted());
    }

    #[test]
    fn workers_of_every_dialect() {
        let rows = listing::<WorkerInfo>(&[
            "38 127.0.0.1 - :",
            "39 127.0.0.1 - : ",
            "40 ::1 my worker : b a a",
            "41 fe80::1 - : :",
            "42 127.0.0.1  :",
            "43 127.0.0.1",
            "forged line",
            "- 127.0.0.1:40312 w1 : up",
        ]);
        assert_eq!(rows.len(), 6);
        assert_eq!((rows[5].fd, rows[5].id.as_deref()), (0, Some("w1")));
        assert_eq!(rows[5].functions, ["up"]);
        assert_eq!((rows[0].fd, rows[0].id.as_deref()), (38, None));
        assert!(rows[0].functions.is_empty() && rows[1].functions.is_empty());
        assert_eq!(rows[2].id.as_deref(), Some("my worker"));
        assert_eq!(rows[2].functions, ["b", "a", "a"]);
        assert_eq!((rows[3].address.as_str(), rows[3].id.as_deref()), ("fe80::1", Some("- :")));
        assert_eq!(rows.rejected().len(), 2);
    }

    #[test]
    fn quirk_unique_jobs_come_in_two_formats_and_may_be_empty() {
        let rows = listing::<UniqueJob>(&["u1", "", "H:x:1\tu2", "H:x:2\t"]);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.handle.as_ref().map(ToString::to_string), row.unique.clone()))
            .collect();
        assert_eq!(
            found,
            [
                (None, "u1".into()),
                (None, "".into()),
                (Some("H:x:1".into()), "u2".into()),
                (Some("H:x:2".into()), "".into()),
            ]
        );
    }

    #[test]
    fn jobs_and_priorities() {
        let jobs = listing::<JobInfo>(&["H:x:1\t2\t1\t0", "H:x:2\t0\t0\t1"]);
        assert_eq!((jobs[0].retries, jobs[0].is_ignored, jobs[0].is_queued), (2, true, false));
        assert!(!jobs[1].is_ignored && jobs[1].is_queued);
        let functions = listing::<FunctionPriorities>(&["rev\t1\t2\t3\t4"]);
        let row = &functions[0];
        assert_eq!((row.high, row.normal, row.low, row.workers), (1, 2, 3, 4));
    }

    #[test]
    fn a_single_line_is_not_a_listing() {
        let reply = AdminReply::Line("OK".into());
        assert!(Listing::<JobInfo>::parse(reply).is_err());
    }
}
