//! Jobs that the server has merged, by their unique id, with one that it had already, and perhaps skips.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::output::messages::Messages;
use ctl_core::repl::guest::lock;
use ctl_core::system::at_once::at_once;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, JobHandle, JobInfo, JobStatus, UniqueId};

use crate::link::{Answer, LOOK, Link, status_of};
use crate::names::{show_function, show_handle, show_unique};

/// Submissions with an id chosen by the user or a record.
#[derive(Debug, Clone, Copy)]
pub struct Submitted<'a> {
    /// The id.
    pub id: UniqueId,
    /// The function.
    pub function: &'a FunctionName,
    /// The handle in its record, of the job that the record is from.
    pub former: Option<&'a str>,
}

/// The fate of a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is a new one, or merged with a running one.
    Runs,
    /// It is merged with a background job that is still queued.
    Joins,
    /// It is merged with a job that a client waits for: if that leaves first, the server skips both.
    Depends,
    /// It is merged with a job that never runs.
    Skipped,
    /// The server does not say.
    Unknown,
}

/// Tells what becomes of jobs with chosen ids, over its own connections. It is asked before each submission and
/// after it; threads share it.
#[derive(Clone)]
pub struct Guard {
    servers: Arc<Mutex<Vec<Server>>>,
    messages: Messages,
    hint: String,
}

struct Server {
    address: String,
    link: Link,
    seen: Seen,
}

/// The state of a server before a submission.
enum Seen {
    /// Nothing is known yet.
    Nothing,
    /// Its jobs.
    Jobs { jobs: HashMap<Vec<u8>, JobInfo>, until: Instant },
    /// It does not list its jobs: number of those of the function that were queued.
    Queued(Option<u32>),
    /// It did not answer.
    Silent,
}

/// How long a list of jobs is used at least; and how many times as long as it took.
const USED: (Duration, u32) = (Duration::from_secs(1), 20);

impl Guard {
    /// For the servers of this link that jobs go to.
    ///
    /// # Errors
    /// An address is wrong: exit 2.
    pub fn new(link: &mut Link, messages: &Messages) -> Result<Self, CliError> {
        let mut each = link.each()?;
        let is_several = each.len() > 1;
        each.retain(|(address, _)| !link.is_useless(address));
        let server = |(address, mut link): (String, Link)| {
            if is_several {
                link.dialer.bound(Some(LOOK));
            }
            Server { address, link, seen: Seen::Nothing }
        };
        let servers = Arc::new(Mutex::new(each.into_iter().map(server).collect()));
        Ok(Self { servers, messages: messages.clone(), hint: "another id".to_owned() })
    }

    /// Advises this about a job that never runs.
    pub fn advising(self, hint: String) -> Self {
        Self { hint, ..self }
    }

    /// Looks at the jobs of the servers, before this one is submitted.
    pub fn before(&self, job: Submitted<'_>) {
        let mut servers = lock(&self.servers);
        match servers.as_mut_slice() {
            [only] => only.look(job.function),
            all => drop(at_once(all, |server| server.look(job.function))),
        }
    }

    /// Refuses a job whose client waits, if it would be merged with a queued one that no client waits for: that is
    /// skipped if this client leaves first. A server does not say whether it is of the same function.
    ///
    /// # Errors
    /// There is such a job: exit 1.
    pub fn require_free(&self, job: Submitted<'_>) -> Result<(), CliError> {
        self.before(job);
        let mut servers = lock(&self.servers);
        // Those that list their jobs answer this, too.
        let joins = |server: &mut Server| {
            let status = server.link.client().ok()?.status_unique(job.id).ok()?;
            let is_alone = status.is_known && !status.is_running && status.waiting == Some(0);
            Some(is_alone && server.queued(job.function)? > 0)
        };
        let mut listing =
            servers.iter_mut().filter(|server| matches!(server.seen, Seen::Jobs { .. }));
        if !listing.any(|server| joins(server).unwrap_or(false)) {
            return Ok(());
        }
        let id = show_unique(&job.id);
        let text = format!(
            "a job with the id {id} is queued, and no client waits for it: if this command ended first, the server would skip it"
        );
        Err(CliError::new(Exit::Negative, "JOB_QUEUED", text).hint("another id"))
    }

    /// The fate of the job that the server has returned.
    pub fn after(&self, job: Submitted<'_>, handle: &JobHandle) -> Fate {
        let at = handle.server().map(ToString::to_string);
        let mut servers = lock(&self.servers);
        let server = match servers.as_mut_slice() {
            [only] => Some(only),
            all => all.iter_mut().find(|server| Some(&server.address) == at.as_ref()),
        };
        server.map_or(Fate::Unknown, |server| server.fate(job, handle))
    }

    /// Reports what a client that is about to wait, or to go, should know.
    ///
    /// # Errors
    /// The job never runs: exit 1.
    pub fn report(
        &self,
        job: Submitted<'_>,
        handle: &JobHandle,
        waits: bool,
    ) -> Result<(), CliError> {
        let id = show_unique(&job.id);
        match self.after(job, handle) {
            Fate::Skipped => return Err(self.skipped(job, handle)),
            Fate::Depends if !waits => {
                return Err(CliError::new(Exit::Negative, SKIPPED, depends(job, handle))
                    .hint(self.hint.as_str()));
            }
            Fate::Joins if waits => self.messages.warn(format!(
                "a job with the id {id} is queued already, and this one is merged with it: if this command ends before the job does, the server skips the job"
            )),
            Fate::Unknown => self.messages.warn(format!(
                "{}: it has perhaps merged this one, by the id {id}, with a job that it does not run again",
                unsaid(handle)
            )),
            _ => {}
        }
        Ok(())
    }

