//! Workers of both faces, whose handlers succeed, fail, panic and take too long.

use std::{
    net::SocketAddr,
    panic,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use beanstalk_client::{
    Heartbeat, Inspect, JobFate, JobId, Outcome, Retries, Worker, WorkerEvent, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport, blocking,
};
use fixtures::history::{Fate, Key};
use tokio::runtime::Runtime;

use super::{TUBE, connect_options};
use crate::{ON_PURPOSE, body::key_of, ledger::count, rng::Rng, stage::Stage};

/// What a worker is like.
pub struct Plan {
    pub actor: u32,
    pub is_async: bool,
    pub place: SocketAddr,
    pub slots: usize,
    pub prefetch: usize,
    pub heartbeat: Heartbeat,
}

/// A worker at work.
pub struct Running {
    name: String,
    handle: WorkerHandle,
    desk: Arc<Desk>,
    thread: JoinHandle<WorkerReport>,
}

impl Plan {
    pub fn start(self, stage: &Arc<Stage>, runtime: &Runtime, mut rng: Rng) -> Running {
        let Plan { actor, is_async, place, slots, prefetch, heartbeat } = self;
        let stage = stage.clone();
        let desk =
            Arc::new(Desk { stage, actor, rng: Mutex::new(rng.fork()), jobs: Mutex::default() });
        let observer = desk.clone();
        let connect = connect_options(place, rng.next()).total_timeout(None);
        let (base, cap) = (Duration::from_millis(1), Duration::from_secs(2));
        let options = WorkerOptions::new(connect)
            .and_then(|options| options.tubes([TUBE]))
            .expect("the options are good")
            .slots(slots)
            .prefetch(prefetch)
            .inspect(if prefetch > 8 { Inspect::OnDemand } else { Inspect::Before })
            .heartbeat(heartbeat)
            .reserve_wait(Duration::from_secs(1 + rng.below(3)))
            // Kills of the server count as reserves, and everybody here gives jobs back.
            .retries(Retries::default().backoff(base, 2, cap).releases(6).reserves(10_000))
            .reconnect_backoff(Duration::from_millis(20), Duration::from_millis(500))
            .seed(rng.next())
            .on_event(move |event| observer.hear(event));
        let face = if is_async { "async" } else { "blocking" };
        let name =
            format!("{face} worker {actor} ({slots} slots, prefetch {prefetch}, {heartbeat:?})");
        let for_handlers = desk.clone();
        let (handle, thread) = if is_async {
            let worker = Worker::new(options).expect("the options are good");
            let (handle, runtime) = (worker.handle(), runtime.handle().clone());
            let run = move || {
                runtime.block_on(worker.run(move |job| {
                    let (desk, job): (_, beanstalk_client::JobContext) =
                        (for_handlers.clone(), job);
                    async move {
                        let context = job.clone();
                        let (ticket, act) =
                            desk.begin(job.id, &job.body, move || context.is_lost());
                        tokio::time::sleep(act.takes()).await;
                        desk.end(ticket, act)
                    }
                }))
            };
            (handle, thread::spawn(run))
        } else {
            let worker = blocking::Worker::new(options).expect("the options are good");
            let handle = worker.handle();
            let run = move || {
                worker.run(|job: blocking::JobContext| {
                    let context = job.clone();
                    let (ticket, act) =
                        for_handlers.begin(job.id, &job.body, move || context.is_lost());
                    thread::sleep(act.takes());
                    for_handlers.end(ticket, act)
                })
            };
            (handle, thread::spawn(run))
        };
        Running { name, handle, desk, thread }
    }
}

impl Running {
    /// Stops it in an orderly way; its words.
    pub fn stop(self) -> String {
        let Running { name, handle, desk, thread } = self;
        handle.stop();
        let report = thread.join().expect("a worker does not panic");
        for Entry { key, id, .. } in &desk.jobs.lock().unwrap().running {
            let what = format!("{name}: nobody was told what became of job {id} (key {key})");
            desk.stage.ledger.problem(what);
        }
        format!("{name}: {report}")
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

/// What a worker's handlers and its observer share.
struct Desk {
    stage: Arc<Stage>,
    actor: u32,
    rng: Mutex<Rng>,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    tickets: u64,
    running: Vec<Entry>,
}

/// A job whose fate has not been told.
struct Entry {
    ticket: u64,
    id: JobId,
    key: Key,
    /// Its handler has asked for its end.
    is_finishing: bool,
    is_lost: Box<dyn Fn() -> bool + Send>,
}

impl Desk {
    /// A handler gets its job.
    fn begin(
        &self,
        id: JobId,
        body: &[u8],
        is_lost: impl Fn() -> bool + Send + 'static,
    ) -> (u64, Act) {
        let key = key_of(body).unwrap_or_else(|| {
            let what = format!("a body that nobody put: {}", body.escape_ascii());
            self.stage.ledger.problem(what);
            0
        });
        self.stage.ledger.delivered(self.actor, key);
        let mut jobs = self.jobs.lock().unwrap();
        jobs.tickets += 1;
        let ticket = jobs.tickets;
        let is_lost = Box::new(is_lost);
        jobs.running.push(Entry { ticket, id, key, is_finishing: false, is_lost });
        drop(jobs);
        (ticket, self.act())
    }

    fn act(&self) -> Act {
        let mut rng = self.rng.lock().unwrap();
        let quick = Act::Succeed(rng.millis(3));
        if self.stage.is_calm() {
            return quick;
        }
        match rng.below(2000) {
            0 => Act::Dawdle(Duration::from_secs(1) + rng.millis(6000)),
            1..=20 => Act::Fail,
            21..=40 => Act::Release,
            41..=50 => Act::Bury,
            51..=60 => Act::Panic,
            61..=80 => Act::Dawdle(rng.millis(300)),
            _ => quick,
        }
    }

    /// The handler is done.
    fn end(&self, ticket: u64, act: Act) -> Outcome {
        match act {
            Act::Fail => return Outcome::Retry,
            Act::Release => return Outcome::release(),
            Act::Bury => return Outcome::bury(),
            Act::Panic => panic::panic_any(ON_PURPOSE),
            Act::Succeed(_) | Act::Dawdle(_) => {}
        }
        let mut jobs = self.jobs.lock().unwrap();
        // Its fate has been told when it was lost meanwhile.
        if let Some(entry) = jobs.running.iter_mut().find(|entry| entry.ticket == ticket) {
            entry.is_finishing = true;
            self.stage.ledger.finish(self.actor, entry.key);
        }
        Outcome::Delete
    }

    /// The worker tells what became of a job.
    fn hear(&self, event: &WorkerEvent) {
        let (job, fate) = match &event.what {
            WorkerEventKind::Connected => return count(&self.stage.ledger.counts.connections),
            WorkerEventKind::Settled { job, fate } => (*job, *fate),
            _ => return,
        };
        let mut jobs = self.jobs.lock().unwrap();
        // Two slots may have had the same job: one has lost it, or given it back and not been answered yet.
        let fits = |entry: &Entry| match fate {
            JobFate::Lost(_) => (entry.is_lost)(),
            JobFate::Deleted => entry.is_finishing,
            JobFate::Unknown => !(entry.is_lost)(),
            _ => !entry.is_finishing,
        };
        let of = |strict: bool| {
            jobs.running.iter().position(|entry| entry.id == job && (!strict || fits(entry)))
        };
        let Some(place) = of(true).or_else(|| of(false)) else { return };
        let entry = jobs.running.remove(place);
        self.stage.ledger.remark(&format!("{} settles key {}: {fate:?}", self.actor, entry.key));
        if entry.is_finishing {
            let fate = match fate {
                JobFate::Deleted => Fate::Acknowledged,
                JobFate::Unknown => Fate::Unknown,
                _ => Fate::NotSent,
            };
            self.stage.ledger.finished(self.actor, entry.key, fate);
        }
    }
}
