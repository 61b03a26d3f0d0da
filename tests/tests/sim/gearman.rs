//! Clients and workers of Gearman in one simulated world.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fixtures::{
    fault::Fault,
    history::{Event, Fate, Key, Rules, check},
    offline::Offline,
};
use gearman_client::{
    Client, ConnectOptions, Error, Failure, Job, JobContext, Outcome, Priority, RetryPolicy,
    SubmitOptions, UniqueId, Worker, WorkerOptions,
};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    outcome::Outcome as SeedOutcome,
    rng::Rng,
    world::{SLOWEST, Weather, World},
};

/// How long a submission may take until the server has the job.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a foreground job may take, from the submission to its end.
const JOB_PATIENCE: Duration = Duration::from_secs(10);
/// How long the server may hold a reply back.
const LONGEST_DELAY: Duration = Duration::from_secs(6);
/// How long a healed world gets to settle: longer than a worker sleeps, and tries to connect.
const CALM: Duration = Duration::from_secs(60);

fn server() -> Offline {
    let started = Duration::from_secs(1_700_000_000);
    fixtures::gearmand::Server::builder().started(started).log_capacity(0).offline()
}

/// Runs one seed.
pub async fn run(seed: u64) -> SeedOutcome {
    let mut rng = Rng::new(seed);
    let world = World::new(rng.next(), server);
    let stage = Stage {
        world: world.clone(),
        keys: Arc::default(),
        cancelled: Arc::default(),
        is_over: Arc::default(),
        stop: Arc::default(),
    };
    let quiet = rng.one_in(10);
    if !quiet {
        stage.spoil(&mut rng);
    }
    let mut submitters = Vec::new();
    for client in 0..1 + rng.below(2) as u32 {
        submitters.push(tokio::spawn(stage.clone().client(10 * (1 + client), rng.fork())));
    }
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..1 + rng.below(2) as u32 {
        workers.push(tokio::spawn(stage.clone().serving_worker(50 + number, rng.fork())));
    }
    workers.push(tokio::spawn(stage.clone().taking_worker(90, rng.fork())));
    if !quiet {
        tokio::spawn(stage.clone().chaos(rng.fork()));
    }
    for submitter in submitters {
        submitter.await.unwrap();
    }
    world.heal();
    sleep(CALM).await;
    stage.is_over.store(true, Ordering::Relaxed);
    stage.stop.notify_waiters();
    for worker in workers {
        worker.await.unwrap();
    }
    sleep(Duration::from_secs(2)).await;
    world.note(0, Event::Left { connections: world.open_connections() });
    for key in remaining(&world) {
        world.note(0, Event::Remains { key });
    }
    let (history, struck, trace) = world.end();
    let rules = Rules {
        exactly_once: quiet,
        slack: Duration::from_millis(250),
        in_flight: LONGEST_DELAY + 2 * SLOWEST,
        ..Rules::default()
    };
    let report = check(&history, &rules);
    let cancelled = stage.cancelled.load(Ordering::Relaxed);
    SeedOutcome { history, report, struck, trace, cancelled }
}

/// The jobs in the server, queued or running: their unique ids are their keys.
fn remaining(world: &World) -> Vec<Key> {
    let listing = String::from_utf8(world.ask(b"show unique jobs\r\n")).unwrap();
    listing.lines().filter(|line| *line != ".").map(|line| line.parse().unwrap()).collect()
}

/// A workload is the job's key and some filling.
fn workload_of(key: Key, rng: &mut Rng) -> Vec<u8> {
    let mut workload = format!("{key} ").into_bytes();
    let filling = if rng.one_in(20) { 20_000 } else { 200 };
    workload.resize(workload.len() + rng.below(filling) as usize, b'x');
    workload
}