    /// Checks that a copy of a job will run, whatever other clients do.
    ///
    /// # Errors
    /// It will not, or that is not known: exit 1.
    pub fn require(&self, job: Submitted<'_>, handle: &JobHandle) -> Result<(), CliError> {
        let id = show_unique(&job.id);
        let why = match self.after(job, handle) {
            Fate::Runs | Fate::Joins => return Ok(()),
            Fate::Skipped => return Err(self.skipped(job, handle)),
            Fate::Depends => depends(job, handle),
            Fate::Unknown => format!(
                "{}: it has perhaps merged the copy, by the id {id}, with a job that it does not run again",
                unsaid(handle)
            ),
        };
        Err(CliError::new(Exit::Negative, SKIPPED, why).hint(format!(
            "gearctl drain {} --to FILE, and import its records with other ids",
            show_function(job.function)
        )))
    }

    fn skipped(&self, job: Submitted<'_>, handle: &JobHandle) -> CliError {
        let (handle, id) = (show_handle(handle), show_unique(&job.id));
        let text = format!(
            "the job {handle} will not run: the server has merged it, by the id {id}, with one that its client has left, or that has ended"
        );
        CliError::new(Exit::Negative, SKIPPED, text).hint(self.hint.as_str())
    }
}

/// The stable name for a job that never runs.
const SKIPPED: &str = "JOB_SKIPPED";

fn depends(job: Submitted<'_>, handle: &JobHandle) -> String {
    let (handle, id) = (show_handle(handle), show_unique(&job.id));
    format!(
        "a client waits for the job {handle}, with which the server has merged this one by the id {id}: if the client leaves before the job runs, the server skips it"
    )
}

fn unsaid(handle: &JobHandle) -> String {
    format!("the server does not say whether it will run the job {}", show_handle(handle))
}

/// The notice for a user who stopped waiting for the job.
pub fn afterwards(id: &UniqueId) -> String {
    let id = show_unique(id);
    format!(
        "unless another client waits for it, the server skips the job, and every other one with the id {id}, until a worker asks for work"
    )
}

impl Server {
    fn look(&mut self, function: &FunctionName) {
        let start = Instant::now();
        let listed = match &self.seen {
            Seen::Silent => return,
            Seen::Jobs { until, .. } if start < *until => return,
            Seen::Nothing | Seen::Jobs { .. } => {
                self.link.probe_listing::<JobInfo>(&AdminCommand::ShowJobs).map(Answer::came)
            }
            Seen::Queued(_) => Ok(None),
        };
        self.seen = match listed {
            Ok(Some(jobs)) => {
                let jobs = jobs.into_iter().map(|job| (job.handle.name().to_vec(), job)).collect();
                let used = USED.0.max(start.elapsed() * USED.1);
                Seen::Jobs { jobs, until: Instant::now() + used }
            }
            Ok(None) => Seen::Queued(self.queued(function)),
            Err(_) => Seen::Silent,
        };
    }

    /// Number of queued jobs of the function; none if the server does not answer.
    fn queued(&mut self, function: &FunctionName) -> Option<u32> {
        let status = status_of(&mut self.link, function).ok()?;
        Some(status.map_or(0, |status| u32::try_from(status.queued()).unwrap_or(0)))
    }

    /// The server's knowledge about a job: none if it does not answer.
    fn status(&mut self, handle: &JobHandle) -> Option<JobStatus> {
        let bare = JobHandle::try_from(handle.name()).ok()?;
        self.link.client().ok()?.status(&bare).ok()
    }

    fn fate(&mut self, job: Submitted<'_>, handle: &JobHandle) -> Fate {
        let before = match &self.seen {
            Seen::Jobs { jobs, .. } => {
                let old = jobs.get(handle.name()).map(|job| (job.is_ignored, job.is_queued));
                let Some((is_ignored, is_background)) = old else { return Fate::Runs };
                return match self.status(handle) {
                    Some(status) if status.is_running => Fate::Runs,
                    _ if is_ignored => Fate::Skipped,
                    _ if is_background => Fate::Joins,
                    _ => Fate::Depends,
                };
            }
            Seen::Queued(before) => *before,
            Seen::Nothing | Seen::Silent => return Fate::Unknown,
        };
        let Some(before) = before else { return Fate::Unknown };
        // A worker may take the job at any time, so that it is not counted any more: asked again, it is not idle.
        let is_idle = |status: &JobStatus| status.is_known && !status.is_running;
        let first = self.status(handle);
        if first.as_ref().is_some_and(|status| !is_idle(status)) {
            return Fate::Runs;
        }
        // Rustygeard keeps jobs that have failed, and does not run them again.
        if first.is_some() && job.former == Some(&*show_handle(handle)) {
            return Fate::Skipped;
        }
        match (self.queued(job.function), self.status(handle)) {
            (Some(after), _) if after > before => Fate::Runs,
            (_, Some(status)) if !is_idle(&status) => Fate::Runs,
            (Some(0), Some(_)) => Fate::Skipped,
            _ => Fate::Unknown,
        }
    }
}
