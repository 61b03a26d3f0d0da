//! News of jobs that were submitted.

use ctl_core::error::CliError;
use gearman_client::{FunctionName, JobEvent, JobHandle, UniqueId};

/// An event of a job.
#[derive(Debug)]
pub struct News {
    /// The job's number, counted from 1 in the order of submission.
    pub job: u64,
    /// How messages refer to it.
    pub label: String,
    /// The event.
    pub what: What,
}

/// Something that happened to a job.
#[derive(Debug)]
pub enum What {
    /// The server has accepted it, as a job of this function.
    Taken(JobHandle, Option<UniqueId>, FunctionName),
    /// It runs, or has ended.
    Event(JobEvent),
    /// It could not be submitted, or its fate is unknown.
    Error(CliError),
}

impl News {
    /// Whether this is the last event of the job.
    pub fn is_last(&self) -> bool {
        match &self.what {
            What::Taken(..) => false,
            What::Event(event) => event.is_last(),
            What::Error(_) => true,
        }
    }

    /// Number of bytes of the job that it carries.
    pub fn size(&self) -> usize {
        match &self.what {
            What::Event(
                JobEvent::Data(bytes)
                | JobEvent::Warning(bytes)
                | JobEvent::Complete(bytes)
                | JobEvent::Exception(bytes),
            ) => bytes.len(),
            _ => 0,
        }
    }
}
