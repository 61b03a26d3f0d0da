//! Running a worker: slots, each with a connection and at most one job, until the worker stops.

pub mod builtin;
pub mod child;

use std::collections::{HashMap, VecDeque};
use std::iter::repeat_n;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use ctl_core::commands::work::{self, CommandEnd};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::messages::Messages;
use ctl_core::repl::guest::lock;
use ctl_core::system::process;
use gearman_client::blocking::{GrabbedJob, Worker};
use gearman_client::{
    ConnectionState, ErrorKind, JobHandle, JobLimit, WorkerEvent, WorkerEventKind, WorkerHandle,
    WorkerReport,
};

use crate::error::cli_error;
use crate::names::{show_function, show_handle};
use crate::submit::tasks::record;

/// State shared by the slots of a worker.
pub struct Shift {
    /// Runs commands.
    pub shift: work::Shift,
    /// The handler of jobs.
    handler: Handler,
    /// Number of jobs after which it ends; the workers have the same limit.
    limit: Option<JobLimit>,
    running: AtomicU64,
    /// The fates of jobs where their dead letters decide: the server has them, or has refused them.
    letters: Letters,
}

/// By handle, with the server: all servers of a host may give the same ones.
type Letters = Mutex<HashMap<JobHandle, Fate>>;

/// The handler of jobs.
#[derive(Debug, Clone)]
pub enum Handler {
    /// A command.
    Command(child::Recipe),
    /// A function of the tool.
    Builtin(builtin::Builtin),
}

/// The outcome of a job.
#[derive(Debug)]
pub struct Finished {
    /// The job.
    pub handle: JobHandle,
    /// Its function.
    pub function: String,
    /// How its command ended.
    pub end: CommandEnd,
    /// The report to the server.
    pub fate: Fate,
}

impl Finished {
    /// Describes how it ended, and its outcome.
    pub fn tell(&self, messages: &Messages) {
        let job = format!("job {} of {}", show_handle(&self.handle), self.function);
        self.end.tell(messages, &job, self.fate.told().1);
    }

    /// Takes what should be reported to the server, and whether that succeeded.
    fn settle(&mut self, (fate, told): (Fate, gearman_client::Result<()>)) {
        self.fate = fate;
        if let Err(error) = told {
            let is_lost = error.kind() == ErrorKind::JobLost;
            self.fate = if is_lost { Fate::Lost } else { Fate::Unknown };
            self.end.words = Some(error.to_string());
        }
    }
}

/// A report to the server about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// WORK_COMPLETE.
    Complete,
    /// WORK_FAIL.
    Fail,
    /// WORK_EXCEPTION.
    Exception,
    /// WORK_FAIL or WORK_EXCEPTION, and the server has its dead letter.
    DeadLettered,
    /// Nothing: the connection was closed, and the server gives the job to another worker.
    Returned,
    /// Nothing: the connection was lost before, and the job was given to another worker.
    Lost,
    /// Its end was sent, and the server refused it: it has given the job to another worker.
    Refused,
    /// Its end was sent, but the connection was lost before the server showed that it has it.
    Unknown,
}

impl Fate {
    /// The word for records.
    pub const fn word(self) -> &'static str {
        self.told().0
    }

    /// The word for records, and the outcome of the job in a sentence.
    const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Complete => ("complete", "completed"),
            Self::Fail => ("fail", "failed"),
            Self::Exception => ("exception", "failed with an exception"),
            Self::DeadLettered => ("dead-lettered", "dead-lettered"),
            Self::Returned => ("returned", "given back"),
            Self::Lost => ("lost", "lost"),
            Self::Refused => ("lost", "lost (the server no longer counts it as this worker's)"),
            Self::Unknown => ("unknown", "of unknown fate"),
        }
    }
}

/// How a handler ended.
pub enum Ended {
    /// With a result.
    Complete(Vec<u8>),
    /// Without.
    Fail,
    /// Without, and with words.
    Exception(Vec<u8>),
    /// Not now, as its command says.
    GivenBack,
    /// It was stopped before it had finished, or cannot be run at all.
    Stopped,
}

/// Jobs whose ends were sent, in that order, until the server shows what it has made of them.
#[derive(Default)]
struct Sent {
    jobs: VecDeque<Finished>,
    /// The account so far.
    known: WorkerReport,
}

