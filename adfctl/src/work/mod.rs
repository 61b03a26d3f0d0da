//! Running a command for a message: what the command gets, and how its exit decides the message's outcome.

use std::time::Duration;

use adf_queue_client::{
    Delivery, JobContext, JobFate, LostReason, MessageId, Outcome, QueueName, WorkerEvent,
    WorkerEventKind, WorkerHandle,
};
use clap::ValueEnum;
use ctl_core::commands::work::{self, Ended, Fate, Given, Ledger, Recipe};
use ctl_core::context::fleet::name_at;
use ctl_core::system::child::{Piece, Place};
use ctl_core::text::units;

use crate::messages;
/// Placeholders for the message's data in arguments, and the variables that a shell line uses instead.
pub const PLACES: &[Place] = &[("{id}", "$ADFCTL_MESSAGE_ID"), ("{queue}", "$ADFCTL_QUEUE")];

/// The environment variables that describe the message to the command.
pub fn environment(message: &Delivery) -> [(&'static str, String); 4] {
    [
        ("ADFCTL_MESSAGE_ID", message.message_id().to_string()),
        ("ADFCTL_QUEUE", message.queue().to_string()),
        ("ADFCTL_DUPLICATIONS", message.duplications().to_string()),
        ("ADFCTL_REQUEST_ID", message.request_id().to_string()),
    ]
}

/// The rules of `work`.
#[derive(Debug, Clone, Copy)]
pub struct Fates {
    /// Where to put a message back whose command failed.
    pub on_fail: OnFail,
    /// How often it may be delivered before a failure is final.
    pub most: u16,
}

/// The value of `--on-fail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnFail {
    /// Put it back at the right end, behind all.
    Right,
    /// Put it back at the left end, where it is pulled next.
    Left,
}

/// "Try again later" in sysexits.h.
const TEMPFAIL: i32 = 75;

impl Fates {
    /// Whether this would set the message aside.
    fn is_final(self, decision: &Result<Outcome, &str>, attempts: u16) -> bool {
        let is_last_time = attempts >= self.most;
        matches!(decision, Ok(Outcome::DeadLetter)) || decision.is_err() && is_last_time
    }

    /// The outcome of a message that was attempted this often.
    ///
    /// # Errors
    /// It failed: it goes to the right end, or is dead if it was delivered too often.
    pub fn decision(self, ended: Ended, attempts: u16) -> Result<Outcome, &'static str> {
        match ended {
            Ended::Code(0) => Ok(Outcome::Delete),
            Ended::Code(TEMPFAIL) => Ok(Outcome::Defer),
            Ended::Unfit => Ok(Outcome::DeadLetter),
            Ended::GivenUp => Ok(Outcome::ReturnLeft),
            Ended::Code(_) | Ended::Signal(_) | Ended::Overtime | Ended::Expired => {
                match self.on_fail {
                    OnFail::Left if attempts < self.most => Ok(Outcome::ReturnLeft),
                    OnFail::Left | OnFail::Right => Err("the command failed"),
                }
            }
        }
    }
}

/// State shared by the slots of a worker.
pub struct Shift {
    /// Runs the command.
    pub shift: work::Shift,
    /// How to run it.
    pub recipe: Recipe,
    /// The outcomes of messages.
    pub ledger: Ledger<Key, ()>,
    /// The rules.
    pub fates: Fates,
}

/// How events identify a message: by its queue and number, with its server if there are several.
pub type Key = (Option<String>, QueueName, MessageId);

