//! Running a worker: a command for every job, and what its end means for the job.

pub mod child;
pub mod fate;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use beanstalk_client::blocking::JobContext;
use beanstalk_client::{
    Error, JobFate, JobId, JobStats, LostReason, Outcome, TubeName, WorkerEvent, WorkerEventKind,
    WorkerHandle,
};
use ctl_core::error::{CliError, Exit};
use ctl_core::messages::Messages;
use ctl_core::shortage::Shortage;
use ctl_core::units;
use ctl_core::work::CommandEnd;

use self::child::Recipe;
use self::fate::Fates;

/// What every slot of a worker shares.
pub struct Shift {
    recipe: Recipe,
    fates: Fates,
    messages: Messages,
    /// What the system has no room for.
    shortage: Shortage,
    finished: Sender<Finished>,
    /// Ends running commands.
    kill: AtomicBool,
    /// The server was lost, and that was said.
    is_down: AtomicBool,
    /// Jobs whose command has ended, until the server has said what became of them.
    ended: Mutex<HashMap<JobId, Finished>>,
    /// Why no command can be run at all.
    broken: Mutex<Option<CliError>>,
}

/// A job that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The job.
    pub id: JobId,
    /// Its tube.
    pub tube: Option<TubeName>,
    /// How its command ended.
    pub end: CommandEnd,
    /// What became of it: a word of [`JobFate`].
    pub fate: &'static str,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal; 0 where the system does not say which.
    Signal(i32),
    /// It ran for too long, and was ended.
    Overtime,
    /// Nobody waits for it any more: the worker stops, or the job is lost.
    GivenUp,
    /// The job cannot be given to the command.
    Unfit,
}

impl Shift {
    /// A shift that nobody has started yet.
    #[must_use]
    pub fn new(
        recipe: Recipe,
        fates: Fates,
        messages: Messages,
        finished: Sender<Finished>,
    ) -> Self {
        Self {
            recipe,
            fates,
            messages,
            shortage: Shortage::default(),
            finished,
            kill: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            ended: Mutex::default(),
            broken: Mutex::default(),
        }
    }

    /// Ends running commands; their jobs go back.
    pub fn kill(&self) {
        self.kill.store(true, Ordering::SeqCst);
    }

    /// Why no command could be run, if that is so.
    #[must_use]
    pub fn take_broken(&self) -> Option<CliError> {
        lock(&self.broken).take()
    }

    /// Handles a job.
    pub fn handle(&self, job: &JobContext, worker: &WorkerHandle) -> Outcome {
        // Without counters the reservation is over, and no outcome is sent.
        let Ok(stats) = job.stats() else { return Outcome::release() };
        let start = Instant::now();
        let gives_up = || self.kill.load(Ordering::SeqCst) || job.is_lost();
        let ran = child::run(&self.recipe, (job, &stats), gives_up, &self.shortage, &self.messages);
        let ended = match ran {
            Ok(Ended::Code(code @ (126 | 127))) if self.recipe.command.is_shell() => {
                let why = format!("the shell could not run the command: it exited with {code}");
                let exit = u8::try_from(code).unwrap_or(1);
                Err(CliError::new(Exit::Own(exit), "CANNOT_RUN", why))
            }
            other => other,
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // A broken deployment must not bury the whole tube.
                lock(&self.broken).get_or_insert(error);
                worker.stop();
                self.note_end(job, &stats, start, Ended::GivenUp);
                return Outcome::release();
            }
        };
        self.note_end(job, &stats, start, ended);
        self.fates.outcome(ended, &stats)
    }

    /// Keeps how the command ended until the fate is known; of a lost job it is known already.
    fn note_end(&self, job: &JobContext, stats: &JobStats, start: Instant, ended: Ended) {
        let (exit, signal) = match ended {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signal) => (None, Some(signal)),
            Ended::Overtime | Ended::GivenUp | Ended::Unfit => (None, None),
        };
        let command = CommandEnd { exit, signal, time: Some(start.elapsed()) };
        let mut end =
            Finished { id: job.id, tube: Some(stats.tube.clone()), end: command, fate: "unknown" };
        match job.wait_lost(Duration::ZERO) {
            None => {
                lock(&self.ended).insert(job.id, end);
            }
            Some(reason) => {
                end.fate = lost_fate(reason).word();
                let _ = self.finished.send(end);
            }
        }
    }

    /// Passes on what the worker tells.
    pub fn observe(&self, event: &WorkerEvent) {
        match &event.what {
            WorkerEventKind::Settled { job, fate } => self.settle(*job, *fate),
            WorkerEventKind::Connected => self.say_connected(event),
            WorkerEventKind::Disconnected(error) => self.say_disconnected(error),
            WorkerEventKind::ServerReplaced => {
                self.messages.warn(format!("at {} is another server than before", event.server));
            }
            WorkerEventKind::ShortTimeToRun { job, ttr } => self.messages.warn(format!(
                "job {job} has a time to run of only {}: a slow moment is enough to lose it",
                units::show_duration(*ttr)
            )),
            // Once for each row of refusals.
            WorkerEventKind::Refused { command, reply, in_a_row: 1, .. } => {
                let server = &event.server;
                self.messages.warn(format!(
                    "{server} answers {command} with {reply}; trying again until it works"
                ));
            }
            WorkerEventKind::Poisoned { job, why } => {
                self.messages.warn(format!("burying job {job} without running it: {why}"));
            }
            WorkerEventKind::Failed { job, error } => {
                self.messages.warn(format!("job {job} failed: {error}"));
            }
            _ => {}
        }
    }

    fn say_connected(&self, event: &WorkerEvent) {
        if self.is_down.swap(false, Ordering::SeqCst) {
            self.messages.note(format!("connected to {} again", event.server));
        }
    }

    /// Once, and not for every slot and attempt.
    fn say_disconnected(&self, error: &Error) {
        if !self.is_down.swap(true, Ordering::SeqCst) {
            self.messages.warn(format!("{error}; trying again until it works"));
        }
    }

    fn settle(&self, id: JobId, fate: JobFate) {
        let ended = lock(&self.ended).remove(&id);
        let end = match (ended, fate) {
            (Some(end), _) => end,
            // The command still runs, and its end tells.
            (None, JobFate::Lost(_) | JobFate::Abandoned) => return,
            (None, _) => Finished { id, tube: None, end: CommandEnd::default(), fate: "" },
        };
        if let JobFate::Lost(reason) = fate {
            self.messages.warn(format!("job {id} is lost: {reason}"));
        }
        let _ = self.finished.send(Finished { fate: fate.word(), ..end });
    }
}

fn lost_fate(reason: LostReason) -> JobFate {
    match reason {
        LostReason::Stopped => JobFate::Abandoned,
        reason => JobFate::Lost(reason),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
