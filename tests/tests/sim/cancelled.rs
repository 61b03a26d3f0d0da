//! Callers that give up waiting for a job, again and again and at every point, over a network without faults: every job
//! is delivered, and only once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use fixtures::{
    gearmand::PacketType,
    history::{Checker, Event, Fate, Key, Report, Rules},
};
use queue_core::proof::drop_after;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{beanstalk, gearman, rng::Rng, world::World};

/// How long the last callers wait.
const CALM: Duration = Duration::from_secs(60);
/// Maximum number of jobs waiting for the callers.
const BACKLOG: i64 = 30;

/// The state that all callers of a run share; a clone is the same state.
#[derive(Clone)]
struct Shared {
    world: World,
    start: Instant,
    checker: Arc<Mutex<Checker>>,
    notes: Arc<AtomicU64>,
    keys: Arc<AtomicU64>,
    /// Jobs that were submitted and not taken yet.
    waiting: Arc<AtomicI64>,
    /// Number of callers that still have to give up.
    to_cancel: Arc<AtomicI64>,
    is_over: Arc<AtomicBool>,
    /// A bad client: it drops a job that arrives at the moment its caller gives up.
    loses: bool,
}

impl Shared {
    fn new(world: World, count: u64, loses: bool) -> Self {
        let rules = Rules { exactly_once: true, all_end: true, ..Rules::default() };
        Shared {
            world,
            start: Instant::now(),
            checker: Arc::new(Mutex::new(Checker::new(rules))),
            notes: Arc::default(),
            keys: Arc::default(),
            waiting: Arc::default(),
            to_cancel: Arc::new(AtomicI64::new(count as i64)),
            is_over: Arc::default(),
            loses,
        }
    }

