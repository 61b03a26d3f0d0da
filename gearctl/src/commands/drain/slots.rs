//! Connections that take jobs and end them, each in a thread.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ctl_core::bulk::Gate;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::CliError;
use ctl_core::link::Link as _;
use ctl_core::output::Record;
use ctl_core::system::process;
use gearman_client::blocking::{GrabbedJob, Worker};
use gearman_client::{FunctionName, JobLimit, WorkerOptions};

use super::waiting::{Lookout, refusal};
use super::{End, TakeArgs, Target, record};
use crate::error::cli_error;
use crate::link::{Link, next_job, worker};
use crate::names::show_handle;

/// Maximum number of jobs that are left alone, each on a connection of its own.
const MOST_LEFT_ALONE: usize = 64;

/// An event of a slot.
pub(super) enum News {
    /// It has a job, and waits to be told to continue.
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
    handle: String,
    unique: Bytes,
    workload: Bytes,
    answer: SyncSender<()>,
}

impl Taken {
    /// The job as a record that `submit --ndjson` reads.
    pub(super) fn record(&self, function: &FunctionName) -> Record {
        record(&self.handle, function, &self.unique, &self.workload)
    }

    /// Its unique id; empty without one.
    pub(super) fn unique(&self) -> &[u8] {
        &self.unique
    }

    /// Its workload.
    pub(super) fn workload(&self) -> &[u8] {
        &self.workload
    }

    /// How messages refer to it.
    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    /// Lets the slot end the job.
    pub(super) fn go_on(&self) {
        let _ = self.answer.send(());
    }
}

/// What all slots have in common.
pub(super) struct Slots<'a> {
    fleet: &'a mut Fleet<Link>,
    own: &'a mut Link,
    count: u16,
    plan: Plan,
    gate: Gate,
}

#[derive(Clone, Copy)]
struct Plan {
    end: End,
    background_only: bool,
}

impl<'a> Slots<'a> {
    pub(super) fn new(
        (fleet, own): (&'a mut Fleet<Link>, &'a mut Link),
        args: &TakeArgs,
        end: End,
        gate: &Gate,
    ) -> Self {
        let plan = Plan { end, background_only: args.background_only };
        Self { fleet, own, count: args.pace.jobs, plan, gate: gate.clone() }
    }

    /// Starts taking at most `most` jobs of a function of a server. The events end when all slots have ended.
    ///
    /// # Errors
    /// No connection, or no thread.
    pub(super) fn start(&mut self, target: &Target, most: u64) -> Result<Receiver<News>, CliError> {
        let link = self.fleet.at(self.own, target.server.as_deref());
        // Connects like other commands, so that --wait-for-server applies here, too.
        link.client()?;
        let (function, limit) = (&target.function, JobLimit::new(most));
        let options = link.worker_options()?.limit(limit.clone());
        let (sender, news) = mpsc::sync_channel(0);
        let patience = link.patience();
        for _ in 0..self.count {
            let plan = self.plan;
            // It then does not matter which clients are told that their jobs failed.
            let looks = plan.end == End::Complete || plan.background_only;
            let slot = Slot {
                worker: worker(options.clone(), function)?,
                unfinished: None,
                function: function.clone(),
                options: options.clone(),
                limit: limit.clone(),
                patience,
                lookout: looks.then(|| Lookout::new(link.sibling())),
                plan,
                gate: self.gate.clone(),
                sender: sender.clone(),
            };
            thread::Builder::new()
                .name("slot".to_owned())
                .spawn(move || slot.run())
                .map_err(|error| process::no_thread(&error))?;
        }
        Ok(news)
    }
}

struct Slot {
    worker: Worker,
    /// A job to give back instead of ending it.
    unfinished: Option<GrabbedJob>,
    function: FunctionName,
    options: WorkerOptions,
    limit: JobLimit,
    /// How long the server may take to say whether it has a job.
    patience: Duration,
    /// None if it does not matter whether clients wait.
    lookout: Option<Lookout>,
    plan: Plan,
    gate: Gate,
    sender: SyncSender<News>,
}

impl Slot {
    fn run(mut self) {
        let mut left_alone = Vec::new();
        let outcome = self.take_all(&mut left_alone);
        for (worker, job) in left_alone {
            give_back(worker, job);
        }
        if let Some(job) = self.unfinished {
            give_back(self.worker, job);
        } else {
            let report = self.worker.stop();
            let missed = report.rejected + report.unknown;
            if missed > 0 {
                let _ = self.sender.send(News::Unconfirmed(missed));
            }
        }
        if let Err(error) = outcome {
            let _ = self.sender.send(News::Broken(error));
        }
    }

    /// Ends jobs until there are none.
    fn take_all(&mut self, left_alone: &mut Vec<(Worker, GrabbedJob)>) -> Result<(), CliError> {
        while let Some(job) = self.next()? {
            // Even if the time is over by then, because this job has been taken.
            let _ = self.gate.turn(1);
            let waited_for = match &mut self.lookout {
                Some(lookout) => lookout.is_waited_for(&job),
                None => Ok(false),
            };
            let error = match waited_for {
                Ok(false) => {
                    if self.end(job) {
                        continue;
                    }
                    return Ok(());
                }
                Ok(true) if self.plan.background_only && left_alone.len() < MOST_LEFT_ALONE => {
                    match worker(self.options.clone(), &self.function) {
                        Ok(next) => {
                            left_alone.push((std::mem::replace(&mut self.worker, next), job));
                            let _ = self.sender.send(News::LeftAlone);
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                Ok(true) => {
                    refusal(format!("clients wait for the job {}", show_handle(&job.handle)))
                }
                Err(error) => error,
            };
            self.unfinished = Some(job);
            return Err(error);
        }
        Ok(())
    }

    /// The next job; none if there is none, or if no more should be taken.
    fn next(&mut self) -> Result<Option<GrabbedJob>, CliError> {
        let Self { worker, gate, limit, patience, .. } = self;
        let handle = worker.handle();
        next_job(worker, *patience, || {
            let is_open = gate.is_open();
            if !is_open {
                handle.stop();
            }
            !is_open || limit.is_reached()
        })
    }

    /// Ends the job once its record is safe. Returns false if nobody listens any more.
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
            self.unfinished = Some(job);
            return false;
        }
        if !self.gate.is_open() {
            // Does not ask for another job in the same write.
            self.worker.handle().stop();
        }
        let ended = match self.plan.end {
            End::Complete => self.worker.complete(job, b""),
            End::Fail => self.worker.fail(job),
        };
        let news = match ended {
            Ok(()) => News::Ended,
            Err(error) => News::Failed(handle, cli_error(error)),
        };
        self.sender.send(news).is_ok()
    }
}

/// Closing gives the job back; after that, it must not be failed.
fn give_back(worker: Worker, job: GrabbedJob) {
    drop(worker);
    drop(job);
}
