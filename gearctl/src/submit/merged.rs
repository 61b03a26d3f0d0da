//! Jobs that never run, because the server has merged them, by their unique id, with one that it skips.

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::link::fleet::Fleet;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, JobHandle, JobInfo, JobStatus, UniqueId};

use crate::commands::functions::status_of;
use crate::error::cli_error;
use crate::link::{Answer, LOOK, Link};
use crate::names::{show_function, show_handle, show_unique};
use crate::tool::Tool;

/// A job of an id that the user has chosen, with which another one may have to be merged.
pub struct Chosen {
    id: UniqueId,
    function: FunctionName,
    /// Whether a job of this id is queued, and nobody waits for it; none if the server does not say.
    is_queued: Option<bool>,
}

impl Chosen {
    /// Looks at the job with this id, for a short time: not every server answers.
    pub fn look(tool: &mut Tool, id: UniqueId, function: FunctionName) -> Self {
        let mut link = tool.link.sibling();
        link.dialer.bound(Some(LOOK));
        let status = link.client().and_then(|client| client.status_unique(id).map_err(cli_error));
        let is_queued =
            |status: JobStatus| status.is_known && !status.is_running && status.waiting == Some(0);
        Self { id, function, is_queued: status.ok().map(is_queued) }
    }

    /// What somebody should know who is about to wait for the job.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let id = show_unique(&self.id);
        (self.is_queued == Some(true)).then(|| {
            format!(
                "a job with the id {id} is queued already, and this one is merged with it: if run ends before the job does, the server skips the job"
            )
        })
    }

    /// What somebody should know who has stopped waiting for the job.
    #[must_use]
    pub fn afterwards(&self) -> String {
        let id = show_unique(&self.id);
        format!(
            "(unless another client waits for it, the server skips the job, and every other one with the id {id}, until a worker asks for work)"
        )
    }

    /// Whether a submission has to be checked.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.is_queued != Some(false)
    }

    /// Checks the job that the server has returned for this id.
    ///
    /// # Errors
    /// It will not run: exit 1.
    pub fn check(&self, tool: &mut Tool, handle: &JobHandle) -> Result<(), CliError> {
        let (mut fleet, function) = (Fleet::of(tool)?, &self.function);
        let at = handle.server().map(ToString::to_string).unwrap_or_default();
        let asked = fleet.ask_at(&mut tool.link, &at, |link| is_skipped(link, handle, function));
        // The job itself was accepted.
        let Ok((_, true)) = asked else { return Ok(()) };
        let (handle, id) = (show_handle(handle), show_unique(&self.id));
        let text = format!(
            "the job {handle} will not run: the server has merged it, by the id {id}, with one that its client has left, or that has ended"
        );
        let worker = format!("the same id, once a worker of {} has", show_function(function));
        Err(CliError::new(Exit::Negative, "JOB_SKIPPED", text)
            .hint("another id")
            .hint(format!("{worker} asked for work")))
    }
}

/// Whether the server skips this job.
fn is_skipped(
    link: &mut Link,
    handle: &JobHandle,
    function: &FunctionName,
) -> Result<bool, CliError> {
    if let Answer::Came(jobs) = link.probe_listing::<JobInfo>(&AdminCommand::ShowJobs)? {
        let is_it = |job: &&JobInfo| job.handle.name() == handle.name();
        return Ok(jobs.iter().find(is_it).is_some_and(|job| job.is_ignored));
    }
    Ok(is_idle(link, handle)?
        && status_of(link, function)?.is_none_or(|status| status.queued() == 0))
}

/// Whether a server other than gearmand has merged a job with the one of this handle, which has failed: rustygeard
/// keeps such jobs, and does not run them again.
///
/// # Errors
/// The failure of the connection.
pub fn is_of_dead(link: &mut Link, handle: &JobHandle) -> Result<bool, CliError> {
    link.client()?;
    Ok(!link.is_gearmand()? && is_idle(link, handle)?)
}

/// Whether the server knows the job, and it is not running.
fn is_idle(link: &mut Link, handle: &JobHandle) -> Result<bool, CliError> {
    let bare = JobHandle::try_from(handle.name()).map_err(cli_error)?;
    let status = link.client()?.status(&bare).map_err(cli_error)?;
    Ok(status.is_known && !status.is_running)
}

/// The error for a record whose job was merged with the one that it is from.
#[must_use]
pub fn merged_with_dead(handle: &JobHandle) -> CliError {
    let text = format!(
        "the server has merged it, by its id, with the job {} that the record is from, which it does not run again",
        show_handle(handle)
    );
    CliError::new(Exit::Negative, "JOB_SKIPPED", text).hint(
        "jq -c 'del(.unique, .unique_base64)' FILE | gearctl import -, to submit the jobs with new ids",
    )
}
