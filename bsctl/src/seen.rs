//! Jobs as the server shows them, including those whose body it lost in a crash: these can be finished, and must not
//! block others.

use beanstalk_client::protocol::{AnyCommand, Command, Response};
use beanstalk_client::{Job, JobRef};
use bytes::Bytes;
use ctl_core::error::CliError;

use crate::error::cli_error;
use crate::link::Link;

/// A job that was peeked at or reserved.
pub enum Seen {
    /// As it was put.
    Whole(Job),
    /// The server lost the end of its body, and has this.
    Damaged(JobRef, Bytes),
}

impl Seen {
    /// The answer to `command`; none if there is no such job.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn of<C>(command: &C, response: Response) -> Result<Option<Self>, CliError>
    where
        C: Command<Reply = Option<Job>>,
    {
        match response {
            Response::BodyDamaged { job, body } => Ok(Some(Self::Damaged(job, body))),
            whole => Ok(command.decode(whole).map_err(cli_error)?.map(Self::Whole)),
        }
    }

    /// Asks for a job.
    ///
    /// # Errors
    /// The server's refusal, or the failure of the connection.
    pub fn ask<C>(link: &mut Link, command: &C) -> Result<Option<Self>, CliError>
    where
        C: Command<Reply = Option<Job>>,
    {
        let response = link.call(AnyCommand::new(command))?;
        Self::of(command, response)
    }

    /// The job's id, and the connection that holds it.
    pub fn job(&self) -> JobRef {
        match self {
            Self::Whole(job) => job.into(),
            Self::Damaged(job, _) => *job,
        }
    }

    /// The body, as far as the server has it.
    pub fn body(&self) -> &Bytes {
        match self {
            Self::Whole(job) => &job.body,
            Self::Damaged(_, body) => body,
        }
    }
}

/// The error for a job whose body the server lost.
pub fn damaged(job: JobRef) -> CliError {
    cli_error(Response::BodyDamaged { job, body: Bytes::new() }.refuse())
}
