//! The consumer's commands: reserving jobs, settling them, and the watch list.

use std::time::Duration;

use bytes::BytesMut;

use super::admin::about_another;
use crate::{
    Error, ErrorKind, Job, JobId, JobRef, Priority, ReleaseOptions, Released, Reserved, Seconds,
    TubeName,
    protocol::{Command, Effect, Response, ServerWait, command::line},
};

/// `reserve`: takes a job from the watched tubes, however long that takes.
///
/// The server may hold the reply back for ever, so it has no deadline, and a server that has fallen silent goes
/// unnoticed. `reserve` of a client asks in slices instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve;

impl Command for Reserve {
    type Reply = Reserved;
    const NAME: &'static str = "reserve";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<Reserved, Error> {
        reserved(response)
    }

    fn effect(&self) -> Effect {
        Effect::Reserve
    }

    fn server_wait(&self) -> ServerWait {
        ServerWait::Forever
    }
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

impl Command for ReserveWithTimeout {
    type Reply = Reserved;
    const NAME: &'static str = "reserve-with-timeout";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.get()]);
    }

    fn decode(&self, response: Response) -> Result<Reserved, Error> {
        reserved(response)
    }

    fn effect(&self) -> Effect {
        Effect::Reserve
    }

    fn server_wait(&self) -> ServerWait {
        ServerWait::AtMost(self.0.into())
    }
}

fn reserved(response: Response) -> Result<Reserved, Error> {
    match response {
        Response::Reserved(job) => Ok(Reserved::Job(job)),
        Response::TimedOut => Ok(Reserved::TimedOut),
        Response::DeadlineSoon => Ok(Reserved::DeadlineSoon),
        other => Err(other.refuse()),
    }
}

/// `reserve-job <id>` (server 1.12 and later): takes one given job, ready, delayed or buried, from any tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveJob(pub JobId);

impl Command for ReserveJob {
    type Reply = Option<Job>;
    const NAME: &'static str = "reserve-job";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.get()]);
    }

    fn decode(&self, response: Response) -> Result<Option<Job>, Error> {
        match response {
            Response::Reserved(job) if job.id == self.0 => Ok(Some(job)),
            Response::Reserved(other) => Err(about_another("job", self.0, other.id)),
            Response::NotFound => Ok(None),
            // Old servers read it as `reserve` followed by garbage.
            Response::BadFormat | Response::UnknownCommand => Err(Error::refused(
                ErrorKind::Unsupported,
                "the server does not support this command: it needs beanstalkd 1.12 or later",
            )),
            other => Err(other.refuse()),
        }
    }

    fn effect(&self) -> Effect {
        Effect::ReserveJob
    }
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

impl Command for Delete {
    type Reply = ();
    const NAME: &'static str = "delete";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.id.get()]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Deleted => Ok(()),
            other => Err(other.refuse()),
        }
    }

    fn job(&self) -> Option<JobRef> {
        Some(self.0)
    }
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

impl Command for Release {
    type Reply = Released;
    const NAME: &'static str = "release";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.job.id.get(), &self.priority.get(), &self.delay.get()]);
    }

    fn decode(&self, response: Response) -> Result<Released, Error> {
        match response {
            Response::Released => Ok(Released::Queued),
            Response::Buried(_) => Ok(Released::Buried),
            other => Err(other.refuse()),
        }
    }

    fn job(&self) -> Option<JobRef> {
        Some(self.job)
    }
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

impl Command for Bury {
    type Reply = ();
    const NAME: &'static str = "bury";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.job.id.get(), &self.priority.get()]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Buried(_) => Ok(()),
            other => Err(other.refuse()),
        }
    }

    fn job(&self) -> Option<JobRef> {
        Some(self.job)
    }
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

impl Command for Touch {
    type Reply = ();
    const NAME: &'static str = "touch";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.id.get()]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Touched => Ok(()),
            other => Err(other.refuse()),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Touch
    }

    fn job(&self) -> Option<JobRef> {
        Some(self.0)
    }
}

/// `watch <tube>`: adds a tube to the watch list; the reply is the size of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch(pub TubeName);

impl Command for Watch {
    type Reply = u64;
    const NAME: &'static str = "watch";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0]);
    }

    fn decode(&self, response: Response) -> Result<u64, Error> {
        watching(response)
    }

    fn effect(&self) -> Effect {
        Effect::Watch(self.0.clone())
    }
}

/// `ignore <tube>`: removes a tube from the watch list; the reply is the size of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignore(pub TubeName);

impl Command for Ignore {
    type Reply = u64;
    const NAME: &'static str = "ignore";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0]);
    }

    fn decode(&self, response: Response) -> Result<u64, Error> {
        watching(response)
    }

    fn effect(&self) -> Effect {
        Effect::Ignore(self.0.clone())
    }
}

fn watching(response: Response) -> Result<u64, Error> {
    match response {
        Response::Watching(count) => Ok(count),
        other => Err(other.refuse()),
    }
}
