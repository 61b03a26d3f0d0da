//! Producers, workers and plain clients of beanstalkd in one simulated world.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    Client, ConnectOptions, Delivery, Error, JobContext, JobFate, Outcome, Producer,
    ProducerOptions, PutOptions, Reserved, Retries, RetryPolicy, Worker, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use fixtures::{
    fault::Fault,
    history::{Event, Fate, Key, Rules, check},
    offline::Offline,
};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    outcome::Outcome as SeedOutcome,
    rng::Rng,
    world::{SLOWEST, Weather, World},
};

/// How long puts may take.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long the server may hold a reply back.
const LONGEST_DELAY: Duration = Duration::from_secs(6);
/// How long a healed world gets to settle.
const CALM: Duration = Duration::from_secs(40);

fn server() -> Offline {
    fixtures::beanstalkd::Server::builder().instance(1).log_capacity(0).offline()
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
    };
    let quiet = rng.one_in(10);
    if !quiet {
        stage.spoil(&mut rng);
    }
    let mut producers: Vec<JoinHandle<()>> = Vec::new();
    for actor in 1..=1 + rng.below(2) as u32 {
        producers.push(tokio::spawn(stage.clone().plain_producer(actor, rng.fork())));
    }
    producers.push(tokio::spawn(stage.clone().shared_producer(10, rng.fork())));
    let (workers, handles) = stage.workers(&mut rng);
    let consumer = tokio::spawn(stage.clone().plain_consumer(90, rng.fork()));
    if !quiet {
        tokio::spawn(stage.clone().chaos(rng.fork()));
    }
    for producer in producers {
        producer.await.unwrap();
    }
    world.heal();
    sleep(CALM).await;
    stage.is_over.store(true, Ordering::Relaxed);
    consumer.await.unwrap();
    for handle in handles {
        handle.stop();
    }
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
        slack: Duration::from_millis(250),
        in_flight: LONGEST_DELAY + 2 * SLOWEST,
        ..Rules::default()
    };
    let report = check(&history, &rules);
    let cancelled = stage.cancelled.load(Ordering::Relaxed);
    SeedOutcome { history, report, struck, trace, cancelled }
}

/// The bodies of all jobs in the server, in whatever state.
fn remaining(world: &World) -> Vec<Key> {
    let stats = String::from_utf8(world.ask(b"stats\r\n")).unwrap();
    let total = stats.lines().find_map(|line| line.strip_prefix("total-jobs: ")).unwrap();
    let mut keys = Vec::new();
    // Ids that refused puts have used up are not counted.
    for id in 1..=2 * total.parse::<u64>().unwrap() + 100 {
        let reply = world.ask(format!("peek {id}\r\n").as_bytes());
        if reply.starts_with(b"FOUND") {
            let body = reply.split(|byte| *byte == b'\n').nth(1).unwrap();
            keys.push(key_of(body));
        }
    }
    keys
}

/// A body is the job's key and some filling.
fn body_of(key: Key, rng: &mut Rng) -> Vec<u8> {
    let mut body = format!("{key} ").into_bytes();
    let filling = if rng.one_in(20) { 20_000 } else { 200 };
    body.resize(body.len() + rng.below(filling) as usize, b'x');
    body
}