fn key_of(workload: &[u8]) -> Key {
    let text = workload.split(|byte| *byte == b' ').next().unwrap();
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn reversed(workload: &[u8]) -> Vec<u8> {
    workload.iter().rev().copied().collect()
}

fn fate_of(error: &Error) -> Fate {
    match error.fate() {
        gearman_client::Fate::NotSent => Fate::NotSent,
        gearman_client::Fate::Refused => Fate::Refused,
        gearman_client::Fate::Unknown => Fate::Unknown,
    }
}

#[derive(Clone)]
struct Stage {
    world: World,
    keys: Arc<AtomicU64>,
    cancelled: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    stop: Arc<Notify>,
}

impl Stage {
    fn options(&self, rng: &mut Rng) -> ConnectOptions {
        let world = self.world.clone();
        let options: ConnectOptions = "simulated:4730".parse().unwrap();
        options
            .connector(move |_| world.clone().connect())
            .connect_timeout(Duration::from_secs(1))
            .reply_timeout(Duration::from_secs(3))
            .write_timeout(Duration::from_secs(3))
            .total_timeout(Some(PATIENCE))
            .retry(RetryPolicy::new(3).seed(rng.next()))
    }

    /// Bad weather, and requests that the server answers wrongly.
    fn spoil(&self, rng: &mut Rng) {
        self.world.lock().weather = Weather {
            cuts: rng.one_in(4).then_some(1).or(Some(2 + rng.below(4))),
            closed: Some(3 + rng.below(6)),
            splits: Some(1 + rng.below(4)),
        };
        for _ in 0..rng.below(8) {
            let name = [
                "SUBMIT_JOB_BG",
                "SUBMIT_JOB",
                "GRAB_JOB_ALL",
                "WORK_COMPLETE",
                "PRE_SLEEP",
                "ECHO_REQ",
                "CAN_DO",
                "OPTION_REQ",
            ][rng.below(8) as usize];
            let strike = Fault::nth(1 + rng.below(30)).of(name);
            self.world.fault(match rng.below(6) {
                0 if name.starts_with("SUBMIT") => {
                    strike.reply(r"ERROR QUEUE_ERROR\0Job queue is full")
                }
                1 => strike.delay(rng.millis(LONGEST_DELAY.as_millis() as u64)),
                2 => strike.hang(),
                3 => strike.cut_after(rng.below(30) as usize),
                4 => strike.chunks(1 + rng.below(5) as usize),
                _ => strike.reset_after(rng.below(30) as usize),
            });
        }
    }

    /// Ends the server, which forgets everything, or all its connections, now and then.
    async fn chaos(self, mut rng: Rng) {
        for _ in 0..rng.below(4) {
            sleep(Duration::from_secs(1) + rng.millis(10_000)).await;
            self.world.restart(!rng.one_in(3), rng.millis(1500));
        }
    }

    fn submit(&self, actor: u32, deadline: Duration, at_least_once: bool) -> Key {
        let key = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = Some(deadline);
        self.world.note(actor, Event::Submit { key, deadline, at_least_once });
        key
    }

    fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    /// Callers that share a client.
    async fn client(self, actor: u32, mut rng: Rng) {
        let client = loop {
            match Client::connect(self.options(&mut rng)).await {
                Ok(client) => break client,
                Err(_) => sleep(rng.millis(500)).await,
            }
        };
        let mut callers = Vec::new();
        for caller in 0..1 + rng.below(3) as u32 {
            let (stage, client, rng) = (self.clone(), client.clone(), rng.fork());
            callers.push(tokio::spawn(stage.caller(actor + caller, client, rng)));
        }
        for caller in callers {
            caller.await.unwrap();
        }
    }

    async fn caller(self, actor: u32, client: Client, mut rng: Rng) {
        for _ in 0..10 + rng.below(20) {
            match rng.below(5) {
                0 | 1 => self.background(actor, &client, &mut rng).await,
                2 | 3 => self.foreground(actor, &client, &mut rng).await,
                _ => self.echo(&client, &mut rng).await,
            }
            sleep(rng.millis(300)).await;
        }
    }

    fn submission(&self, key: Key, rng: &mut Rng, repeats: bool) -> SubmitOptions {
        let unique = UniqueId::try_from(key.to_string()).unwrap();
        let priority = [Priority::High, Priority::Normal, Priority::Low][rng.below(3) as usize];
        SubmitOptions::default().unique(unique).priority(priority).idempotent(repeats)
    }

    async fn background(&self, actor: u32, client: &Client, rng: &mut Rng) {
        let repeats = rng.one_in(2);
        let key = self.submit(actor, PATIENCE, repeats);
        let (workload, options) = (workload_of(key, rng), self.submission(key, rng, repeats));
        let submission = client.submit_background("reverse", &workload, options);
        let patience = if rng.one_in(5) { rng.millis(20) } else { 2 * PATIENCE };
        let fate = match timeout(patience, submission).await {
            Ok(Ok(_)) => Fate::Acknowledged,
            Ok(Err(error)) => fate_of(&error),
            Err(_) => {
                self.cancel();
                Fate::Unknown
            }
        };
        self.world.note(actor, Event::Submitted { key, fate });
    }

    /// A job whose answer is waited for: its end is its acknowledgement, because the server drops a queued job whose
    /// submitter's connection is lost.
    async fn foreground(&self, actor: u32, client: &Client, rng: &mut Rng) {
        let repeats = rng.one_in(3);
        let key = self.submit(actor, JOB_PATIENCE, repeats);
        let workload = workload_of(key, rng);
        let options = self.submission(key, rng, repeats).timeout(JOB_PATIENCE);
        let run = async {
            let job: Job = client.submit("reverse", &workload, options).await?;
            job.outcome().await
        };
        let patience = if rng.one_in(5) { rng.millis(600) } else { 4 * PATIENCE };
        let fate = match timeout(patience, run).await {
            Ok(Ok(outcome)) => {
                if let Outcome::Complete(answer) = outcome {
                    assert_eq!(answer, reversed(&workload), "job {key} got another job's answer");
                    self.world.note(actor, Event::Finish { key, deadline: None });
                    let fate = Fate::Acknowledged;
                    self.world.note(actor, Event::Finished { key, fate });
                }
                Fate::Acknowledged
            }
            Ok(Err(error)) => fate_of(&error),
            Err(_) => {
                self.cancel();
                Fate::Unknown
            }
        };
        self.world.note(actor, Event::Submitted { key, fate });
    }

    /// A question whose answer shows whether the connection is in step.
    async fn echo(&self, client: &Client, rng: &mut Rng) {
        let question = rng.next().to_string();
        let patience = if rng.one_in(2) { rng.millis(10) } else { 2 * PATIENCE };
        match timeout(patience, client.echo(&question)).await {
            Ok(Ok(answer)) => assert_eq!(answer, question, "an answer for somebody else"),
            Ok(Err(_)) => {}
            Err(_) => self.cancel(),
        }
    }

    async fn worker(&self, rng: &mut Rng) -> Option<Worker> {
        while !self.is_over.load(Ordering::Relaxed) {
            let options = WorkerOptions::new(self.options(rng).into())
                .concurrency(1 + rng.below(3) as usize)
                .connections(1 + rng.below(2) as usize)
                .regrab(Duration::from_secs(5))
                .grace(Duration::from_secs(5));
            match Worker::connect(options).await {
                Ok(worker) => return Some(worker),
                Err(_) => sleep(rng.millis(500)).await,
            }
        }
        None
    }

    /// A worker with a handler.
    async fn serving_worker(self, actor: u32, mut rng: Rng) {
        let stop = self.stop.clone();
        let mut stopped = std::pin::pin!(stop.notified());
        stopped.as_mut().enable();
        let Some(mut worker) = self.worker(&mut rng).await else { return };
        let (world, rng) = (self.world.clone(), Mutex::new(rng));
        let handler = move |job: JobContext| {
            let (world, mut rng) = (world.clone(), rng.lock().unwrap().fork());
            async move {
                world.note(actor, Event::Delivered { key: key_of(&job.workload) });
                let longest = if rng.one_in(10) { 9000 } else { 300 };
                sleep(rng.millis(longest)).await;
                if rng.one_in(3) {
                    // A job that is lost already is told to the worker's report.
                    let _ = job.status(1, 2).await;
                    let _ = job.data("piece").await;
                }
                if rng.one_in(12) {
                    return Err(Failure::Fail);
                }
                Ok(reversed(&job.workload))
            }
        };
        worker.register("reverse", handler).unwrap();
        worker.run_until(stopped).await;
    }

    /// A worker that takes its jobs by hand, and at times gives up waiting for one.
    async fn taking_worker(self, actor: u32, mut rng: Rng) {
        let Some(mut worker) = self.worker(&mut rng).await else { return };
        worker.can_do("reverse", None).unwrap();
        while !self.is_over.load(Ordering::Relaxed) {
            let patience = if rng.one_in(2) { rng.millis(400) } else { Duration::from_secs(5) };
            let Ok(job) = timeout(patience, worker.next_job()).await else {
                self.cancel();
                continue;
            };
            self.world.note(actor, Event::Delivered { key: key_of(&job.workload) });
            sleep(rng.millis(200)).await;
            let answer = reversed(&job.workload);
            match rng.below(12) {
                // Dropped, and so failed.
                0 => {}
                1 => drop(job.exception("no").await),
                _ => drop(job.complete(answer).await),
            }
        }
        worker.stop().await;
    }
}
