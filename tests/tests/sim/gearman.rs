//! Clients and workers of Gearman in one simulated world, or two.

use std::{
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use fixtures::{
    fault::Fault,
    history::{Event, Fate, Key, Rules},
    offline::Offline,
};
use gearman_client::{
    Address, Client, ConnectOptions, Failure, Job, JobContext, JobHandle, Outcome, Priority,
    RetryPolicy, Selection, Servers, SubmitOptions, UniqueId, Worker, WorkerOptions,
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    body::{body_of, fate_of, key_of},
    kinds::{Kind, Kinds},
    outcome::Outcome as SeedOutcome,
    rng::Rng,
    stage::{Defect, PATIENCE, Stage, strike},
    world::World,
};

/// How long a foreground job may take, from the submission to its end.
const JOB_PATIENCE: Duration = Duration::from_secs(10);
/// How long a healed world gets to settle: longer than a worker sleeps, and tries to connect.
const CALM: Duration = Duration::from_secs(60);

pub fn server() -> Offline {
    let started = Duration::from_secs(1_700_000_000);
    fixtures::gearmand::Server::builder().started(started).log_capacity(0).offline()
}

/// Runs one seed.
pub async fn run(seed: u64, defect: Option<Defect>) -> SeedOutcome {
    let mut rng = Rng::new(seed);
    let cast = Cast(Stage::new(Kinds::of(seed), &mut rng, server, defect));
    cast.spoil(&mut rng, fault);
    let mut submitters = Vec::new();
    for client in 0..1 + rng.below(2) as u32 {
        submitters.push(tokio::spawn(cast.clone().client(10 * (1 + client), rng.fork())));
    }
    let mut workers: Vec<JoinHandle<()>> = Vec::new();
    for number in 0..1 + rng.below(2) as u32 {
        workers.push(tokio::spawn(cast.clone().serving_worker(50 + number, rng.fork())));
    }
    workers.push(tokio::spawn(cast.clone().taking_worker(90, rng.fork())));
    let mut survivors = Vec::new();
    for submitter in submitters {
        survivors.extend(submitter.await.unwrap());
    }
    cast.heal().await;
    for (actor, client) in survivors {
        for worker in (50..50 + workers.len() as u32 - 1).chain([90]) {
            cast.call_worker(actor, &client, worker, &mut rng).await;
        }
    }
    cast.calm(CALM, remaining).await;
    for worker in workers {
        worker.await.unwrap();
    }
    let rules = Rules { exactly_once: cast.kinds.are_quiet(), all_end: true, ..Rules::default() };
    cast.0.end(remaining, rules).await
}

/// A request that the server answers wrongly.
fn fault(kinds: Kinds, rng: &mut Rng) -> Option<Fault> {
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
    let fault = Fault::nth(1 + rng.below(30)).of(name);
    let of =
        [Kind::Delay, Kind::Silence, Kind::CutReply, Kind::ResetReply, Kind::Chunks, Kind::Denial];
    let may_deny = name.starts_with("SUBMIT");
    let denial = r"ERROR QUEUE_ERROR\0Job queue is full";
    let kind = kinds.pick(if may_deny { &of } else { &of[..5] }, rng)?;
    Some(strike(fault, kind, denial, 30, rng))
}

fn server_of(job: &JobHandle) -> &Address {
    job.server().expect("a job that came has a server")
}

/// The function that only this worker serves.
fn function_of(worker: u32) -> String {
    format!("of-{worker}")
}

/// The jobs in the server, queued or running: their unique ids are their keys.
pub fn remaining(world: &World) -> Vec<Key> {
    let listing = String::from_utf8(world.ask(b"show unique jobs\r\n")).unwrap();
    listing.lines().filter(|line| *line != ".").map(|line| line.parse().unwrap()).collect()
}

fn reversed(workload: &[u8]) -> Vec<u8> {
    workload.iter().rev().copied().collect()
}

#[derive(Clone)]
struct Cast(Stage);

impl Deref for Cast {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl Cast {
    fn options(&self, server: usize, rng: &mut Rng) -> ConnectOptions {
        let world = self.worlds[server].clone();
        let options: ConnectOptions = format!("simulated-{server}:4730").parse().unwrap();
        options
            .connector(move |_| world.clone().connect())
            .connect_timeout(Duration::from_secs(1))
            .reply_timeout(Duration::from_secs(3))
            .write_timeout(Duration::from_secs(3))
            .total_timeout(Some(PATIENCE))
            .retry(RetryPolicy::new(3).seed(rng.next()))
    }

    fn servers(&self, rng: &mut Rng) -> Servers {
        let selections = [Selection::InOrder, Selection::RoundRobin, Selection::ByKey];
        let selection = selections[rng.below(3) as usize];
        let each = (0..self.worlds.len()).map(|server| self.options(server, rng));
        Servers::new(each).unwrap().selection(selection)
    }

    /// Callers that share a client.
    async fn client(self, actor: u32, mut rng: Rng) -> Option<(u32, Client)> {
        let client = loop {
            match Client::connect(self.servers(&mut rng)).await {
                Ok(client) => break client,
                Err(_) => sleep(rng.millis(500)).await,
            }
        };
        let mut callers = JoinSet::new();
        for caller in 0..1 + rng.below(3) as u32 {
            let (cast, client, rng) = (self.clone(), client.clone(), rng.fork());
            callers.spawn(cast.caller(actor + caller, client, rng));
        }
        callers.join_all().await;
        if actor == 10 && self.has_defect() {
            self.do_wrong(actor, client).await;
            return None;
        }
        Some((actor, client))
    }

    /// Makes a worker do a job in a healed world: it may fail, but the client has to be informed.
    async fn call_worker(&self, actor: u32, client: &Client, worker: u32, rng: &mut Rng) {
        let key = self.submit(actor, 3 * PATIENCE, false);
        let workload = body_of(key, rng);
        let options = self.submission(key, rng, false).timeout(3 * PATIENCE);
        let run = async {
            let job: Job = client.submit(function_of(worker), &workload, options).await?;
            job.outcome().await
        };
        let run = async { fate_of(&run.await) };
        self.call(actor, key, run).await;
    }

    /// The behaviour of a client with a defect.
    async fn do_wrong(&self, actor: u32, client: Client) {
        let submit = |key: Key| {
            let (client, workload) = (client.clone(), format!("{key} "));
            let unique = UniqueId::try_from(key.to_string()).unwrap();
            let options = SubmitOptions::default().unique(unique);
            async move { drop(client.submit_background("reverse", workload, options).await.unwrap()) }
        };
        self.0.do_wrong(actor, submit).await;
        if self.has(Defect::Leaks) {
            std::mem::forget(client);
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
        let (workload, options) = (body_of(key, rng), self.submission(key, rng, repeats));
        let submission = client.submit_background("reverse", &workload, options);
        let patience = self.patience(rng, 5, 20, 2 * PATIENCE);
        let submission = async { fate_of(&submission.await) };
        self.await_fate(actor, key, patience, submission).await;
    }

    /// A job whose answer is waited for: its end is its acknowledgement, because the server drops a queued job whose
    /// submitter's connection is lost.
    async fn foreground(&self, actor: u32, client: &Client, rng: &mut Rng) {
        let repeats = rng.one_in(3);
        let key = self.submit(actor, JOB_PATIENCE, repeats);
        let workload = body_of(key, rng);
        let options = self.submission(key, rng, repeats).timeout(JOB_PATIENCE);
        let run = async {
            let job: Job = client.submit("reverse", &workload, options).await?;
            job.outcome().await
        };
        let patience = self.patience(rng, 5, 600, 4 * PATIENCE);
        let run = async {
            let outcome = run.await;
            if let Ok(Outcome::Complete(answer)) = &outcome {
                assert_eq!(*answer, reversed(&workload), "job {key} got another job's answer");
                self.ends(actor, key, Fate::Acknowledged);
            }
            fate_of(&outcome)
        };
        self.await_fate(actor, key, patience, run).await;
    }

    /// A worker never knows whether the server has received the end of a job; the job's submitter does.
    fn ends(&self, actor: u32, key: Key, fate: Fate) {
        self.note(actor, Event::Finish { key, deadline: None });
        self.note(actor, Event::Finished { key, fate });
    }

    /// A request whose answer shows whether the connection is in step.
    async fn echo(&self, client: &Client, rng: &mut Rng) {
        let question = rng.next().to_string();
        let patience = self.patience(rng, 2, 10, 2 * PATIENCE);
        match timeout(patience, client.echo(&question)).await {
            Ok(Ok(answer)) => assert_eq!(answer, question, "an answer for somebody else"),
            Ok(Err(_)) => {}
            Err(_) => self.cancel(),
        }
    }

    async fn worker(&self, rng: &mut Rng) -> Option<Worker> {
        while !self.is_over() {
            let options = WorkerOptions::from(self.servers(rng))
                .slots(1 + rng.below(3) as usize)
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
        let (cast, rng) = (self.clone(), Arc::new(Mutex::new(rng)));
        let handler = move |job: JobContext| {
            let (cast, mut rng) = (cast.clone(), rng.lock().unwrap().fork());
            async move {
                let key = key_of(&job.workload).unwrap();
                cast.delivered(actor, key, server_of(&job.handle), &job.handle);
                sleep(cast.run_time(&mut rng)).await;
                if rng.one_in(3) {
                    // A job that is lost already is in the worker's report.
                    let _ = job.status(1, 2).await;
                    let _ = job.data("piece").await;
                }
                cast.ends(actor, key, Fate::Unknown);
                if cast.kinds.has(Kind::Failure) && rng.one_in(12) {
                    return Err(Failure::Fail);
                }
                Ok(reversed(&job.workload))
            }
        };
        worker.register("reverse", handler.clone()).unwrap();
        worker.register(function_of(actor), handler).unwrap();
        worker.run_until(stopped).await;
    }

    /// A worker that takes its jobs by hand, and sometimes gives up waiting for one.
    async fn taking_worker(self, actor: u32, mut rng: Rng) {
        let Some(mut worker) = self.worker(&mut rng).await else { return };
        worker.can_do("reverse", None).unwrap();
        worker.can_do(function_of(actor), None).unwrap();
        while !self.is_over() {
            let patience = self.patience(&mut rng, 2, 400, Duration::from_secs(5));
            let Ok(job) = timeout(patience, worker.next_job()).await else {
                self.cancel();
                continue;
            };
            let key = key_of(&job.workload).unwrap();
            self.delivered(actor, key, server_of(&job.handle), &job.handle);
            while self.has(Defect::Keeps) && !self.is_over() {
                sleep(Duration::from_secs(1)).await;
            }
            sleep(rng.millis(200)).await;
            self.ends(actor, key, Fate::Unknown);
            let answer = reversed(&job.workload);
            match rng.below(12) {
                _ if !self.kinds.has(Kind::Failure) => drop(job.complete(answer).await),
                // Dropped, and so failed.
                0 => {}
                1 => drop(job.exception("no").await),
                _ => drop(job.complete(answer).await),
            }
        }
        worker.stop().await;
    }
}
