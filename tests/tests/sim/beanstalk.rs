//! Producers, workers and plain clients of beanstalkd in one simulated world, or two.

use std::{
    ops::{Deref, Range},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    Client, ConnectOptions, Delivery, JobContext, JobFate, Outcome, Producer, ProducerOptions,
    PutOptions, Reserved, Retries, RetryPolicy, Selection, Servers, Worker, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use fixtures::{
    fault::Fault,
    history::{Event, Fate, Key, Rules},
    offline::Offline,
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

/// How long a healed world gets to settle.
const CALM: Duration = Duration::from_secs(60);

pub fn server() -> Offline {
    fixtures::beanstalkd::Server::builder().instance(1).log_capacity(0).offline()
}

/// Runs one seed.
pub async fn run(seed: u64, defect: Option<Defect>) -> SeedOutcome {
    let mut rng = Rng::new(seed);
    let cast = Cast(Stage::new(Kinds::of(seed), &mut rng, server, defect));
    cast.spoil(&mut rng, fault);
    let mut producers: Vec<JoinHandle<Option<Survivor>>> = Vec::new();
    for actor in 1..=1 + rng.below(2) as u32 {
        producers.push(tokio::spawn(cast.clone().plain_producer(actor, rng.fork())));
    }
    producers.push(tokio::spawn(cast.clone().shared_producer(10, rng.fork())));
    let (workers, handles) = cast.workers(&mut rng);
    let consumers: Vec<_> = (0..cast.worlds.len())
        .map(|server| {
            tokio::spawn(cast.clone().plain_consumer(90 + server as u32, server, rng.fork()))
        })
        .collect();
    let mut survivors = Vec::new();
    for producer in producers {
        survivors.extend(producer.await.unwrap());
    }
    cast.heal().await;
    for survivor in survivors {
        cast.call_all(survivor, 50..50 + workers.len(), &mut rng).await;
    }
    cast.calm(CALM, undone).await;
    for consumer in consumers {
        consumer.await.unwrap();
    }
    for handle in handles {
        handle.stop();
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let exactly_once = cast.kinds.are_quiet() && !cast.kinds.has(Kind::Failure);
    let rules = Rules { exactly_once, all_end: true, ..Rules::default() };
    cast.0.end(remaining, rules).await
}

/// A producer that has been through everything, and its number.
enum Survivor {
    /// With the number of its server.
    Client(u32, Box<Client>, usize),
    Shared(u32, Producer),
}

/// Where jobs are put: a client that forgets that puts them into the wrong tube.
const TUBE: &str = "jobs";

/// The tube of which only this consumer takes jobs.
fn tube_of(consumer: usize) -> String {
    format!("of-{consumer}")
}

/// A command that the server answers wrongly.
fn fault(kinds: Kinds, rng: &mut Rng) -> Option<Fault> {
    let verbs = ["put", "delete", "touch", "reserve-with-timeout", "release", "stats-job"];
    let verb = verbs[rng.below(6) as usize];
    let fault = Fault::nth(1 + rng.below(30)).of(verb);
    let denials = ["OUT_OF_MEMORY", "INTERNAL_ERROR", "DRAINING"];
    let denial = denials[rng.below(if verb == "put" { 3 } else { 2 }) as usize];
    let of =
        [Kind::Denial, Kind::Delay, Kind::Silence, Kind::CutReply, Kind::ResetReply, Kind::Chunks];
    Some(strike(fault, kinds.pick(&of, rng)?, denial, 12, rng))
}

/// The jobs in the server, in whatever state.
pub fn remaining(world: &World) -> Vec<Key> {
    jobs(world, |_| true)
}

/// The jobs that should have ended: all but the buried ones.
fn undone(world: &World) -> Vec<Key> {
    jobs(world, |state| state != "buried")
}

fn jobs(world: &World, which: fn(&str) -> bool) -> Vec<Key> {
    let ask = |command: String| String::from_utf8(world.ask(command.as_bytes())).unwrap();
    let field =
        |text: &str, name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let total = field(&ask("stats\r\n".into()), "total-jobs: ").unwrap();
    // Ids that refused puts have used up are not counted.
    let ids = 1..=2 * total.parse::<u64>().unwrap() + 100;
    let of_state = ids.filter(|id| {
        field(&ask(format!("stats-job {id}\r\n")), "state: ").is_some_and(|state| which(&state))
    });
    let body = |id| ask(format!("peek {id}\r\n")).lines().nth(1).unwrap().to_owned();
    of_state.map(|id| key_of(body(id).as_bytes()).unwrap()).collect()
}

/// A job whose delete was requested. Another slot may have the same one again, after a release.
struct Ending {
    slot: usize,
    job: JobContext,
    key: Key,
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
        let options: ConnectOptions = format!("simulated-{server}:11300").parse().unwrap();
        options
            .connector(move |_| world.clone().connect())
            .connect_timeout(Duration::from_secs(1))
            .reply_timeout(Duration::from_secs(3))
            .write_timeout(Duration::from_secs(3))
            .total_timeout(Some(PATIENCE))
            .retry(RetryPolicy::new(3).seed(rng.next()))
    }

    fn servers(&self, rng: &mut Rng) -> Servers {
        let selection = [Selection::InOrder, Selection::RoundRobin][rng.below(2) as usize];
        let each = (0..self.worlds.len()).map(|server| self.options(server, rng));
        Servers::new(each).unwrap().selection(selection)
    }

    fn put_options(&self, rng: &mut Rng) -> PutOptions {
        let delay = if rng.one_in(5) { rng.below(4) } else { 0 };
        PutOptions::default()
            .priority(rng.below(3) as u32)
            .delay(Duration::from_secs(delay))
            .ttr(Duration::from_secs(2 + rng.below(10)))
    }

    /// One client that puts, and sometimes gives up.
    async fn plain_producer(self, actor: u32, mut rng: Rng) -> Option<Survivor> {
        let server = self.some_server(&mut rng);
        let mut client = self.client(server, Some(PATIENCE), &mut rng).await;
        while client.use_tube(TUBE).await.is_err() {}
        for _ in 0..20 + rng.below(20) {
            let key = self.submit(actor, PATIENCE, false);
            let body = body_of(key, &mut rng);
            let options = self.put_options(&mut rng);
            let put = client.put(&body, options);
            let patience = self.patience(&mut rng, 4, 20, 2 * PATIENCE);
            self.await_fate(actor, key, patience, async { fate_of(&put.await) }).await;
            sleep(rng.millis(300)).await;
        }
        if actor == 1 && self.has_defect() {
            self.do_wrong(actor, client).await;
            return None;
        }
        Some(Survivor::Client(actor, Box::new(client), server))
    }

    /// Puts a job for each worker in a healed world, which all serve every server, and for the consumer of the server
    /// if it is known.
    async fn call_all(&self, survivor: Survivor, workers: Range<usize>, rng: &mut Rng) {
        match survivor {
            Survivor::Client(actor, mut client, server) => {
                for consumer in workers.chain([90 + server]) {
                    let key = self.submit(actor, PATIENCE, false);
                    let put = async {
                        let used = client.use_tube(tube_of(consumer)).await;
                        let put = client.put(body_of(key, rng), PutOptions::default());
                        fate_of(&used.and(put.await))
                    };
                    self.call(actor, key, put).await;
                }
            }
            Survivor::Shared(actor, producer) => {
                for consumer in workers {
                    let key = self.submit(actor, PATIENCE, false);
                    let body = body_of(key, rng);
                    let put = producer.put(tube_of(consumer), &body, PutOptions::default());
                    self.call(actor, key, async { fate_of(&put.await) }).await;
                }
                producer.close().await;
            }
        }
    }

    async fn client(&self, server: usize, total: Option<Duration>, rng: &mut Rng) -> Client {
        loop {
            match Client::connect(self.options(server, rng).total_timeout(total)).await {
                Ok(client) => return client,
                Err(_) => sleep(rng.millis(500)).await,
            }
        }
    }

    /// The behaviour of a producer with a defect.
    async fn do_wrong(&self, actor: u32, client: Client) {
        let client = Arc::new(tokio::sync::Mutex::new(client));
        let put = |key: Key| {
            let (client, body) = (client.clone(), format!("{key} "));
            async move {
                let inserted = client.lock().await.put(&body, PutOptions::default()).await;
                assert!(!inserted.unwrap().is_buried());
            }
        };
        self.0.do_wrong(actor, put).await;
        if self.has(Defect::Leaks) {
            std::mem::forget(client);
        }
    }

    /// Callers that share a producer.
    async fn shared_producer(self, actor: u32, mut rng: Rng) -> Option<Survivor> {
        let options = ProducerOptions::from(self.servers(&mut rng))
            .seed(rng.next())
            .timeout(PATIENCE)
            .max_jobs(1 + rng.below(8) as usize);
        let producer = Producer::new(options).unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..1 + rng.below(4) as u32 {
            let (stage, producer, rng) = (self.clone(), producer.clone(), rng.fork());
            callers.spawn(stage.caller(actor + caller, producer, rng));
        }
        callers.join_all().await;
        Some(Survivor::Shared(actor, producer))
    }

    async fn caller(self, actor: u32, producer: Producer, mut rng: Rng) {
        let repeats = rng.one_in(2);
        let delivery = if repeats { Delivery::AtLeastOnce } else { Delivery::AtMostOnce };
        let producer = producer.delivery(delivery);
        for _ in 0..10 + rng.below(20) {
            let key = self.submit(actor, PATIENCE, repeats);
            let body = body_of(key, &mut rng);
            let options = self.put_options(&mut rng);
            let put = producer.put(TUBE, &body, options);
            let patience = self.patience(&mut rng, 6, 20, 2 * PATIENCE);
            self.await_fate(actor, key, patience, async { fate_of(&put.await) }).await;
            sleep(rng.millis(200)).await;
        }
    }

    fn workers(&self, rng: &mut Rng) -> (Vec<JoinHandle<WorkerReport>>, Vec<WorkerHandle>) {
        let (mut running, mut handles) = (Vec::new(), Vec::new());
        for number in 0..1 + rng.below(2) as u32 {
            let worker = self.worker(50 + number, rng);
            handles.push(worker.handle());
            running.push(tokio::spawn(worker.run()));
        }
        (running, handles)
    }

    fn worker(&self, actor: u32, rng: &mut Rng) -> Worker {
        let running: Arc<Mutex<Vec<Ending>>> = Arc::default();
        let begins_in: Arc<AtomicUsize> = Arc::default();
        let prefetch = if rng.one_in(2) { 1 } else { 1 + rng.below(6) as usize };
        let (stage, endings, slot) = (self.0.clone(), running.clone(), begins_in.clone());
        let options =
            WorkerOptions::new(self.servers(rng).each(|server| server.total_timeout(None)))
                .unwrap()
                .slots(1 + rng.below(3) as usize)
                .prefetch(prefetch)
                .reserve_wait(Duration::from_secs(1 + rng.below(10)))
                .retries(Retries::default().releases(2))
                .grace(Duration::from_secs(5))
                .seed(rng.next())
                .on_event(move |event| {
                    if let WorkerEventKind::Started(_) = event.what {
                        slot.store(event.slot, Ordering::Relaxed);
                    }
                    let WorkerEventKind::Settled { job, fate } = &event.what else { return };
                    let mut endings = endings.lock().unwrap();
                    // A server that forgot everything reuses the ids of jobs that are still being handled.
                    let is_lost = matches!(fate, JobFate::Lost(_));
                    let of = |likely: bool| {
                        endings.iter().position(|Ending { slot, job: ending, .. }| {
                            *slot == event.slot
                                && *ending.server() == event.server
                                && ending.id == *job
                                && (!likely || ending.is_lost() == is_lost)
                        })
                    };
                    let place = of(true).or_else(|| of(false));
                    if let Some(place) = place {
                        let Ending { key, .. } = endings.remove(place);
                        let fate = match fate {
                            JobFate::Deleted => Fate::Acknowledged,
                            JobFate::Unknown => Fate::Unknown,
                            _ => Fate::NotSent,
                        };
                        stage.note(actor, Event::Finished { key, fate });
                    }
                });
        let (stage, rng) = (self.0.clone(), Mutex::new(rng.fork()));
        let handler = move |job: JobContext| {
            let (stage, running) = (stage.clone(), running.clone());
            let slot = begins_in.load(Ordering::Relaxed);
            let mut rng = rng.lock().unwrap().fork();
            async move {
                let key = key_of(&job.body).unwrap();
                stage.delivered(actor, key, job.server(), job.id);
                sleep(stage.run_time(&mut rng)).await;
                let outcome = match rng.below(12) {
                    _ if !stage.kinds.has(Kind::Failure) => Outcome::Delete,
                    0 => Outcome::release(),
                    1 => Outcome::Retry,
                    2 => Outcome::bury(),
                    _ => Outcome::Delete,
                };
                if outcome == Outcome::Delete && !job.is_lost() {
                    stage.note(actor, Event::Finish { key, deadline: None });
                    running.lock().unwrap().push(Ending { slot, job: job.clone(), key });
                }
                outcome
            }
        };
        let handler = Arc::new(handler);
        let mut worker = Worker::new(options).unwrap();
        for tube in [TUBE.to_owned(), tube_of(actor as usize)] {
            let handler = handler.clone();
            worker.register(tube, move |job| handler(job)).unwrap();
        }
        worker
    }

    /// A client that reserves and deletes, and sometimes gives up in the middle.
    async fn plain_consumer(self, actor: u32, server: usize, mut rng: Rng) {
        let mut client = self.client(server, None, &mut rng).await;
        for tube in [TUBE.to_owned(), tube_of(actor as usize)] {
            while !self.is_over() && client.watch(&*tube).await.is_err() {}
        }
        while !self.is_over() {
            let wait = Duration::from_secs(rng.below(4));
            let patience = self.patience(&mut rng, 2, 400, Duration::from_secs(3600));
            let Ok(reserved) = timeout(patience, client.reserve_with_timeout(wait)).await else {
                self.cancel();
                continue;
            };
            let Ok(Reserved::Job(job)) = reserved else {
                sleep(rng.millis(500)).await;
                continue;
            };
            let key = key_of(&job.body).unwrap();
            self.delivered(actor, key, client.address(), job.id);
            while self.has(Defect::Keeps) && !self.is_over() {
                let _ = client.touch(&job).await;
                sleep(Duration::from_secs(1)).await;
            }
            sleep(rng.millis(200)).await;
            self.note(actor, Event::Finish { key, deadline: None });
            let fate = fate_of(&client.delete(&job).await);
            self.note(actor, Event::Finished { key, fate });
        }
    }
}