    fn note(&self, actor: u32, event: &Event) {
        let mut checker = self.checker.lock().unwrap();
        let at = self.start.elapsed();
        checker.note(at, actor, event);
        if self.notes.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
            checker.retire(at);
        }
    }

    /// Submits jobs while callers arrive, bypassing the network.
    async fn submit(self, mut rng: Rng, submit: fn(&World, Key)) {
        while !self.is_closing() {
            sleep(rng.millis(5)).await;
            if self.waiting.load(Ordering::Relaxed) >= BACKLOG {
                continue;
            }
            let key = self.keys.fetch_add(1, Ordering::Relaxed);
            self.note(0, &Event::Submit { key, deadline: None, at_least_once: false });
            submit(&self.world, key);
            self.note(0, &Event::Submitted { key, fate: Fate::Acknowledged });
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits like a caller that may give up: after some time, or after this number of polls. Counts that.
    async fn ask<T>(&self, rng: &mut Rng, wait: impl Future<Output = T>) -> Option<T> {
        let polls = if rng.one_in(3) { 1 + rng.below(3) as usize } else { usize::MAX };
        let patience = if self.is_closing() { Duration::from_secs(5) } else { rng.millis(6) };
        let polls = if self.is_closing() { usize::MAX } else { polls };
        let mut got = timeout(patience, drop_after(polls, wait)).await.unwrap_or_default();
        if self.loses && !self.is_closing() && rng.one_in(3) {
            got = None;
        }
        if got.is_none() {
            self.to_cancel.fetch_sub(1, Ordering::Relaxed);
        }
        got
    }

    fn taken(&self, actor: u32, key: Key) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.note(actor, &Event::Delivered { key });
    }

    fn ends(&self, actor: u32, key: Key) {
        self.note(actor, &Event::Finish { key, deadline: None });
    }

    fn ended(&self, actor: u32, key: Key, fate: Fate) {
        self.note(actor, &Event::Finished { key, fate });
    }

    /// Enough callers have given up; those that arrive now wait.
    fn is_closing(&self) -> bool {
        self.to_cancel.load(Ordering::Relaxed) <= 0
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Gives the last callers time to take all jobs. What remains is lost.
    async fn close(
        self,
        callers: Vec<JoinHandle<()>>,
        remaining: fn(&World) -> Vec<Key>,
    ) -> Report {
        sleep(CALM).await;
        for key in remaining(&self.world) {
            self.note(0, &Event::Stuck { key });
        }
        self.is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
        let checker = Arc::into_inner(self.checker).expect("all actors have ended");
        checker.into_inner().unwrap().finish()
    }
}

/// Reserves of beanstalkd.
pub async fn reserves(seed: u64, count: u64, loses: bool) -> Report {
    let mut rng = Rng::new(seed);
    let shared = Shared::new(World::new(rng.next(), beanstalk::server), count, loses);
    let producer = tokio::spawn(shared.clone().submit(rng.fork(), |world, key| {
        // No deadline passes.
        let put = format!("put {} 0 1000000000 {}\r\n{key}\r\n", key % 3, key.to_string().len());
        assert!(world.ask(put.as_bytes()).starts_with(b"INSERTED "));
    }));
    let callers: Vec<_> =
        (1..3).map(|actor| tokio::spawn(reserve(shared.clone(), actor, rng.fork()))).collect();
    producer.await.unwrap();
    shared.close(callers, beanstalk::remaining).await
}

async fn reserve(shared: Shared, actor: u32, mut rng: Rng) {
    use beanstalk_client::{Client, ConnectOptions, ReleaseOptions, Reserved, RetryPolicy};
    let world = shared.world.clone();
    let options: ConnectOptions = "simulated:11300".parse().unwrap();
    let options = options
        .connector(move |_| world.clone().connect())
        .retry(RetryPolicy::default().seed(rng.next()));
    let mut client = Client::connect(options.clone()).await.unwrap();
    while !shared.is_over() {
        let is_closing = shared.is_closing();
        let wait = Duration::from_secs(if is_closing { 2 } else { rng.below(3) });
        let Some(reserved) = shared.ask(&mut rng, client.reserve_with_timeout(wait)).await else {
            // The commands between an abandoned reserve and the next one.
            match rng.below(60) {
                0 => drop(client.list_tube_used().await.unwrap()),
                1 => drop(client.watch("other").await.unwrap()),
                2 => drop(client.ignore("other").await),
                3 => client = Client::connect(options.clone()).await.unwrap(),
                4 => client.reconnect().await.unwrap(),
                5 => sleep(rng.millis(300)).await,
                _ => {}
            }
            continue;
        };
        match reserved.unwrap() {
            Reserved::Job(job) => {
                let key = std::str::from_utf8(&job.body).unwrap().parse().unwrap();
                if rng.one_in(50) {
                    // Given back, and so not yet delivered.
                    let back = ReleaseOptions::new(rng.below(3) as u32);
                    client.release(&job, back).await.unwrap();
                    continue;
                }
                shared.taken(actor, key);
                shared.ends(actor, key);
                client.delete(&job).await.unwrap();
                shared.ended(actor, key, Fate::Acknowledged);
            }
            Reserved::TimedOut | Reserved::DeadlineSoon => {}
        }
    }
}

/// Waits of workers of Gearman for their next job.
pub async fn next_jobs(seed: u64, count: u64, loses: bool) -> Report {
    let mut rng = Rng::new(seed);
    let shared = Shared::new(World::new(rng.next(), gearman::server), count, loses);
    let submitter = tokio::spawn(shared.clone().submit(rng.fork(), |world, key| {
        let key = key.to_string();
        let answer = world.ask(&PacketType::SubmitJobBg.request(&["f", &key, &key]));
        assert!(answer.starts_with(b"\0RES\0\0\0\x08"));
    }));
    let callers: Vec<_> =
        (1..3).map(|actor| tokio::spawn(take(shared.clone(), actor, rng.fork()))).collect();
    submitter.await.unwrap();
    shared.close(callers, gearman::remaining).await
}

async fn take(shared: Shared, actor: u32, mut rng: Rng) {
    use gearman_client::{ConnectOptions, Worker, WorkerOptions};
    let world = shared.world.clone();
    let options: ConnectOptions = "simulated:4730".parse().unwrap();
    let options = options.connector(move |_| world.clone().connect());
    let worker = |rng: &mut Rng| {
        let options = WorkerOptions::from(options.clone())
            .slots(1 + rng.below(3) as usize)
            .connections(1 + rng.below(2) as usize);
        let mut worker = Worker::new(options).unwrap();
        worker.can_do("f", None).unwrap();
        worker
    };
    let mut present = worker(&mut rng);
    while !shared.is_over() {
        let Some(job) = shared.ask(&mut rng, present.next_job()).await else {
            if !shared.is_closing() && rng.one_in(500) {
                present.stop().await;
                present = worker(&mut rng);
            }
            continue;
        };
        let key = std::str::from_utf8(&job.workload).unwrap().parse().unwrap();
        shared.taken(actor, key);
        shared.ends(actor, key);
        job.complete("done").await.unwrap();
        shared.ended(actor, key, Fate::Unknown);
    }
    present.stop().await;
}
