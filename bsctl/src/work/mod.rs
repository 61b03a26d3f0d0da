//! Running a worker: a command for every job, and how its exit decides the job's outcome.

pub mod fate;

use std::time::Duration;

use beanstalk_client::blocking::JobContext;
use beanstalk_client::{
    JobFate, JobId, JobStats, LostReason, Outcome, TubeName, WorkerEvent, WorkerEventKind,
    WorkerHandle,
};
use ctl_core::commands::work::{self, Fate, Given, Ledger, Recipe};
use ctl_core::context::fleet::name_at;
use ctl_core::system::child::{Piece, Place};
use ctl_core::text::units;

use self::fate::Fates;
use crate::jobs;

/// Placeholders for the job's data in arguments, and the variables that a shell line uses instead.
pub const PLACES: &[Place] = &[("{id}", "$BSCTL_JOB_ID"), ("{tube}", "$BSCTL_TUBE")];

/// State shared by the slots of a worker.
pub struct Shift {
    /// Runs the command.
    pub shift: work::Shift,
    /// How to run it.
    pub recipe: Recipe,
    /// The outcomes of jobs.
    pub ledger: Ledger<Key, Option<TubeName>>,
    /// The rules.
    pub fates: Fates,
    /// Whether jobs are not touched, so that a command must end within the time to run.
    pub kills_at_ttr: bool,
}

/// How events identify a job: by its id, with its server if there are several.
pub type Key = (Option<String>, JobId);

impl Shift {
    /// Handles a job.
    pub fn handle(&self, job: &JobContext, worker: &WorkerHandle) -> Outcome {
        // Without counters, the reservation is over, and no outcome is sent.
        let Ok(stats) = job.stats() else { return Outcome::release() };
        let key = (self.shift.place(job.server()), job.id);
        let id = stats.id.to_string();
        let given = Given {
            label: label(&key, &Some(stats.tube.clone())),
            values: &[("{id}", id.as_str()), ("{tube}", stats.tube.as_str())],
            environment: &environment(&stats),
            body: &job.body,
            time_left: job.time_left().filter(|_| self.kills_at_ttr),
        };
        let (ended, mut end) =
            self.shift.run(&self.recipe, &given, || job.is_lost(), || worker.stop(), Piece::bytes);
        let lost = job.wait_lost(Duration::ZERO).map(|reason| match reason {
            LostReason::Stopped => fate_of(JobFate::Abandoned),
            reason => fate_of(JobFate::Lost(reason)),
        });
        let mut outcome = self.fates.outcome(ended, &stats);
        let is_final = || self.fates.is_final(outcome, job.deferrals(), &stats);
        if self.shift.records_failures() && lost.is_none() && is_final() {
            let record = jobs::record_with_body(job.id, Some(&stats), &job.body);
            if self.shift.keep(record.of_server(key.0.as_deref()), &mut end) {
                outcome = Outcome::Delete;
            }
        }
        self.ledger.ended(key, Some(stats.tube.clone()), end, lost);
        outcome
    }

    /// Passes on the worker's events.
    pub fn observe(&self, event: &WorkerEvent) {
        let key = |job: &JobId| (self.shift.place(&event.server), *job);
        match &event.what {
            WorkerEventKind::Settled { job, fate } => {
                self.ledger.settled(key(job), &fate_of(*fate));
            }
            WorkerEventKind::Connected => self.shift.outages().connected(&event.server),
            WorkerEventKind::Disconnected(error) => {
                self.shift.outages().disconnected(&event.server, error);
            }
            WorkerEventKind::GivenUp => self.shift.outages().given_up(&event.server),
            WorkerEventKind::ServerReplaced => {
                self.shift
                    .messages()
                    .warn(format!("{} was restarted, or is now a different server", event.server));
            }
            WorkerEventKind::ShortTimeToRun { job, ttr } => self.shift.messages().warn(format!(
                "{} has a time to run of only {}: a short delay is enough to lose it",
                label(&key(job), &None),
                units::show_duration(*ttr)
            )),
            // Once for each series of refusals.
            WorkerEventKind::Refused { command, reply, in_a_row: 1, .. } => {
                let server = &event.server;
                let then = match *command {
                    // A dead letter.
                    "use" | "put" => "its job is buried",
                    _ => "retrying until it works",
                };
                let text = format!("{server} answers {command} with {reply}; {then}");
                self.shift.messages().warn(text);
            }
            WorkerEventKind::Poisoned { job, why } => {
                let label = label(&key(job), &None);
                self.shift.messages().warn(format!("burying {label} without running it: {why}"));
            }
            WorkerEventKind::Failed { job, error } => {
                self.shift.messages().warn(format!("{} failed: {error}", label(&key(job), &None)));
            }
            _ => {}
        }
    }
}

/// How messages to people refer to it.
pub fn label((server, id): &Key, tube: &Option<TubeName>) -> String {
    let of = tube.as_ref().map(|tube| format!(" of {tube}")).unwrap_or_default();
    name_at(format!("job {id}{of}"), server.as_deref())
}

fn fate_of(fate: JobFate) -> Fate {
    let lost = match fate {
        JobFate::Lost(reason) => Some(reason.to_string()),
        _ => None,
    };
    let is_early = lost.is_some() || fate == JobFate::Abandoned;
    Fate { word: fate.word(), lost, is_best: fate == JobFate::Deleted, is_early }
}

/// The environment variables that describe the job to the command.
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