impl Shift {
    /// Handles a message.
    ///
    /// # Errors
    /// Its command failed.
    pub fn handle(&self, job: &JobContext, worker: &WorkerHandle) -> Result<Outcome, &'static str> {
        let (id, queue) = (job.message_id().to_string(), job.queue().as_str());
        let server = self.shift.place(job.server());
        let key = (server, job.queue().clone(), job.message_id());
        let given = Given {
            label: label_of(&key, &()),
            values: &[("{id}", id.as_str()), ("{queue}", queue)],
            environment: &environment(job),
            body: job.body(),
            time_left: None,
        };
        let (ended, mut end) =
            self.shift.run(&self.recipe, &given, || job.is_lost(), || worker.stop(), Piece::bytes);
        let lost = job.wait_lost(Duration::ZERO).map(|reason| match reason {
            LostReason::Stopped => fate_of(JobFate::Abandoned),
            reason => fate_of(JobFate::Lost(reason)),
        });
        let took = end.time;
        let mut decision = self.fates.decision(ended, job.attempts());
        if self.shift.records_failures()
            && lost.is_none()
            && self.fates.is_final(&decision, job.attempts())
        {
            let record = messages::record(job).of_server(key.0.as_deref());
            if self.shift.keep(record, &mut end) {
                decision = Ok(Outcome::Delete);
            }
        }
        self.ledger.ended(key, (), end, lost);
        self.shift.pause_after(ended, took, || job.is_lost());
        decision
    }

    /// Passes on the worker's events.
    pub fn observe(&self, event: &WorkerEvent) {
        let messages = self.shift.messages();
        let key = |queue: &QueueName, message: &MessageId| {
            (self.shift.place(&event.server), queue.clone(), *message)
        };
        match &event.what {
            WorkerEventKind::Settled { queue, message, fate } => {
                self.ledger.settled(key(queue, message), &fate_of(*fate));
            }
            WorkerEventKind::Connected => self.shift.outages().connected(&event.server),
            WorkerEventKind::Disconnected(error) => {
                self.shift.outages().disconnected(&event.server, error);
            }
            WorkerEventKind::GivenUp => self.shift.outages().given_up(&event.server),
            // The server ends its words with a full stop.
            WorkerEventKind::Refused { queue, error, pause } => messages.warn(format!(
                "{}: {}; retrying in {}",
                name_at(format!("queue {queue}"), self.shift.place(&event.server).as_deref()),
                error.to_string().trim_end_matches('.'),
                units::show_duration(*pause)
            )),
            WorkerEventKind::Poisoned { queue, message, duplications } => messages.warn(format!(
                "{} was delivered {duplications} times and is not run",
                label_of(&key(queue, message), &())
            )),
            _ => {}
        }
    }
}

/// How messages to people refer to it.
pub fn label_of((server, queue, id): &Key, (): &()) -> String {
    name_at(format!("message {id} of {queue}"), server.as_deref())
}

fn fate_of(fate: JobFate) -> Fate {
    let lost = match fate {
        JobFate::Lost(reason) => Some(reason.to_string()),
        _ => None,
    };
    let is_early = lost.is_some() || fate == JobFate::Abandoned;
    Fate { word: fate.word(), lost, is_best: fate == JobFate::Deleted, is_early }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fate_table() {
        let right = Fates { on_fail: OnFail::Right, most: 3 };
        let left = Fates { on_fail: OnFail::Left, ..right };
        for (ended, times, at_right, at_left) in [
            (Ended::Code(0), 9, Ok(Outcome::Delete), Ok(Outcome::Delete)),
            (Ended::Code(75), 9, Ok(Outcome::Defer), Ok(Outcome::Defer)),
            (Ended::Unfit, 1, Ok(Outcome::DeadLetter), Ok(Outcome::DeadLetter)),
            (Ended::GivenUp, 9, Ok(Outcome::ReturnLeft), Ok(Outcome::ReturnLeft)),
            (Ended::Code(1), 2, Err(()), Ok(Outcome::ReturnLeft)),
            (Ended::Signal(9), 3, Err(()), Err(())),
            (Ended::Overtime, 4, Err(()), Err(())),
        ] {
            let decide = |fates: Fates| fates.decision(ended, times).map_err(|_| ());
            assert_eq!((decide(right), decide(left)), (at_right, at_left), "{ended:?} {times}");
        }
    }
}