impl Sent {
    /// The jobs whose fates are known by this account, and those that were given back.
    fn settled(
        &mut self,
        report: &WorkerReport,
        letters: &Letters,
    ) -> impl Iterator<Item = Finished> + use<> {
        let (mut letters, mut settled) = (lock(letters), Vec::new());
        for mut job in std::mem::take(&mut self.jobs) {
            job.fate = letters.remove(&job.handle).unwrap_or(job.fate);
            match job.fate {
                Fate::Returned => settled.push(job),
                _ => self.jobs.push_back(job),
            }
        }
        let known = std::mem::replace(&mut self.known, *report);
        let refused = report.rejected - known.rejected;
        let accepted = (report.completed + report.failed) - (known.completed + known.failed);
        let unknown = report.unknown - known.unknown;
        let fates = repeat_n(Some(Fate::Refused), count(refused))
            .chain(repeat_n(None, count(accepted)))
            .chain(repeat_n(Some(Fate::Unknown), count(unknown)));
        settled.extend(fates.map_while(|fate| {
            let job = self.jobs.pop_front()?;
            Some(Finished { fate: fate.unwrap_or(job.fate), ..job })
        }));
        settled.into_iter()
    }

    /// All jobs, by the last account.
    fn rest(mut self, report: &WorkerReport, letters: &Letters) -> impl Iterator<Item = Finished> {
        self.settled(report, letters).chain(self.jobs)
    }
}

fn count(jobs: u64) -> usize {
    usize::try_from(jobs).unwrap_or(usize::MAX)
}

/// How long a slot waits for a job before it checks whether to stop.
const SLICE: Duration = Duration::from_millis(100);

impl Shift {
    /// A shift not started yet.
    pub fn new(shift: work::Shift, handler: Handler, limit: Option<JobLimit>) -> Self {
        Self { shift, handler, limit, running: AtomicU64::new(0), letters: Mutex::default() }
    }

