//! Workers of both faces, whose handlers succeed, fail, panic, give back and take long.

use std::{num::NonZeroU16, panic, sync::Arc, thread, time::Duration};

use adf_queue_client::{
    JobContext, JobFate, MessageId, Outcome, Worker, WorkerEvent, WorkerEventKind, WorkerOptions,
    blocking,
};

use super::{DEAD, QUEUE, connect_options, may_be_copied};
use crate::{
    ON_PURPOSE,
    ledger::count,
    open_jobs::{OpenJobs, Told},
    run::{End, Field},
};

/// The kind of a worker.
pub struct Plan {
    pub actor: u32,
    pub is_async: bool,
    pub url: String,
    pub slots: usize,
    pub prefetch: usize,
}

impl Plan {
    pub fn start(self, field: &mut Field) -> End {
        let Plan { actor, is_async, url, slots, prefetch } = self;
        let (stage, mut rng) = (field.stage.clone(), field.rng.fork());
        let open_jobs = Arc::new(OpenJobs::new(stage, actor, rng.fork()));
        let observer = open_jobs.clone();
        let connect = connect_options(&url, rng.next()).total_timeout(None);
        let options = WorkerOptions::from(connect)
            .slots(slots)
            .prefetch(prefetch)
            // Every worker here gives back messages.
            .max_duplications(NonZeroU16::MAX)
            .dead_letter(DEAD.parse().expect("the name is good"))
            .recheck(Duration::from_secs(1))
            .on_event(move |event| hear(&observer, event));
        let face = if is_async { "async" } else { "blocking" };
        let name = format!("{face} worker {actor} ({slots} slots, prefetch {prefetch})");
        let for_handlers = open_jobs.clone();
        let (handle, thread) = if is_async {
            let mut worker = Worker::new(options).expect("the options are good");
            let handler = move |job: JobContext| {
                let open_jobs = for_handlers.clone();
                async move {
                    let (ticket, act) = begin(&open_jobs, &job);
                    tokio::time::sleep(act.takes()).await;
                    end(&open_jobs, ticket, act)
                }
            };
            worker.register(QUEUE, handler).expect("the name is good");
            let (handle, runtime) = (worker.handle(), field.runtime.handle().clone());
            (handle, thread::spawn(move || runtime.block_on(worker.run())))
        } else {
            let mut worker = blocking::Worker::new(options).expect("the options are good");
            let handler = move |job: &JobContext| {
                let (ticket, act) = begin(&for_handlers, job);
                thread::sleep(act.takes());
                end(&for_handlers, ticket, act)
            };
            worker.register(QUEUE, handler).expect("the name is good");
            (worker.handle(), thread::spawn(move || worker.run()))
        };
        open_jobs.end(name, move || handle.stop(), thread)
    }
}

/// What the handler of a message does.
#[derive(Clone, Copy)]
enum Act {
    Succeed(Duration),
    Fail,
    Panic,
    GiveBack(Outcome),
}

impl Act {
    fn takes(self) -> Duration {
        match self {
            Act::Succeed(time) => time,
            Act::Fail | Act::Panic | Act::GiveBack(_) => Duration::ZERO,
        }
    }
}

/// A handler gets its message.
fn begin(open_jobs: &OpenJobs<MessageId>, job: &JobContext) -> (u64, Act) {
    let context = job.clone();
    let ticket = open_jobs.begin(job.message_id(), job.body(), move || context.is_lost());
    let mut rng = open_jobs.rng();
    let quick = Act::Succeed(rng.millis(3));
    let act = match rng.below(2000) {
        _ if open_jobs.stage.is_calm() => quick,
        0 => Act::Succeed(open_jobs.stage.at_most(Duration::from_secs(1) + rng.millis(6000))),
        1..=20 => Act::Fail,
        21..=30 => Act::GiveBack(Outcome::ReturnLeft),
        31..=40 => Act::GiveBack(Outcome::ReturnRight),
        41..=60 if may_be_copied(job.body()) => Act::GiveBack(Outcome::DeadLetter),
        61..=70 => Act::Panic,
        71..=90 => Act::Succeed(rng.millis(300)),
        _ => quick,
    };
    (ticket, act)
}

/// The handler is done.
fn end(open_jobs: &OpenJobs<MessageId>, ticket: u64, act: Act) -> Result<Outcome, &'static str> {
    match act {
        Act::Succeed(_) => open_jobs.finish(ticket),
        Act::Fail | Act::GiveBack(_) | Act::Panic => open_jobs.give_back(ticket),
    }
    match act {
        Act::Succeed(_) => Ok(Outcome::Delete),
        Act::Fail => Err("it fails on purpose"),
        Act::GiveBack(decision) => Ok(decision),
        Act::Panic => panic::panic_any(ON_PURPOSE),
    }
}

/// The worker reports what happens.
fn hear(open_jobs: &OpenJobs<MessageId>, event: &WorkerEvent) {
    match &event.what {
        WorkerEventKind::Connected => count(&open_jobs.stage.ledger.counts.connections),
        WorkerEventKind::Settled { message, fate, .. } => {
            let told = match fate {
                JobFate::Deleted => Told::Ended,
                JobFate::Unknown => Told::Unknown,
                JobFate::Lost(_) => Told::Lost,
                _ => Told::GivenBack,
            };
            open_jobs.hear(message, told);
        }
        _ => {}
    }
}
