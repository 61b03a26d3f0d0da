//! Running a worker: a command for every job, and what its end means for the job.

pub mod fate;

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beanstalk_client::blocking::JobContext;
use beanstalk_client::{
    JobFate, JobId, JobStats, LostReason, Outcome, TubeName, WorkerEvent, WorkerEventKind,
    WorkerHandle,
};
use ctl_core::child::Place;
use ctl_core::units;
use ctl_core::work::{self, CommandEnd, Given};

use self::fate::Fates;

/// What arguments may have of the job, and where a line for the shell finds it.
pub const PLACES: &[Place] = &[("{id}", "$BSCTL_JOB_ID"), ("{tube}", "$BSCTL_TUBE")];

/// What every slot of a worker shares.
pub struct Shift {
    /// What runs the command.
    pub shift: work::Shift,
    fates: Fates,
    finished: Sender<Finished>,
    /// Jobs whose command has ended, until the server has said what became of them.
    ended: Mutex<HashMap<JobId, Finished>>,
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

impl Shift {
    /// A shift that nobody has started yet.
    #[must_use]
    pub fn new(shift: work::Shift, fates: Fates, finished: Sender<Finished>) -> Self {
        Self { shift, fates, finished, ended: Mutex::default() }
    }

    /// Handles a job.
    pub fn handle(&self, job: &JobContext, worker: &WorkerHandle) -> Outcome {
        // Without counters the reservation is over, and no outcome is sent.
        let Ok(stats) = job.stats() else { return Outcome::release() };
        let id = stats.id.to_string();
        let given = Given {
            label: label(job.id, Some(&stats.tube)),
            values: &[("{id}", id.as_str()), ("{tube}", stats.tube.as_str())],
            environment: &environment(&stats),
            body: &job.body,
        };
        let (ended, end) = self.shift.run(&given, || job.is_lost(), || worker.stop());
        self.note_end(job, &stats, end);
        self.fates.outcome(ended, &stats)
    }

    /// Keeps how the command ended until the fate is known; of a lost job it is known already.
    fn note_end(&self, job: &JobContext, stats: &JobStats, end: CommandEnd) {
        let tube = Some(stats.tube.clone());
        let end = Finished { id: job.id, tube, end, fate: "" };
        match job.wait_lost(Duration::ZERO) {
            None => drop(lock(&self.ended).insert(job.id, end)),
            Some(reason) => self.finish(end, lost_fate(reason)),
        }
    }

    /// Passes on what the worker tells.
    pub fn observe(&self, event: &WorkerEvent) {
        match &event.what {
            WorkerEventKind::Settled { job, fate } => self.settle(*job, *fate),
            WorkerEventKind::Connected => self.shift.say_connected(&event.server),
            WorkerEventKind::Disconnected(error) => self.shift.say_disconnected(error),
            WorkerEventKind::ServerReplaced => {
                self.shift
                    .messages()
                    .warn(format!("{} was restarted, or is another server now", event.server));
            }
            WorkerEventKind::ShortTimeToRun { job, ttr } => self.shift.messages().warn(format!(
                "job {job} has a time to run of only {}: a slow moment is enough to lose it",
                units::show_duration(*ttr)
            )),
            // Once for each row of refusals.
            WorkerEventKind::Refused { command, reply, in_a_row: 1, .. } => {
                let server = &event.server;
                self.shift.messages().warn(format!(
                    "{server} answers {command} with {reply}; trying again until it works"
                ));
            }
            WorkerEventKind::Poisoned { job, why } => {
                self.shift.messages().warn(format!("burying job {job} without running it: {why}"));
            }
            WorkerEventKind::Failed { job, error } => {
                self.shift.messages().warn(format!("job {job} failed: {error}"));
            }
            _ => {}
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
        self.finish(end, fate);
    }

    fn finish(&self, job: Finished, fate: JobFate) {
        if !job.end.is_success() || fate != JobFate::Deleted {
            let fate = match fate {
                JobFate::Lost(reason) => format!("lost ({reason})"),
                fate => fate.word().to_owned(),
            };
            job.end.tell(self.shift.messages(), &label(job.id, job.tube.as_ref()), &fate);
        }
        let _ = self.finished.send(Finished { fate: fate.word(), ..job });
    }
}

/// What messages call a job.
fn label(id: JobId, tube: Option<&TubeName>) -> String {
    tube.map_or_else(|| format!("job {id}"), |tube| format!("job {id} of {tube}"))
}

/// What the environment of the command says of its job.
fn environment(stats: &JobStats) -> [(&'static str, String); 9] {
    [
        ("BSCTL_JOB_ID", stats.id.to_string()),
        ("BSCTL_TUBE", stats.tube.to_string()),
        ("BSCTL_PRI", stats.pri.to_string()),
        ("BSCTL_TTR", stats.ttr.to_string()),
        ("BSCTL_AGE", stats.age.to_string()),
        ("BSCTL_RESERVES", stats.reserves.to_string()),
        ("BSCTL_TIMEOUTS", stats.timeouts.to_string()),
        ("BSCTL_RELEASES", stats.releases.to_string()),
        ("BSCTL_KICKS", stats.kicks.to_string()),
    ]
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