    /// Whether a job is running.
    pub fn is_busy(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    /// Passes on the events of a worker.
    pub fn observe(&self, event: &WorkerEvent) {
        match &event.what {
            WorkerEventKind::Connected => self.shift.outages().connected(&event.server),
            WorkerEventKind::Disconnected(error) => {
                self.shift.outages().disconnected(&event.server, error);
            }
            WorkerEventKind::GivenUp => self.shift.outages().given_up(&event.server),
            WorkerEventKind::Oversized { .. } => self.shift.messages().warn(event.to_string()),
            WorkerEventKind::DeadLettered { job, .. } => {
                lock(&self.letters).insert(job.clone(), Fate::DeadLettered);
            }
            WorkerEventKind::GivenBack { job, .. } => {
                self.shift.messages().warn(event.to_string());
                lock(&self.letters).insert(job.clone(), Fate::Returned);
            }
            _ => {}
        }
    }

    /// Works until the shift ends, each worker in its own thread. Every finished job goes to `finished`.
    pub fn work(&self, workers: Vec<Worker>, finished: &Sender<Finished>) -> WorkerReport {
        let handles: Vec<_> = workers.iter().map(Worker::handle).collect();
        // Each is taken once, in the attempt that succeeds in starting its thread.
        let workers: Vec<_> = workers.into_iter().map(|worker| Mutex::new(Some(worker))).collect();
        thread::scope(|scope| {
            let mut slots = Vec::new();
            for worker in &workers {
                let run = || {
                    if let Some(worker) = lock(worker).take() {
                        self.take_jobs(worker, |job| finished.send(job).is_ok());
                    }
                };
                let start = || {
                    let thread = thread::Builder::new().name("slot".to_owned());
                    thread.spawn_scoped(scope, run).map_err(|error| process::no_thread(&error))
                };
                match self.shift.retry(|| self.shift.is_stopping(), start) {
                    Ok(slot) => slots.push(slot),
                    // Given up because of a signal.
                    Err(error) if error.is_shortage() => break,
                    Err(error) => {
                        self.shift.break_off(error);
                        break;
                    }
                }
            }
            for slot in slots {
                if slot.join().is_err() {
                    self.shift.break_off(CliError::internal("a slot panicked"));
                }
            }
        });
        handles.iter().map(WorkerHandle::report).fold(WorkerReport::default(), |mut sum, of| {
            sum.completed += of.completed;
            sum.failed += of.failed;
            sum.dead_lettered += of.dead_lettered;
            sum.unknown += of.unknown;
            sum
        })
    }

    fn take_jobs(&self, mut worker: Worker, mut finished: impl FnMut(Finished) -> bool) {
        let (handle, mut sent) = (worker.handle(), Sent::default());
        while let Some(job) = self
            .next_job(&mut worker, |report| sent.settled(report, &self.letters).all(&mut finished))
        {
            self.running.fetch_add(1, Ordering::SeqCst);
            let start = Instant::now();
            let (ended, mut end) = match &self.handler {
                Handler::Command(recipe) => child::run(recipe, &self.shift, &mut worker, &job),
                Handler::Builtin(builtin) => self.shift.during(|| builtin.run(&self.shift, &job)),
            };
            let ended = self.keep(&job, ended, &mut end);
            let mut done = Finished {
                handle: job.handle.clone(),
                function: show_function(&job.function),
                end: CommandEnd { time: Some(start.elapsed()), ..end },
                fate: Fate::Returned,
            };
            if self.shift.is_stopping() {
                // Does not ask for another job in the same write.
                worker.handle().stop();
            }
            let told = match ended {
                Ended::Complete(result) => (Fate::Complete, worker.complete(job, result)),
                Ended::Fail => (Fate::Fail, worker.fail(job)),
                Ended::Exception(text) => (Fate::Exception, worker.exception(job, text)),
                Ended::GivenBack => (Fate::Returned, worker.give_back(job)),
                Ended::Stopped => {
                    self.running.fetch_sub(1, Ordering::SeqCst);
                    // Closing gives the job back; after that, it must not be failed.
                    drop(worker);
                    drop(job);
                    let _ =
                        sent.rest(&handle.report(), &self.letters).chain([done]).all(&mut finished);
                    return;
                }
            };
            self.running.fetch_sub(1, Ordering::SeqCst);
            let is_sent = told.1.is_ok() && told.0 != Fate::Returned;
            done.settle(told);
            if is_sent {
                sent.jobs.push_back(done);
            } else if !finished(done) {
                break;
            }
        }
        let _ = worker.stop();
        let _ = sent.rest(&handle.report(), &self.letters).all(&mut finished);
    }

    /// Keeps a job that failed in the file of failed jobs, if there is one; a job that cannot be kept is given back.
    fn keep(&self, job: &GrabbedJob, ended: Ended, end: &mut CommandEnd) -> Ended {
        if !matches!(ended, Ended::Fail | Ended::Exception(_)) || !self.shift.records_failures() {
            return ended;
        }
        let handle = show_handle(&job.handle);
        let record = record(&handle, &job.function, &job.unique, &job.workload);
        if self.shift.keep(record, end) { ended } else { Ended::GivenBack }
    }

    /// Waits for a job; none once the shift is over.
    ///
    /// `look` gets the account of the worker whenever that may have changed, and says whether to go on.
    fn next_job(
        &self,
        worker: &mut Worker,
        mut look: impl FnMut(&WorkerReport) -> bool,
    ) -> Option<GrabbedJob> {
        let (mut reported, handle) = (false, worker.handle());
        let is_enough = || {
            let is_at_limit = self.limit.as_ref().is_some_and(JobLimit::is_reached);
            let is_closed = |state: &ConnectionState| *state == ConnectionState::Closed;
            is_at_limit || handle.connection_states().iter().all(is_closed)
        };
        while !self.shift.is_stopping() {
            let next = worker.next_job(SLICE);
            if !look(&handle.report()) && !matches!(next, Ok(Some(_))) {
                return None;
            }
            match next {
                Ok(Some(job)) => return Some(job),
                Ok(None) if is_enough() => return None,
                Ok(None) => reported = false,
                // It reconnects on its own; losses are events.
                Err(error) => {
                    let error = cli_error(error);
                    if !reported && error.exit != Exit::Unavailable {
                        self.shift.messages().warn(error.message);
                    }
                    reported = true;
                    thread::sleep(SLICE);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fate_is_that_of_the_job_on_its_server() {
        let handle = |server: &str| -> JobHandle { format!("{server}//H:host:1").parse().unwrap() };
        let letters: Letters = Mutex::default();
        lock(&letters).insert(handle("one:4730"), Fate::Returned);
        let jobs = ["two:4730", "one:4730"].map(|server| Finished {
            handle: handle(server),
            function: "f".to_owned(),
            end: CommandEnd::default(),
            fate: Fate::Complete,
        });
        let mut sent = Sent { jobs: jobs.into(), known: WorkerReport::default() };
        let settled: Vec<Finished> = sent.settled(&WorkerReport::default(), &letters).collect();
        assert!(matches!(settled.as_slice(), [job] if job.handle == handle("one:4730")));
        assert_eq!(sent.jobs.pop_front().map(|job| job.fate), Some(Fate::Complete));
    }
}
