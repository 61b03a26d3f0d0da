//! Connections that take jobs and end them, each in a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ctl_core::bulk::Gate;
use ctl_core::context::fleet::Fleet;
use ctl_core::envelope::Formats;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::output::Record;
use ctl_core::repl::guest::lock;
use ctl_core::rules::filter::Filters;
use ctl_core::system::process;
use ctl_core::text::units;
use gearman_client::blocking::GrabbedJob;
use gearman_client::protocol::{Assignment, GetStatus};
use gearman_client::{FunctionName, JobLimit, SubmitOptions, UniqueId};

use super::waiting::{Lookout, refusal};
use super::{End, TakeArgs, Target};
use crate::commands::held::{Held, PATIENCE};
use crate::error::cli_error;
use crate::filters::Candidate;
use crate::link::{Link, next_job, status_of};
use crate::names::show_handle;
use crate::submit::tasks::record;

/// An event of a slot.
pub(super) enum News {
    /// It has a job, and waits for permission to continue.
    Taken(Taken),
    /// The job has ended.
    Ended,
    /// Clients wait for the job; it goes back when the slot ends.
    LeftAlone,
    /// It is unknown whether the job with this handle ended.
    Failed(String, CliError),
    /// It is unknown whether this many jobs ended that were said to have.
    Unconfirmed(u64),
    /// The slot cannot continue.
    Broken(CliError),
}

/// A job that was taken. Dropped without [`Taken::go_on`], it is given back.
pub(super) struct Taken {
    pub(super) handle: String,
    /// Empty without one.
    pub(super) unique: Bytes,
    pub(super) workload: Bytes,
    answer: SyncSender<()>,
}

impl Taken {
    /// The job as a record that `submit --ndjson` reads.
    pub(super) fn record(&self, function: &FunctionName) -> Record {
        record(&self.handle, function, &self.unique, &self.workload)
    }

    /// Lets the slot end the job.
    pub(super) fn go_on(&self) {
        let _ = self.answer.send(());
    }
}

/// State shared by all slots.
pub(super) struct Slots<'a> {
    pub(super) fleet: &'a mut Fleet<Link>,
    pub(super) own: &'a mut Link,
    pub(super) args: &'a TakeArgs,
    pub(super) end: End,
    pub(super) filters: Filters,
    pub(super) gate: Gate,
}

/// State shared by the slots of a function.
struct Plan {
    end: End,
    background_only: bool,
    filters: Filters,
    formats: Formats,
    /// How many jobs may still be ended.
    left: AtomicU64,
    limit: JobLimit,
    /// How long the server may take to say whether it has a job.
    patience: Duration,
    /// Number of slots that are taking jobs, and what the others hold: the last one gives it back, or they would take
    /// each other's.
    taking: Mutex<(u16, Vec<Returned>)>,
}

/// The jobs that a slot holds at its end.
struct Returned {
    held: Held,
    /// The jobs among them that do not match the filters.
    unfit: Vec<Assignment>,
}

impl Slots<'_> {
    /// Starts to end at most `most` jobs of a function of a server, of those that there are now unless `until_empty`.
    /// The events end when all slots have ended.
    ///
    /// # Errors
    /// No connection, or no thread.
    pub(super) fn start(
        &mut self,
        target: &Target,
        (most, until_empty): (u64, bool),
    ) -> Result<Receiver<News>, CliError> {
        let link = self.fleet.at(self.own, target.server.as_deref());
        // Connects like other commands, so that --wait-for-server applies here, too.
        link.client()?;
        let taken = match (self.filters.is_empty(), until_empty) {
            (true, _) => most,
            (false, false) => target.queued,
            (false, true) => u64::MAX,
        };
        // Jobs that end at once are taken one by one.
        let (slots, background_only) = (self.args.pace.jobs, self.args.background_only);
        let kept = if self.filters.is_empty() && !background_only { 0 } else { target.queued };
        let limit = JobLimit::new(taken);
        let options = link.worker_options()?.limit(limit.clone());
        let (sender, news) = mpsc::sync_channel(0);
        let plan = Arc::new(Plan {
            end: self.end,
            background_only,
            filters: self.filters.clone(),
            formats: link.dialer.settings().config().envelopes.clone(),
            left: AtomicU64::new(most),
            limit,
            patience: link.patience(),
            taking: Mutex::new((slots, Vec::new())),
        });
        for _ in 0..slots {
            // It then does not matter which clients see their jobs fail.
            let looks = plan.end == End::Complete || plan.background_only;
            let slot = Slot {
                held: Held::new(&options, &target.function, kept, slots)?,
                unfit: Vec::new(),
                function: target.function.clone(),
                lookout: looks.then(|| Lookout::new(link.sibling())),
                link: link.sibling(),
                plan: Arc::clone(&plan),
                gate: self.gate.clone(),
                sender: sender.clone(),
            };
            process::thread("slot", move || slot.run())?;
        }
        Ok(news)
    }
}

struct Slot {
    held: Held,
    /// The jobs that do not match the filters.
    unfit: Vec<Assignment>,
    function: FunctionName,
    /// None if it does not matter whether clients wait.
    lookout: Option<Lookout>,
    link: Link,
    plan: Arc<Plan>,
    gate: Gate,
    sender: SyncSender<News>,
}

