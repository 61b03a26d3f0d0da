//! Determines which jobs clients wait for.

use std::collections::HashMap;

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::text::units;
use gearman_client::protocol::{AdminCommand, Assignment, GetStatusUnique};
use gearman_client::{JobInfo, UniqueId, UniqueJob};

use crate::error::cli_error;
use crate::link::{Answer, Link, PROBE};

/// Refuses to continue if clients wait for queued jobs. The server does not report the function of a job.
///
/// # Errors
/// There are such jobs, or the server cannot report this: exit 1. The failure of the connection.
pub(super) fn refuse(link: &mut Link) -> Result<(), CliError> {
    let waiting = count(link)?;
    if waiting == 0 {
        return Ok(());
    }
    let jobs = units::count(waiting, "queued job");
    Err(refusal(format!(
        "clients wait for {jobs} of this server, which does not report their functions"
    )))
}

/// The stable name for a drain that would lose a client's result.
const CLIENTS_WAITING: &str = "CLIENTS_WAITING";

/// The error for jobs that clients wait for.
pub(super) fn refusal(why: String) -> CliError {
    CliError::new(Exit::Negative, CLIENTS_WAITING, why).hint("--background-only, to skip such jobs")
}

/// Adds to an error about waiting clients what the command has for them.
pub(super) fn advised(error: CliError, next: &str) -> CliError {
    if error.code == CLIENTS_WAITING { error.hint(next) } else { error }
}

/// Number of queued jobs that clients wait for.
fn count(link: &mut Link) -> Result<u64, CliError> {
    let jobs = link.probe_listing::<UniqueJob>(&AdminCommand::ShowUniqueJobs)?;
    let jobs = reported("show unique jobs", jobs)?;
    let ids: Vec<UniqueId> =
        jobs.iter().filter_map(|job| UniqueId::try_from(&job.unique[..]).ok()).collect();
    let without_id = jobs.len().saturating_sub(ids.len());
    let (mut queued, mut all) = (0_u64, 0_usize);
    for status in link.client()?.call_many(ids.into_iter().map(GetStatusUnique)) {
        let status = status.map_err(cli_error)?;
        if status.waiting.unwrap_or(0) > 0 {
            all += 1;
            queued += u64::from(!status.is_running);
        }
    }
    if without_id == 0 {
        return Ok(queued);
    }
    // Of these, the server reports only whether they are foreground jobs, not whether they are running.
    let foreground = kinds(link)?;
    let foreground = foreground.values().filter(|background| !**background).count();
    let others = foreground.saturating_sub(all).min(without_id);
    Ok(queued + u64::try_from(others).unwrap_or(u64::MAX))
}

/// What the server reports about which jobs clients wait for; an error if it does not.
fn reported<T>(command: &str, answer: Answer<T>) -> Result<T, CliError> {
    let why = match answer {
        Answer::Came(answer) => return Ok(answer),
        Answer::Silent(_) => format!("the server does not answer `{command}`"),
        Answer::Unsupported(_) => format!("the server has no `{command}`"),
    };
    let text = format!("{why}, so it cannot report which jobs clients wait for");
    Err(CliError::new(Exit::Negative, CLIENTS_WAITING, text))
}

/// Refuses `--background-only`, before taking any job, if the server cannot report whether clients wait for a job.
///
/// # Errors
/// The server cannot report this: exit 1. The failure of the connection.
pub(super) fn require_lookout(link: &mut Link) -> Result<(), CliError> {
    let mut link = link.sibling();
    link.dialer.default_timeout(PROBE);
    let unused = UniqueId::of_payload(b"gearctl drain --background-only");
    reported(GET_STATUS_UNIQUE, is_waited_for(&mut link, unused)?).map(drop)
}

const GET_STATUS_UNIQUE: &str = "GET_STATUS_UNIQUE";

/// Whether clients wait for the job with this id.
fn is_waited_for(link: &mut Link, id: UniqueId) -> Result<Answer<bool>, CliError> {
    let status = link.call(&GetStatusUnique(id));
    Answer::of(status.map(|status| status.waiting.unwrap_or(0) > 0))
}

/// Which jobs are background jobs, by handle, as far as queried.
type Kinds = HashMap<Vec<u8>, bool>;

fn kinds(link: &mut Link) -> Result<Kinds, CliError> {
    let rows = link.probe_listing::<JobInfo>(&AdminCommand::ShowJobs)?;
    let rows = reported("show jobs", rows)?;
    // No client waits for an ignored job.
    let kind = |row: &JobInfo| (row.handle.name().to_vec(), row.is_queued || row.is_ignored);
    Ok(rows.iter().map(kind).collect())
}

/// Queries jobs one by one, over its own connections.
pub(super) struct Lookout {
    link: Link,
    kinds: Kinds,
    /// Whether the server has reported it for a job: if it falls silent later, it is late.
    has_told: bool,
}

impl Lookout {
    pub(super) fn new(link: Link) -> Self {
        Self { link, kinds: Kinds::default(), has_told: false }
    }

    /// Whether clients wait for this job.
    ///
    /// # Errors
    /// The server cannot report this: exit 1. The failure of the connection.
    pub(super) fn is_waited_for(&mut self, job: &Assignment) -> Result<bool, CliError> {
        if let Ok(id) = UniqueId::try_from(&job.unique[..]) {
            let waited_for = match is_waited_for(&mut self.link, id)? {
                Answer::Silent(error) if self.has_told => return Err(error),
                answer => reported(GET_STATUS_UNIQUE, answer)?,
            };
            self.has_told = true;
            return Ok(waited_for);
        }
        if !self.kinds.contains_key(job.handle.name()) {
            self.kinds = kinds(&mut self.link)?;
        }
        Ok(!self.kinds.get(job.handle.name()).copied().unwrap_or(false))
    }
}
