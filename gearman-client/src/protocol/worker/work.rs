//! A worker's messages about its jobs, and their outcomes.

use crate::{Error, ErrorKind, Fate, JobHandle, protocol::PacketType};

/// A worker's message about a running job.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Report<'a> {
    /// WORK_STATUS: parts done, and the total.
    Status(u64, u64),
    /// WORK_DATA: partial data.
    Data(&'a [u8]),
    /// WORK_WARNING.
    Warning(&'a [u8]),
}

/// How a worker ends a job.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum JobEnd<'a> {
    /// WORK_COMPLETE, with the result.
    Complete(&'a [u8]),
    /// WORK_FAIL.
    Fail,
    /// WORK_EXCEPTION, with a description of the error.
    Exception(&'a [u8]),
    /// WORK_FAIL, with a description that is not sent.
    Panic(&'a str),
    /// Nothing is sent: the connection closes once its other jobs have ended, and the server runs the job again.
    GiveBack,
}

impl JobEnd<'_> {
    /// The packet that is sent; `None` for a job that is given back.
    pub(super) fn packet_type(self) -> Option<PacketType> {
        match self {
            JobEnd::Complete(_) => Some(PacketType::WorkComplete),
            JobEnd::Fail | JobEnd::Panic(_) => Some(PacketType::WorkFail),
            JobEnd::Exception(_) => Some(PacketType::WorkException),
            JobEnd::GiveBack => None,
        }
    }
}

/// The error of acting on a job that the connection does not hold.
pub(crate) fn job_lost(job: &JobHandle) -> Error {
    Error::new(
        ErrorKind::JobLost,
        Fate::NotSent,
        format!(
            "the connection that held job {job} is gone; unless the server stopped, it gives the job to others"
        ),
    )
}

/// The outcome of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The server has accepted a WORK_COMPLETE.
    Completed,
    /// The server has accepted a WORK_FAIL or WORK_EXCEPTION.
    Failed,
    /// The server had given the job to another worker: the result is lost.
    Rejected,
    /// The connection was lost before the server could have shown that it accepted the result.
    Unknown,
    /// The connection was lost or closed before the job was finished: the server gives it to another worker.
    Abandoned,
    /// Given back by its handler.
    GivenBack,
}