impl Slot {
    fn run(mut self) {
        let mut outcome = self.take_all();
        let Self { held, unfit, function, mut link, plan, sender, .. } = self;
        let all = {
            let mut taking = lock(&plan.taking);
            taking.0 -= 1;
            taking.1.push(Returned { held, unfit });
            if taking.0 == 0 { std::mem::take(&mut taking.1) } else { Vec::new() }
        };
        let mut unfit = Vec::new();
        for returned in all {
            let idle = returned.held.give_back(&mut link);
            unfit.extend(returned.unfit);
            let report = idle.map(|worker| worker.stop());
            let missed = report.map_or(0, |report| report.rejected + report.unknown);
            if missed > 0 {
                let _ = sender.send(News::Unconfirmed(missed));
            }
        }
        if !unfit.is_empty() {
            outcome = outcome.and(submit_dropped(&mut link, &function, unfit));
        }
        if let Err(error) = outcome {
            let _ = sender.send(News::Broken(error));
        }
    }

    /// Ends jobs until there are none.
    fn take_all(&mut self) -> Result<(), CliError> {
        while let Some(job) = self.next()? {
            // Even if the time is over by then, because this job has been taken.
            let _ = self.gate.turn(1);
            match self.may_end(&job) {
                Ok(true) => {
                    if !self.end(job) {
                        break;
                    }
                }
                Ok(false) => self.leave(job)?,
                Err(error) => {
                    self.held.keep(job);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Keeps a job that stays.
    fn leave(&mut self, job: GrabbedJob) -> Result<(), CliError> {
        self.held.keep(job);
        if !self.held.is_full() {
            return Ok(());
        }
        let why = "more jobs stay than can be held at once (10,000 or 256 MiB)";
        Err(CliError::new(Exit::BadData, "TOO_MANY", why)
            .hint("gearctl drain --to FILE without a filter, and import the jobs to keep"))
    }

    /// Whether to end a job, which is one of those that may be ended then.
    fn may_end(&mut self, job: &GrabbedJob) -> Result<bool, CliError> {
        if !self.plan.filters.fit(&Candidate(job, &self.plan.formats)) {
            self.unfit.push(Assignment::clone(job));
            return Ok(false);
        }
        if let Some(lookout) = &mut self.lookout
            && lookout.is_waited_for(job)?
        {
            if !self.plan.background_only {
                let handle = show_handle(&job.handle);
                return Err(refusal(format!("clients wait for the job {handle}")));
            }
            let _ = self.sender.send(News::LeftAlone);
            return Ok(false);
        }
        let one_less = |left: u64| left.checked_sub(1);
        Ok(self.plan.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok())
    }

    /// The next job; none if there is none, or if no more should be taken.
    fn next(&mut self) -> Result<Option<GrabbedJob>, CliError> {
        let Self { held, gate, plan, .. } = self;
        let is_enough = || plan.limit.is_reached() || plan.left.load(Ordering::SeqCst) == 0;
        if is_enough() {
            return Ok(None);
        }
        let worker = held.worker()?;
        let handle = worker.handle();
        next_job(worker, plan.patience, || {
            let is_open = gate.is_open();
            if !is_open {
                handle.stop();
            }
            !is_open || is_enough()
        })
    }

    /// Ends the job once its record is safe. Returns false if the receiver has gone.
    fn end(&mut self, job: GrabbedJob) -> bool {
        let handle = show_handle(&job.handle);
        let (answer, may_go_on) = mpsc::sync_channel(1);
        let taken = Taken {
            handle: handle.clone(),
            unique: job.unique.clone(),
            workload: job.workload.clone(),
            answer,
        };
        if self.sender.send(News::Taken(taken)).is_err() || may_go_on.recv().is_err() {
            self.held.keep(job);
            return false;
        }
        let is_last = !self.gate.is_open() || self.plan.left.load(Ordering::SeqCst) == 0;
        let worker = match self.held.worker() {
            Ok(worker) => worker,
            Err(error) => return self.sender.send(News::Failed(handle, error)).is_ok(),
        };
        if is_last {
            // Does not ask for another job in the same write.
            worker.handle().stop();
        }
        let ended = match self.plan.end {
            End::Complete => worker.complete(job, b""),
            End::Fail => worker.fail(job),
        };
        let news = match ended {
            Ok(()) => News::Ended,
            Err(error) => News::Failed(handle, cli_error(error)),
        };
        self.sender.send(news).is_ok()
    }
}

/// Submits jobs again that the server has dropped instead of queueing them. With workers, they may have run.
fn submit_dropped(
    link: &mut Link,
    function: &FunctionName,
    mut jobs: Vec<Assignment>,
) -> Result<(), CliError> {
    let requests: Vec<GetStatus> = jobs.iter().map(|job| GetStatus(job.handle.clone())).collect();
    let statuses = link.client()?.call_many(requests).collect::<Result<Vec<_>, _>>();
    let mut statuses = statuses.map_err(cli_error)?.into_iter();
    jobs.retain(|_| statuses.next().is_some_and(|status| !status.is_known));
    if jobs.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    // The server may not have noticed yet that the slots have left.
    while status_of(link, function)?.is_some_and(|status| status.workers > 0) {
        if start.elapsed() >= PATIENCE {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    for job in &jobs {
        let id = UniqueId::try_from(&job.unique[..]).ok();
        let options = SubmitOptions::default();
        let options = id.map_or(options.without_id(), |id| options.unique(id));
        let again = link.client()?.submit_background(function.clone(), &job.workload, options);
        again.map_err(cli_error)?;
    }
    let dropped = units::count(jobs.len() as u64, "job");
    link.dialer.messages().warn(format!(
        "the server has dropped {dropped} that did not match (--job-retries): submitted again as background jobs"
    ));
    Ok(())
}
