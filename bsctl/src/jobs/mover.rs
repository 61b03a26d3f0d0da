//! Moves jobs from one tube to another: puts them at the target first, and deletes them at the source once the server
//! has confirmed it. So none is lost; one whose fate is unknown may exist twice, and is named.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use beanstalk_client::protocol::Delete;
use beanstalk_client::{Job, JobId, JobRef, JobStats, Priority, TubeName};
use bytes::Bytes;
use clap::Args;
use ctl_core::bulk::Bulk;
use ctl_core::commands::leaving::doubting;
use ctl_core::error::{CliError, Exit};
use ctl_core::text::units;

use crate::error::NOT_FOUND;
use crate::jobs::hidden::{Hidden, bury};
use crate::jobs::leaving::BETWEEN_TOUCHES;
use crate::jobs::sweep::{Way, delete};
use crate::jobs::taker::{stats_of, touch_all};
use crate::link::Link;
use crate::producer::{Defaults, NewJob, check_size, max_job_size, put_batch};

/// Changes to jobs at their target.
#[derive(Debug, Clone, Default, Args)]
pub struct Changes {
    /// New priority [default: unchanged]
    #[arg(short, long, value_name = "N")]
    pub pri: Option<u32>,

    /// New delay [default: what remains of the job's delay]
    #[arg(short, long, value_name = "DUR", value_parser = units::duration)]
    pub delay: Option<Duration>,

    /// New time to run [default: unchanged]
    #[arg(short = 'r', long, value_name = "DUR", value_parser = units::duration)]
    pub ttr: Option<Duration>,
}

/// Puts copies of jobs into a tube.
pub struct Mover {
    /// Its own connection, so that it disturbs nothing at the source.
    to: Link,
    tube: TubeName,
    changes: Changes,
    /// Whether the original jobs stay, too.
    pub keeps: bool,
    /// The body of the copies, if it is another one.
    pub body: Option<Bytes>,
    /// The body of the original, if it was read before: a server that was restarted meanwhile may have another job with
    /// its id.
    pub before: Option<Bytes>,
    /// The copy whose original was deleted last.
    pub replaced: Option<JobId>,
    limit: u64,
    /// The copies of jobs that have not been deleted yet.
    copies: BTreeMap<JobId, JobId>,
    /// Why no more jobs can be put.
    broken: Option<CliError>,
    /// Jobs that may have an unconfirmed copy, or whose deletion is unconfirmed.
    doubtful: Vec<JobId>,
    /// Number of new jobs that the server buried for lack of memory.
    pub refused: u64,
    /// Reserved jobs that stay at the source. Once their time expires, they would be taken again, before all others.
    staying: Vec<JobRef>,
    /// When they were touched.
    touched: Instant,
}

/// The copy of a job, and its priority if it is to be buried.
type Copy = (JobId, NewJob, Option<Priority>);

impl Mover {
    /// Into `tube`, over its own connection.
    ///
    /// # Errors
    /// The server cannot be reached, or jobs may have to be buried there, which the server does not support: exit 76.
    pub fn new(
        mut to: Link,
        tube: TubeName,
        changes: Changes,
        buries: bool,
    ) -> Result<Self, CliError> {
        let limit = max_job_size(&mut to)?;
        if buries && !to.knows_reserve_job()? {
            let why = "the server does not support reserve-job (1.12 or later), which is needed to bury jobs again";
            return Err(CliError::new(Exit::Protocol, "UNSUPPORTED", why)
                .hint("-d 0, to make jobs ready instead")
                .hint("--state ready,delayed"));
        }
        Ok(Self {
            to,
            tube,
            changes,
            keeps: false,
            body: None,
            before: None,
            replaced: None,
            limit,
            copies: BTreeMap::new(),
            broken: None,
            doubtful: Vec::new(),
            refused: 0,
            staying: Vec::new(),
            touched: Instant::now(),
        })
    }