fn key_of(body: &[u8]) -> Key {
    let text = body.split(|byte| *byte == b' ').next().unwrap();
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn fate_of<T>(outcome: &Result<T, Error>) -> Fate {
    match outcome {
        Ok(_) => Fate::Acknowledged,
        Err(error) => match error.fate() {
            beanstalk_client::Fate::NotSent => Fate::NotSent,
            beanstalk_client::Fate::Refused => Fate::Refused,
            beanstalk_client::Fate::Unknown => Fate::Unknown,
        },
    }
}

#[derive(Clone)]
struct Stage {
    world: World,
    keys: Arc<AtomicU64>,
    cancelled: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Stage {
    fn options(&self, rng: &mut Rng) -> ConnectOptions {
        let world = self.world.clone();
        let options: ConnectOptions = "simulated:11300".parse().unwrap();
        options
            .connector(move |_| world.clone().connect())
            .connect_timeout(Duration::from_secs(1))
            .reply_timeout(Duration::from_secs(3))
            .write_timeout(Duration::from_secs(3))
            .total_timeout(Some(PATIENCE))
            .retry(RetryPolicy::new(3).seed(rng.next()))
    }

    fn put_options(&self, rng: &mut Rng) -> PutOptions {
        let delay = if rng.one_in(5) { rng.below(4) } else { 0 };
        PutOptions::default()
            .priority(rng.below(3) as u32)
            .delay(Duration::from_secs(delay))
            .ttr(Duration::from_secs(2 + rng.below(10)))
    }

    /// Bad weather, and commands that the server answers wrongly.
    fn spoil(&self, rng: &mut Rng) {
        self.world.lock().weather = Weather {
            cuts: rng.one_in(4).then_some(1).or(Some(2 + rng.below(4))),
            closed: Some(3 + rng.below(6)),
            splits: Some(1 + rng.below(4)),
        };
        for _ in 0..rng.below(8) {
            let verb = ["put", "delete", "touch", "reserve-with-timeout", "release", "stats-job"]
                [rng.below(6) as usize];
            let strike = Fault::nth(1 + rng.below(30)).of(verb);
            self.world.fault(match rng.below(7) {
                0 => strike.reply("OUT_OF_MEMORY"),
                1 => strike.reply("INTERNAL_ERROR"),
                2 if verb == "put" => strike.reply("DRAINING"),
                3 => strike.delay(rng.millis(LONGEST_DELAY.as_millis() as u64)),
                4 => strike.hang(),
                5 => strike.cut_after(rng.below(12) as usize),
                _ => strike.reset_after(rng.below(12) as usize),
            });
        }
    }

    /// Ends the server now and then.
    async fn chaos(self, mut rng: Rng) {
        for _ in 0..rng.below(4) {
            sleep(Duration::from_secs(1) + rng.millis(10_000)).await;
            self.world.restart(!rng.one_in(3), rng.millis(1500));
        }
    }

    fn submit(&self, actor: u32, at_least_once: bool) -> Key {
        let key = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = Some(PATIENCE);
        self.world.note(actor, Event::Submit { key, deadline, at_least_once });
        key
    }

    /// One client that puts, and at times gives up.
    async fn plain_producer(self, actor: u32, mut rng: Rng) {
        let mut client = loop {
            match Client::connect(self.options(&mut rng)).await {
                Ok(client) => break client,
                Err(_) => sleep(rng.millis(500)).await,
            }
        };
        for _ in 0..20 + rng.below(20) {
            let key = self.submit(actor, false);
            let body = body_of(key, &mut rng);
            let options = self.put_options(&mut rng);
            let put = client.put(&body, options);
            let patience = if rng.one_in(4) { rng.millis(20) } else { 2 * PATIENCE };
            let fate = match tokio::time::timeout(patience, put).await {
                Ok(outcome) => fate_of(&outcome),
                Err(_) => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    Fate::Unknown
                }
            };
            self.world.note(actor, Event::Submitted { key, fate });
            sleep(rng.millis(300)).await;
        }
    }

    /// Callers that share a producer.
    async fn shared_producer(self, actor: u32, mut rng: Rng) {
        let options = ProducerOptions::new(self.options(&mut rng).into())
            .seed(rng.next())
            .timeout(PATIENCE)
            .max_jobs(1 + rng.below(8) as usize);
        let producer = Producer::new(options).unwrap();
        let mut callers = Vec::new();
        for caller in 0..1 + rng.below(4) as u32 {
            let (stage, producer, rng) = (self.clone(), producer.clone(), rng.fork());
            callers.push(tokio::spawn(stage.caller(actor + caller, producer, rng)));
        }
        for caller in callers {
            caller.await.unwrap();
        }
        producer.close().await;
    }

    async fn caller(self, actor: u32, producer: Producer, mut rng: Rng) {
        let repeats = rng.one_in(2);
        let delivery = if repeats { Delivery::AtLeastOnce } else { Delivery::AtMostOnce };
        let producer = producer.delivery(delivery);
        for _ in 0..10 + rng.below(20) {
            let key = self.submit(actor, repeats);
            let body = body_of(key, &mut rng);
            let options = self.put_options(&mut rng);
            let put = producer.put("default", &body, options);
            let patience = if rng.one_in(6) { rng.millis(20) } else { 2 * PATIENCE };
            let fate = match tokio::time::timeout(patience, put).await {
                Ok(outcome) => fate_of(&outcome),
                Err(_) => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    Fate::Unknown
                }
            };
            self.world.note(actor, Event::Submitted { key, fate });
            sleep(rng.millis(200)).await;
        }
    }

    fn workers(&self, rng: &mut Rng) -> (Vec<JoinHandle<WorkerReport>>, Vec<WorkerHandle>) {
        let (mut running, mut handles) = (Vec::new(), Vec::new());
        for number in 0..1 + rng.below(2) as u32 {
            let worker = self.worker(50 + number, rng);
            handles.push(worker.0.handle());
            running.push(tokio::spawn(worker.0.run(worker.1)));
        }
        (running, handles)
    }

    #[allow(clippy::type_complexity)]
    fn worker(
        &self,
        actor: u32,
        rng: &mut Rng,
    ) -> (
        Worker,
        impl Fn(JobContext) -> std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>
        + Send
        + Sync
        + 'static,
    ) {
        let running: Arc<Mutex<Vec<(JobContext, Key)>>> = Arc::default();
        let prefetch = if rng.one_in(2) { 1 } else { 1 + rng.below(6) as usize };
        let (world, keys) = (self.world.clone(), running.clone());
        let options = WorkerOptions::new(self.options(rng).total_timeout(None))
            .unwrap()
            .slots(1 + rng.below(3) as usize)
            .prefetch(prefetch)
            .reserve_wait(Duration::from_secs(1 + rng.below(10)))
            .retries(Retries::default().releases(2))
            .grace(Duration::from_secs(5))
            .seed(rng.next())
            .on_event(move |event| {
                let WorkerEventKind::Settled { job, fate } = &event.what else { return };
                let mut keys = keys.lock().unwrap();
                // A server that forgot everything gives the ids of jobs that are still being handled anew.
                let is_lost = matches!(fate, JobFate::Lost(_));
                let of = |likely: bool| {
                    keys.iter().position(|(context, _)| {
                        context.id == *job && (!likely || context.is_lost() == is_lost)
                    })
                };
                let place = of(true).or_else(|| of(false));
                if let Some(place) = place {
                    let (_, key) = keys.remove(place);
                    let fate = match fate {
                        JobFate::Deleted => Fate::Acknowledged,
                        JobFate::Unknown => Fate::Unknown,
                        _ => Fate::NotSent,
                    };
                    world.note(actor, Event::Finished { key, fate });
                }
            });
        let (world, rng) = (self.world.clone(), Mutex::new(rng.fork()));
        let handler = move |job: JobContext| {
            let (world, running) = (world.clone(), running.clone());
            let mut rng = rng.lock().unwrap().fork();
            Box::pin(async move {
                let key = key_of(&job.body);
                world.note(actor, Event::Delivered { key });
                let longest = if rng.one_in(10) { 9000 } else { 300 };
                sleep(rng.millis(longest)).await;
                let outcome = match rng.below(12) {
                    0 => Outcome::release(),
                    1 => Outcome::Retry,
                    2 => Outcome::bury(),
                    _ => Outcome::Delete,
                };
                if outcome == Outcome::Delete && !job.is_lost() {
                    world.note(actor, Event::Finish { key, deadline: None });
                    running.lock().unwrap().push((job.clone(), key));
                }
                outcome
            }) as std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>>
        };
        (Worker::new(options).unwrap(), handler)
    }

    /// A client that reserves and deletes, and at times gives up in the middle.
    async fn plain_consumer(self, actor: u32, mut rng: Rng) {
        let mut client = loop {
            match Client::connect(self.options(&mut rng).total_timeout(None)).await {
                Ok(client) => break client,
                Err(_) => sleep(rng.millis(500)).await,
            }
        };
        while !self.is_over.load(Ordering::Relaxed) {
            let wait = Duration::from_secs(rng.below(4));
            let patience = if rng.one_in(2) { rng.millis(400) } else { Duration::from_secs(3600) };
            let reserve = client.reserve_with_timeout(wait);
            let reserved = match tokio::time::timeout(patience, reserve).await {
                Ok(reserved) => reserved,
                Err(_) => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
            let Ok(Reserved::Job(job)) = reserved else {
                sleep(rng.millis(500)).await;
                continue;
            };
            let key = key_of(&job.body);
            self.world.note(actor, Event::Delivered { key });
            sleep(rng.millis(200)).await;
            self.world.note(actor, Event::Finish { key, deadline: None });
            let fate = fate_of(&client.delete(&job).await);
            self.world.note(actor, Event::Finished { key, fate });
        }
    }
}
