//! Putting many jobs: `use` and `put` in one pipeline, each put confirmed by the server.

use std::time::Duration;

use beanstalk_client::protocol::{Command, Delete, Effect, Put, Response, Stats, Use};
use beanstalk_client::{Error, Inserted, JobId, JobRef, PutOptions, TubeName};
use bytes::BytesMut;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::settle;
use ctl_core::output::messages::Messages;
use ctl_core::text::units;

use crate::error::{UNKNOWN_COMMAND, cli_error};
use crate::link::Link;

/// A job to put.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The target tube.
    pub tube: TubeName,
    /// Priority, delay and time to run.
    pub options: PutOptions,
    /// Whether it is delayed, for the report.
    pub delayed: bool,
    /// The body.
    pub body: Vec<u8>,
    /// How messages refer to it, such as `stdin record 7`.
    pub label: String,
}

/// The defaults for every job, unless its record overrides them.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The target tube.
    pub tube: TubeName,
    /// 0 is the most urgent.
    pub pri: u32,
    /// How long it stays delayed.
    pub delay: Duration,
    /// How long a worker may hold it.
    pub ttr: Duration,
}

impl Defaults {
    /// A job with this body.
    pub fn job(&self, body: Vec<u8>, label: String) -> NewJob {
        let options = PutOptions::default().priority(self.pri).delay(self.delay).ttr(self.ttr);
        NewJob { tube: self.tube.clone(), options, delayed: !self.delay.is_zero(), body, label }
    }
}

/// The largest body that the server accepts. If the server does not report it, the largest that any beanstalkd can be
/// configured to accept; the server itself then refuses what is too large.
///
/// # Errors
/// The failure of the connection.
pub fn max_job_size(link: &mut Link) -> Result<u64, CliError> {
    // A server that does not answer at all is not one that does not report it.
    link.client()?;
    let limit = match link.call(Stats) {
        Ok(stats) => stats.max_job_size,
        Err(error) if error.exit == Exit::Timeout || error.code == UNKNOWN_COMMAND => 0,
        Err(error) => return Err(error),
    };
    Ok(if limit == 0 { LARGEST } else { limit })
}

/// The largest `max-job-size` that beanstalkd accepts.
const LARGEST: u64 = 1 << 30;

/// Refuses a body that is larger than the server accepts.
///
/// # Errors
/// Exit 65.
pub fn check_size(job: &NewJob, limit: u64) -> Result<(), CliError> {
    let length = job.body.len() as u64;
    if length <= limit {
        return Ok(());
    }
    let why = format!("body of {length} bytes is larger than the server's max-job-size of {limit}");
    Err(CliError::new(Exit::BadData, "JOB_TOO_BIG", why).hint("beanstalkd -z sets max-job-size"))
}

/// Puts a batch of jobs and passes the outcome of each to `report`, in order. Changes the used tube.
///
/// If the server refuses to use a tube, the puts behind it reach the tube before: these jobs are deleted again.
///
/// # Errors
/// The failure of `report`.
pub fn put_batch(
    link: &mut Link,
    jobs: &[NewJob],
    mut report: impl FnMut(&NewJob, Result<Inserted, CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut used = match link.client() {
        Ok(client) => client.used_tube().clone(),
        Err(error) => return settle(jobs, [Err(error)], report),
    };
    let mut steps = Vec::with_capacity(jobs.len() + 1);
    for job in jobs {
        if job.tube != used {
            steps.push(Step::Use(Use(job.tube.clone())));
            used = job.tube.clone();
        }
        steps.push(Step::Put(Put::new(job.body.as_slice(), job.options).map_err(cli_error)?));
    }
    let is_put: Vec<bool> = steps.iter().map(|step| matches!(step, Step::Put(_))).collect();
    let mut jobs = jobs.iter();
    let (mut refusal, mut astray): (Option<CliError>, Vec<JobId>) = (None, Vec::new());
    let mut answers = is_put.into_iter().zip(link.pipeline(steps)?);
    let reported = answers.try_for_each(|(is_put, reply)| {
        if !is_put {
            refusal = reply.err().filter(|error| !error.ends_everything());
            return Ok(());
        }
        let Some(job) = jobs.next() else { return Ok(()) };
        // A put is answered with an id; nothing else decodes.
        let unanswered = || CliError::internal("unanswered put");
        let put = reply.and_then(|inserted| inserted.ok_or_else(unanswered));
        match (&refusal, put) {
            (Some(CliError { exit, code, message, .. }), Ok(inserted)) => {
                astray.push(inserted.id());
                report(job, Err(CliError::new(*exit, code, message.as_str())))
            }
            (_, put) => report(job, put.map_err(|error| error.about("TUBE", &job.tube))),
        }
    });
    drop(answers);
    take_back(link, &astray)?;
    reported.and_then(|()| settle(jobs, [], report))
}

/// Deletes new jobs that are in a tube where they do not belong.
fn take_back(link: &mut Link, jobs: &[JobId]) -> Result<(), CliError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let messages = link.dialer.messages().clone();
    let replies = link.pipeline(jobs.iter().map(|id| Delete::new(*id)))?;
    for (id, reply) in jobs.iter().zip(replies) {
        if let Err(error) = reply {
            let why = error.message;
            messages.warn(format!("job {id} is in a wrong tube and cannot be deleted: {why}"));
        }
    }
    Ok(())
}

/// Warns about new jobs that the server buried for lack of memory, and returns how the command ends then.
pub fn after_refusals(messages: &Messages, refused: u64, exit: Exit) -> Exit {
    if refused == 0 {
        return exit;
    }
    messages.warn(format!(
        "the server was out of memory and buried {}: use kick to make them ready",
        units::count(refused, "new job")
    ));
    if exit.is_done() { Exit::TryAgain } else { exit }
}

/// An element of the pipeline.
enum Step<'a> {
    Use(Use),
    Put(Put<&'a [u8]>),
}

impl Command for Step<'_> {
    type Reply = Option<Inserted>;
    const NAME: &'static str = "put";

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Use(command) => command.encode(out),
            Self::Put(command) => command.encode(out),
        }
    }

    fn decode(&self, response: Response) -> Result<Self::Reply, Error> {
        match self {
            Self::Use(command) => command.decode(response).map(|_| None),
            Self::Put(command) => command.decode(response).map(Some),
        }
    }

    fn effect(&self) -> Effect {
        match self {
            Self::Use(command) => command.effect(),
            Self::Put(command) => command.effect(),
        }
    }

    fn job(&self) -> Option<JobRef> {
        None
    }
}