    /// Reports a broken connection, with the jobs that may exist twice.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn check(&mut self) -> Result<(), CliError> {
        let Some(error) = self.broken.take() else { return Ok(()) };
        let doubtful = std::mem::take(&mut self.doubtful);
        Err(doubting(error, "job", &doubtful, &format!("tube {}", self.tube)))
    }

    /// The result of work with it: a failure of the target connection takes precedence.
    ///
    /// # Errors
    /// As [`Mover::check`], or that of the work.
    pub fn ends(&mut self, work: Result<(), CliError>) -> Result<(), CliError> {
        // A copy that is confirmed and whose original is not deleted exists twice.
        if work.is_err() || self.broken.is_some() {
            self.doubtful.extend(std::mem::take(&mut self.copies).into_keys());
        }
        match work {
            Ok(()) => self.check(),
            Err(error) => {
                self.broken.get_or_insert(error);
                self.check()
            }
        }
    }

    /// The copy of a job, and its priority if it is to be buried.
    fn copy(&self, job: &Job, stats: &JobStats) -> (NewJob, Option<Priority>) {
        let state = stats.state.as_str();
        let left = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let pri = self.changes.pri.map_or(stats.pri, Priority::from);
        let bury = (state == "buried" && self.changes.delay.is_none()).then_some(pri);
        let delay = match (bury, state) {
            // The delay of a buried job is only the one that it was put with.
            (Some(_), _) => left(stats.delay),
            (None, "delayed") => self.changes.delay.unwrap_or_else(|| left(stats.time_left)),
            (None, _) => self.changes.delay.unwrap_or_default(),
        };
        let ttr = self.changes.ttr.unwrap_or_else(|| left(stats.ttr));
        let defaults = Defaults { tube: self.tube.clone(), pri: pri.get(), delay, ttr };
        let body = self.body.as_ref().unwrap_or(&job.body).to_vec();
        (defaults.job(body, format!("job {}", job.id)), bury)
    }

    /// While copies are put that must be buried, their tube is paused, so that no worker takes one in between.
    fn put_all(&mut self, copies: Vec<Copy>, bulk: &mut Bulk) -> Result<(), CliError> {
        if copies.iter().all(|(_, _, bury)| bury.is_none()) {
            return self.put_and_bury(copies, bulk);
        }
        let hidden = Hidden::pause(&mut self.to, vec![self.tube.clone()])?;
        let put = self.put_and_bury(copies, bulk);
        // Also after a failure, because workers wait for this tube.
        let ended = hidden.end(&mut self.to);
        put.and(ended)
    }

    /// A copy that cannot be buried is deleted again.
    fn put_and_bury(&mut self, copies: Vec<Copy>, bulk: &mut Bulk) -> Result<(), CliError> {
        let copies = copies.into_iter().map(|(from, job, bury)| ((from, bury), job));
        let (wishes, jobs): (Vec<_>, Vec<_>) = copies.unzip();
        let (mut wishes, mut to_bury) = (wishes.into_iter(), Vec::new());
        put_batch(&mut self.to, &jobs, |job, outcome| {
            let Some((from, wish)) = wishes.next() else { return Ok(()) };
            match outcome {
                Ok(inserted) => {
                    self.copies.insert(from, inserted.id());
                    match wish {
                        // The server was out of memory and has buried it already.
                        Some(pri) if !inserted.is_buried() => {
                            to_bury.push((from, inserted.id(), pri));
                        }
                        Some(_) => {}
                        None => self.refused += u64::from(inserted.is_buried()),
                    }
                }
                Err(error) if error.ends_everything() => {
                    if error.is_unknown() {
                        self.doubtful.push(from);
                    }
                    self.broken.get_or_insert(error);
                }
                Err(error) => bulk.failure(job.label.clone(), error)?,
            }
            Ok(())
        })?;
        for (from, copy, outcome) in bury(&mut self.to, to_bury) {
            let error = match outcome {
                Ok(true) => continue,
                Ok(false) => CliError::not_found("it is gone"),
                Err(error) => error,
            };
            self.unburied(from, copy, error, bulk)?;
        }
        Ok(())
    }

    fn unburied(
        &mut self,
        from: JobId,
        copy: JobId,
        error: CliError,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        self.copies.remove(&from);
        if error.ends_everything() {
            self.doubtful.push(from);
            self.broken.get_or_insert(error);
            return Ok(());
        }
        let error = match self.to.call(Delete::new(copy)) {
            Ok(()) => error,
            Err(_) => error.remark(format!("(its copy, job {copy}, stays)")),
        };
        bulk.failure(format!("job {from}"), error.context("its copy could not be buried"))
    }

    /// The original now belongs to another client, so its copy must not exist, too.
    fn take_back(&mut self, id: JobId, bulk: &mut Bulk) -> Result<(), CliError> {
        let Some(copy) = self.copies.remove(&id) else {
            bulk.skip();
            return Ok(());
        };
        match self.to.call(Delete::new(copy)) {
            Ok(()) => {
                bulk.skip();
                Ok(())
            }
            Err(error) if error.code == NOT_FOUND => {
                let tube = &self.tube;
                let why = format!(
                    "other clients took both the job and its copy, job {copy} in tube {tube}: it exists twice"
                );
                bulk.failure(format!("job {id}"), CliError::new(Exit::Negative, "DUPLICATED", why))
            }
            Err(error) => {
                self.doubtful.push(id);
                self.broken.get_or_insert(error);
                self.check()
            }
        }
    }
}

