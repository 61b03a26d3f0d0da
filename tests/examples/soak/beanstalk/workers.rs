//! Workers of both faces, whose handlers succeed, fail, panic and take too long.

use std::{net::SocketAddr, panic, sync::Arc, thread, time::Duration};

use beanstalk_client::{
    Heartbeat, Inspect, JobFate, JobId, Outcome, Retries, Worker, WorkerEvent, WorkerEventKind,
    WorkerOptions, blocking,
};

use super::{TUBE, connect_options};
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
    pub place: SocketAddr,
    pub slots: usize,
    pub prefetch: usize,
    pub heartbeat: Heartbeat,
}

impl Plan {
    pub fn start(self, field: &mut Field) -> End {
        let Plan { actor, is_async, place, slots, prefetch, heartbeat } = self;
        let (stage, mut rng) = (field.stage.clone(), field.rng.fork());
        let open_jobs = Arc::new(OpenJobs::new(stage, actor, rng.fork()));
        let observer = open_jobs.clone();
        let connect = connect_options(place, rng.next()).total_timeout(None);
        let (base, cap) = (Duration::from_millis(1), Duration::from_secs(2));
        let options = WorkerOptions::new(connect)
            .expect("the options are good")
            .slots(slots)
            .prefetch(prefetch)
            .inspect(if prefetch > 8 { Inspect::OnDemand } else { Inspect::Before })
            .heartbeat(heartbeat)
            .reserve_wait(Duration::from_secs(1 + rng.below(3)))
            // Kills of the server count as reserves, and every worker here gives back jobs.
            .retries(Retries::default().backoff(base, 2, cap).releases(6).reserves(10_000))
            .reconnect_backoff(Duration::from_millis(20), Duration::from_millis(500))
            .seed(rng.next())
            .on_event(move |event| hear(&observer, event));
        let face = if is_async { "async" } else { "blocking" };
        let name =
            format!("{face} worker {actor} ({slots} slots, prefetch {prefetch}, {heartbeat:?})");
        let for_handlers = open_jobs.clone();
        let (handle, thread) = if is_async {
            let mut worker = Worker::new(options).expect("the options are good");
            let (handle, runtime) = (worker.handle(), field.runtime.handle().clone());
            let handler = move |job: beanstalk_client::JobContext| {
                let open_jobs = for_handlers.clone();
                async move {
                    let context = job.clone();
                    let ticket = open_jobs.begin(job.id, &job.body, move || context.is_lost());
                    let act = act(&open_jobs);
                    tokio::time::sleep(act.takes()).await;
                    end(&open_jobs, ticket, act)
                }
            };
            worker.register(TUBE, handler).expect("the name is good");
            (handle, thread::spawn(move || runtime.block_on(worker.run())))
        } else {
            let mut worker = blocking::Worker::new(options).expect("the options are good");
            let handle = worker.handle();
            let handler = move |job: &blocking::JobContext| {
                let context = job.clone();
                let ticket = for_handlers.begin(job.id, &job.body, move || context.is_lost());
                let act = act(&for_handlers);
                thread::sleep(act.takes());
                end(&for_handlers, ticket, act)
            };
            worker.register(TUBE, handler).expect("the name is good");
            (handle, thread::spawn(move || worker.run()))
        };
        open_jobs.end(name, move || handle.stop(), thread)
    }
}

/// What the handler of a job does.
#[derive(Clone, Copy)]
enum Act {
    Succeed(Duration),
    /// Takes longer than the job's time to run, perhaps.
    Dawdle(Duration),
    Fail,
    Release,
    Bury,
    Panic,
}

impl Act {
    fn takes(self) -> Duration {
        match self {
            Act::Succeed(time) | Act::Dawdle(time) => time,
            Act::Fail | Act::Release | Act::Bury | Act::Panic => Duration::ZERO,
        }
    }
}

/// What the next handler does.
fn act(open_jobs: &OpenJobs<JobId>) -> Act {
    let mut rng = open_jobs.rng();
    let quick = Act::Succeed(rng.millis(3));
    if open_jobs.stage.is_calm() {
        return quick;
    }
    match rng.below(2000) {
        0 => Act::Dawdle(open_jobs.stage.at_most(Duration::from_secs(1) + rng.millis(6000))),
        1..=20 => Act::Fail,
        21..=40 => Act::Release,
        41..=50 => Act::Bury,
        51..=60 => Act::Panic,
        61..=80 => Act::Dawdle(rng.millis(300)),
        _ => quick,
    }
}

/// The handler is done.
fn end(open_jobs: &OpenJobs<JobId>, ticket: u64, act: Act) -> Outcome {
    match act {
        Act::Succeed(_) | Act::Dawdle(_) => open_jobs.finish(ticket),
        Act::Fail | Act::Release | Act::Bury | Act::Panic => open_jobs.give_back(ticket),
    }
    match act {
        Act::Succeed(_) | Act::Dawdle(_) => Outcome::Delete,
        Act::Fail => Outcome::Retry,
        Act::Release => Outcome::release(),
        Act::Bury => Outcome::bury(),
        Act::Panic => panic::panic_any(ON_PURPOSE),
    }
}

/// The worker reports what happens.
fn hear(open_jobs: &OpenJobs<JobId>, event: &WorkerEvent) {
    match &event.what {
        WorkerEventKind::Connected => count(&open_jobs.stage.ledger.counts.connections),
        WorkerEventKind::Settled { job, fate } => {
            let told = match fate {
                JobFate::Deleted => Told::Ended,
                JobFate::Unknown => Told::Unknown,
                JobFate::Lost(_) => Told::Lost,
                _ => Told::GivenBack,
            };
            open_jobs.hear(job, told);
        }
        _ => {}
    }
}
