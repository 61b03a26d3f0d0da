//! The consumer's commands: reserving jobs, settling them, and the watch list.

use std::time::Duration;

use super::admin::about_another;
use crate::{
    Error, ErrorKind, Job, JobId, JobRef, Priority, ReleaseOptions, Released, Reserved, Seconds,
    TubeName,
    protocol::{Command, Effect, Response, ServerWait, command::line_command},
};

/// `reserve`: takes a job from the watched tubes, however long that takes.
///
/// The server may hold the reply back for ever, so it has no deadline, and a server that has fallen silent goes
/// unnoticed. `reserve` of a client asks in slices instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve;

line_command! {
    Reserve = "reserve", |self| [] -> Reserved {
        Response::Reserved(job) => Ok(Reserved::Job(job)),
        Response::TimedOut => Ok(Reserved::TimedOut),
        Response::DeadlineSoon => Ok(Reserved::DeadlineSoon),
    }
    effect: Effect::Reserve, wait: ServerWait::Forever,
}

/// `reserve-with-timeout <seconds>`: takes a job from the watched tubes, or none within the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveWithTimeout(Seconds);

impl ReserveWithTimeout {
    /// The longest timeout, in seconds. Servers up to 1.12 treat a larger one as infinite, and 1.13 refuses it.
    pub const MAX_SECONDS: u32 = i32::MAX as u32;

    /// A reserve that waits at most `timeout`, rounded up to whole seconds; zero looks once.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the timeout is over 2147483647 s.
    pub fn new(timeout: Duration) -> Result<Self, Error> {
        Seconds::round_up("reserve timeout", timeout, Self::MAX_SECONDS).map(ReserveWithTimeout)
    }
}

line_command! {
    ReserveWithTimeout = "reserve-with-timeout", |self| [self.0.get()] -> Reserved {
        Response::Reserved(job) => Ok(Reserved::Job(job)),
        Response::TimedOut => Ok(Reserved::TimedOut),
        Response::DeadlineSoon => Ok(Reserved::DeadlineSoon),
    }
    effect: Effect::Reserve, wait: ServerWait::AtMost(self.0.into()),
}

/// `reserve-job <id>` (server 1.12 and later): takes one given job, ready, delayed or buried, from any tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveJob(pub JobId);

line_command! {
    ReserveJob = "reserve-job", |self| [self.0.get()] -> Option<Job> {
        Response::Reserved(job) if job.id == self.0 => Ok(Some(job)),
        Response::Reserved(other) => Err(about_another("job", self.0, other.id)),
        Response::NotFound => Ok(None),
        // Old servers read it as `reserve` followed by garbage.
        Response::BadFormat | Response::UnknownCommand => Err(Error::refused(
            ErrorKind::Unsupported,
            "the server does not support this command: it needs beanstalkd 1.12 or later",
        )),
    }
    effect: Effect::ReserveJob,
}

/// `delete <id>`: removes a job that is ready, delayed, buried, or reserved by this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete(JobRef);

impl Delete {
    /// A delete of this job.
    pub fn new(job: impl Into<JobRef>) -> Self {
        Delete(job.into())
    }
}

line_command! {
    Delete = "delete", |self| [self.0.id.get()] -> () {
        Response::Deleted => Ok(()),
    }
    job: self.0,
}

/// `release <id> <pri> <delay>`: gives a reserved job back to its tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    job: JobRef,
    priority: Priority,
    delay: Seconds,
}

impl Release {
    /// A release of this job.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the delay is over `u32::MAX` seconds.
    pub fn new(job: impl Into<JobRef>, options: ReleaseOptions) -> Result<Self, Error> {
        let (priority, delay) = options.checked()?;
        Ok(Release { job: job.into(), priority, delay })
    }
}

line_command! {
    Release = "release",
    |self| [self.job.id.get(), self.priority.get(), self.delay.get()] -> Released {
        Response::Released => Ok(Released::Queued),
        Response::Buried(_) => Ok(Released::Buried),
    }
    job: self.job,
}

/// `bury <id> <pri>`: sets a reserved job aside until it is kicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bury {
    job: JobRef,
    priority: Priority,
}

impl Bury {
    /// A bury of this job, with the priority it will have when it is kicked.
    pub fn new(job: impl Into<JobRef>, priority: impl Into<Priority>) -> Self {
        Bury { job: job.into(), priority: priority.into() }
    }
}

line_command! {
    Bury = "bury", |self| [self.job.id.get(), self.priority.get()] -> () {
        Response::Buried(_) => Ok(()),
    }
    job: self.job,
}

/// `touch <id>`: starts a reserved job's time to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch(JobRef);

impl Touch {
    /// A touch of this job.
    pub fn new(job: impl Into<JobRef>) -> Self {
        Touch(job.into())
    }
}

line_command! {
    Touch = "touch", |self| [self.0.id.get()] -> () {
        Response::Touched => Ok(()),
    }
    job: self.0, effect: Effect::Touch,
}

/// `watch <tube>`: adds a tube to the watch list; the reply is the size of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch(pub TubeName);

line_command! {
    Watch = "watch", |self| [self.0] -> u64 {
        Response::Watching(count) => Ok(count),
    }
    effect: Effect::Watch(self.0.clone()),
}

/// `ignore <tube>`: removes a tube from the watch list; the reply is the size of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignore(pub TubeName);

line_command! {
    Ignore = "ignore", |self| [self.0] -> u64 {
        Response::Watching(count) => Ok(count),
    }
    effect: Effect::Ignore(self.0.clone()),
}