impl Way for Mover {
    fn reserves(&self) -> bool {
        !self.keeps
    }

    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        if !self.staying.is_empty() && self.touched.elapsed() >= BETWEEN_TOUCHES {
            touch_all(link, self.staying.iter().copied())?;
            self.touched = Instant::now();
        }
        let kept = self.keep(link, jobs, bulk)?;
        let (kept, staying): (Vec<_>, Vec<_>) =
            jobs.iter().zip(kept).partition(|(_, is_kept)| *is_kept);
        self.staying.extend(staying.into_iter().map(|(job, _)| JobRef::from(job)));
        // By id alone: a job whose time has expired in the meantime can still be deleted while it is ready.
        let kept: Vec<JobId> = kept.into_iter().map(|(job, _)| job.id).collect();
        delete(link, &kept, bulk, self)
    }

    fn keep(
        &mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
    ) -> Result<Vec<bool>, CliError> {
        self.check()?;
        let is_another = |job: &&Job| self.before.as_ref().is_some_and(|before| job.body != before);
        if let Some(job) = jobs.iter().find(is_another) {
            let why = format!("job {} is another one than the job that was edited", job.id);
            return Err(CliError::not_found(why).hint(format!("bsctl job {}", job.id)));
        }
        let mut copies = Vec::with_capacity(jobs.len());
        for (job, stats) in jobs.iter().zip(stats_of(link, jobs)?) {
            // One without statistics has disappeared in the meantime.
            let Some(stats) = stats else {
                bulk.skip();
                continue;
            };
            let (copy, bury) = self.copy(job, &stats);
            match check_size(&copy, self.limit) {
                Ok(()) => copies.push((job.id, copy, bury)),
                Err(error) => bulk.failure(copy.label, error)?,
            }
        }
        self.put_all(copies, bulk)?;
        if self.keeps {
            bulk.successes(std::mem::take(&mut self.copies).len() as u64);
        }
        Ok(jobs.iter().map(|job| self.copies.contains_key(&job.id)).collect())
    }

    fn deleted(
        &mut self,
        id: JobId,
        reply: Result<(), CliError>,
        bulk: &mut Bulk,
    ) -> Result<(), CliError> {
        match reply {
            Ok(()) => {
                self.replaced = self.copies.remove(&id);
                bulk.success();
                Ok(())
            }
            Err(error) if error.code == NOT_FOUND => self.take_back(id, bulk),
            Err(error) => {
                self.doubtful.push(id);
                self.copies.remove(&id);
                if error.ends_everything() {
                    self.broken.get_or_insert(error);
                    return Ok(());
                }
                bulk.failure(format!("job {id}"), error)
            }
        }
    }
}
