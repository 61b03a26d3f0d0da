//! Producers, workers and plain clients of Adf.QueueServer in one simulated world, or two.

use std::{
    num::NonZeroU16,
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use adf_queue_client::{
    Client, ConnectOptions, Delivery, ErrorKind, JobContext, JobFate, Outcome, Producer,
    ProducerOptions, RetryPolicy, Selection, Servers, Worker, WorkerEvent, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
};
use fixtures::{
    fault::Fault,
    history::{Checker, Event, Fate, Key, Report, Rules, check},
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
    world::{Weather, World},
};

const QUEUE: &str = "/sim";
/// Where workers move what they cannot do.
const DEAD: &str = "/sim/dead";
/// The consumers that have their own queue.
const OWNERS: [usize; 4] = [50, 51, 90, 91];
/// How long a healed world gets to settle: longer than a missing queue is left alone.
const CALM: Duration = Duration::from_secs(180);
/// How bodies of messages end that may have copies: a worker may push one to the dead letters and fail to delete it.
const COPIES: u8 = b'+';

/// A producer that has been through everything, and its number.
type Survivor = (u32, Pushes);

enum Pushes {
    /// With the number of its server.
    Client(Client, usize),
    Shared(Producer),
}

/// A consumer's own queue, of which no other takes messages.
fn queue_of(consumer: usize) -> String {
    format!("{QUEUE}/of/{consumer}")
}

/// A server that has its queues from the start, and so has them again after forgetting everything.
fn server() -> Offline {
    let builder = fixtures::adf_queue::Server::builder().log_capacity(0);
    let own = OWNERS.map(queue_of);
    own.into_iter()
        .fold(builder.queue(QUEUE).queue(DEAD), |builder, own| builder.queue(own))
        .offline()
}

/// One whose queues have to be created.
fn bare_server() -> Offline {
    fixtures::adf_queue::Server::builder().log_capacity(0).offline()
}

/// Runs one seed.
pub async fn run(seed: u64, defect: Option<Defect>) -> SeedOutcome {
    let mut rng = Rng::new(seed);
    let make = if defect.is_none() && rng.one_in(3) { bare_server } else { server };
    let cast = Cast(Stage::new(Kinds::of(seed), &mut rng, make, defect));
    cast.spoil(&mut rng, fault);
    let mut producers: Vec<JoinHandle<Option<Survivor>>> = Vec::new();
    for actor in 1..=1 + rng.below(2) as u32 {
        producers.push(tokio::spawn(cast.clone().plain_producer(actor, rng.fork())));
    }
    producers.push(tokio::spawn(cast.clone().shared_producer(10, rng.fork())));
    let (workers, handles) = cast.workers(&mut rng);
    let mut consumers = Vec::new();
    for server in 0..cast.worlds.len() {
        for (actor, queue) in [(80, DEAD), (90, QUEUE)] {
            let consumer =
                cast.clone().plain_consumer(actor + server as u32, server, queue, rng.fork());
            consumers.push(tokio::spawn(consumer));
        }
    }
    let mut survivors = Vec::new();
    for producer in producers {
        survivors.extend(producer.await.unwrap());
    }
    cast.heal().await;
    for (actor, pushes) in survivors {
        // The workers serve all servers, a consumer one.
        let consumer = match &pushes {
            Pushes::Client(_, server) => Some(90 + server),
            Pushes::Shared(_) => None,
        };
        for consumer in (50..50 + workers.len()).chain(consumer) {
            cast.call_consumer(actor, &pushes, consumer, &mut rng).await;
        }
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
    cast.0.end(ready, rules).await
}

/// Pushes one message after the other, with one worker that runs one at a time, over a network that only holds up and
/// splits.
pub async fn in_order(seed: u64) -> Report {
    const MESSAGES: u64 = 40;
    let mut rng = Rng::new(seed);
    let stage = Stage::new(Kinds::default(), &mut rng, server, None);
    let kinds = [Kind::PartialReads, Kind::PartialWrites, Kind::Stalls].into_iter().collect();
    stage.worlds[0].lock().weather =
        Weather { splits: Some(1 + rng.below(4)), kinds, ..Weather::default() };
    let cast = Cast(stage);
    let (servers, prefetch) = (cast.options(0, "adf", &mut rng), rng.below(6) as usize);
    let observer = cast.clone();
    let keys: Arc<Mutex<Vec<Key>>> = Arc::default();
    let settling = keys.clone();
    let options = WorkerOptions::from(servers).prefetch(prefetch).on_event(move |event| {
        if let WorkerEventKind::Settled { fate, .. } = event.what {
            assert_eq!(fate, JobFate::Deleted);
            let key = settling.lock().unwrap().remove(0);
            observer.note(2, Event::Finished { key, fate: Fate::Acknowledged });
        }
    });
    let mut worker = Worker::new(options.limit(adf_queue_client::JobLimit::new(MESSAGES))).unwrap();
    let (handler, luck) = (cast.clone(), Mutex::new(rng.fork()));
    worker
        .register(QUEUE, move |job: JobContext| {
            let (cast, keys) = (handler.clone(), keys.clone());
            let takes = luck.lock().unwrap().millis(20);
            async move {
                let key = key_of(job.body()).unwrap();
                cast.note(2, Event::Delivered { key });
                sleep(takes).await;
                cast.note(2, Event::Finish { key, deadline: None });
                keys.lock().unwrap().push(key);
            }
        })
        .unwrap();
    let worker = tokio::spawn(worker.run());
    let client = Client::new(cast.options(0, "adf", &mut rng)).unwrap();
    for _ in 0..MESSAGES {
        let key = cast.submit(1, PATIENCE, false);
        let outcome = client.rpush(QUEUE, body_of(key, &mut rng)).await;
        cast.submitted(1, key, fate_of(&outcome));
    }
    worker.await.unwrap();
    let rules = Rules { exactly_once: true, in_order: true, all_end: true, ..Rules::default() };
    check(&cast.worlds[0].history(), &rules)
}

/// A request that the server answers wrongly. Only of pushes and pulls it says falsely that it has not carried them
/// out: of the end of a message no server does.
fn fault(kinds: Kinds, rng: &mut Rng) -> Option<Fault> {
    let names = ["rpush", "lpush", "pull", "delete", "rcancel", "count", "createqueue", "upgrade"];
    let name = names[rng.below(8) as usize];
    let fault = Fault::nth(1 + rng.below(30)).of(name);
    let of =
        [Kind::Delay, Kind::Silence, Kind::CutReply, Kind::ResetReply, Kind::Chunks, Kind::Denial];
    let may_deny = ["rpush", "lpush", "pull"].contains(&name);
    let kind = kinds.pick(if may_deny { &of } else { &of[..5] }, rng)?;
    Some(strike(fault, kind, "server is full.", 40, rng))
}

/// The messages still held although there was time to end them, and those that wait to be pulled.
fn undone(world: &World) -> Vec<Key> {
    let mut checker = Checker::new(Rules::default());
    for entry in world.history().entries() {
        checker.note(entry.at, entry.actor, &entry.event);
    }
    checker.unended().chain(ready(world)).collect()
}

/// The messages that wait to be pulled. They are pulled over HTTP, and put back where they were.
fn ready(world: &World) -> Vec<Key> {
    let ask = |action: &str, queue: &str, id: u64| {
        let head = format!("GET /queue/{action}.json?queue={queue}&requestid={id} HTTP/1.1");
        let answer = world.ask(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes());
        String::from_utf8(answer).unwrap()
    };
    let behind = |answer: &str, name: &str| {
        answer.split_once(name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let mut keys = Vec::new();
    let own = OWNERS.map(queue_of);
    for queue in own.iter().map(String::as_str).chain([QUEUE, DEAD]) {
        let count = behind(&ask("count", queue, 1), r#""count":"#);
        let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
        let ids = 1..=digits.parse().unwrap();
        for id in ids.clone() {
            keys.push(key_of(behind(&ask("pull", queue, id), r#""body":""#).as_bytes()).unwrap());
        }
        for id in ids.rev() {
            assert!(ask("lcancel", queue, id).contains(r#""result":"ok""#));
        }
    }
    keys
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
    fn options(&self, server: usize, scheme: &str, rng: &mut Rng) -> ConnectOptions {
        let world = self.worlds[server].clone();
        let options: ConnectOptions =
            format!("{scheme}://simulated-{server}:6230").parse().unwrap();
        options
            .connector(move |_| world.clone().connect())
            .connect_timeout(Duration::from_secs(1))
            .reply_timeout(Duration::from_secs(3))
            .write_timeout(Duration::from_secs(3))
            .total_timeout(Some(PATIENCE))
            .ping_interval(Some(Duration::from_secs(5)))
            .retry(RetryPolicy::new(3).seed(rng.next()))
            .seed(rng.next())
    }

    fn servers(&self, rng: &mut Rng) -> Servers {
        let selection = [Selection::InOrder, Selection::RoundRobin][rng.below(2) as usize];
        let scheme = web_socket(rng);
        let each = (0..self.worlds.len()).map(|server| self.options(server, scheme, rng));
        Servers::new(each).unwrap().selection(selection)
    }

    /// One client that pushes, over any transport, and at times gives up.
    async fn plain_producer(self, actor: u32, mut rng: Rng) -> Option<Survivor> {
        let server = self.some_server(&mut rng);
        // A connection over HTTP ends on its own, and cannot be leaked.
        let is_http = !self.has_defect() && rng.one_in(3);
        let http = ["http", "http+json"][rng.below(2) as usize];
        let scheme = if is_http { http } else { web_socket(&mut rng) };
        let client = Client::new(self.options(server, scheme, &mut rng)).unwrap();
        for _ in 0..20 + rng.below(20) {
            let key = self.submit(actor, PATIENCE, false);
            let (body, is_left) = (body_of(key, &mut rng), rng.one_in(2));
            let push = async {
                let pushed = match is_left {
                    true => client.lpush(QUEUE, body).await,
                    false => client.rpush(QUEUE, body).await,
                };
                fate_of(&pushed)
            };
            let patience = self.patience(&mut rng, 4, 20, 2 * PATIENCE);
            self.await_fate(actor, key, patience, push).await;
            if rng.one_in(10) {
                // Nobody else may, and a server that forgets has no queues.
                let _ = client.ensure_queue(QUEUE).await;
            }
            sleep(rng.millis(300)).await;
        }
        if actor == 1 && self.has_defect() {
            let push = |key: Key| {
                let client = client.clone();
                async move { assert!(client.rpush(QUEUE, format!("{key} ")).await.is_ok()) }
            };
            self.do_wrong(actor, push).await;
            if self.has(Defect::Leaks) {
                std::mem::forget(client);
            }
            return None;
        }
        Some((actor, Pushes::Client(client, server)))
    }

    /// Pushes a message to a consumer in a healed world.
    async fn call_consumer(&self, actor: u32, by: &Pushes, consumer: usize, rng: &mut Rng) {
        let (key, queue) = (self.submit(actor, PATIENCE, false), queue_of(consumer));
        let body = body_of(key, rng);
        let push = async {
            fate_of(&match by {
                Pushes::Client(client, _) => match client.ensure_queue(&*queue).await {
                    Ok(_) => client.rpush(&*queue, body).await,
                    Err(error) => Err(error),
                },
                Pushes::Shared(producer) => producer.rpush(&*queue, body).await,
            })
        };
        self.call(actor, key, push).await;
    }

    /// Callers that share a producer.
    async fn shared_producer(self, actor: u32, mut rng: Rng) -> Option<Survivor> {
        let repeats = rng.one_in(2);
        let options = ProducerOptions::from(self.servers(&mut rng))
            .at_least_once(repeats)
            .create_queues(true)
            .timeout(PATIENCE);
        let producer = Producer::new(options).unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..1 + rng.below(4) as u32 {
            let (cast, producer, rng) = (self.clone(), producer.clone(), rng.fork());
            callers.spawn(cast.caller(actor + caller, producer, repeats, rng));
        }
        callers.join_all().await;
        Some((actor, Pushes::Shared(producer)))
    }

    async fn caller(self, actor: u32, producer: Producer, repeats: bool, mut rng: Rng) {
        for _ in 0..10 + rng.below(20) {
            let key = self.submit(actor, PATIENCE, repeats);
            let mut body = body_of(key, &mut rng);
            if repeats {
                body.push(COPIES);
            }
            let (by_key, is_left) = (rng.next().to_be_bytes(), rng.one_in(2));
            let push = async {
                let pushed = match is_left {
                    true => producer.lpush_by_key(by_key, QUEUE, body).await,
                    false => producer.rpush(QUEUE, body).await,
                };
                fate_of(&pushed)
            };
            let patience = self.patience(&mut rng, 6, 20, 2 * PATIENCE);
            self.await_fate(actor, key, patience, push).await;
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
        let context = Arc::new(HandlerContext {
            stage: self.0.clone(),
            actor,
            rng: Mutex::new(rng.fork()),
            endings: Mutex::default(),
        });
        let observer = context.clone();
        let prefetch = if rng.one_in(2) { 0 } else { rng.below(6) as usize };
        let servers = self.servers(rng).each(|server| server.total_timeout(None));
        let options = WorkerOptions::from(servers)
            .slots(1 + rng.below(3) as usize)
            .prefetch(prefetch)
            .max_duplications(NonZeroU16::MAX)
            .dead_letter(DEAD.parse().unwrap())
            .recheck(Duration::from_secs(1 + rng.below(10)))
            .grace(Duration::from_secs(5))
            .on_event(move |event| observer.hear(event));
        let mut worker = Worker::new(options).unwrap();
        let handler = move |job: JobContext| {
            let context = context.clone();
            async move { context.handle(job).await }
        };
        worker.register(QUEUE, handler.clone()).unwrap();
        worker.register(queue_of(actor as usize), handler).unwrap();
        worker
    }

    /// A client that pulls and deletes, sometimes gives up in the middle, and sometimes reconnects while it holds a
    /// message.
    async fn plain_consumer(self, actor: u32, server: usize, queue: &'static str, mut rng: Rng) {
        let scheme = web_socket(&mut rng);
        let client = Client::new(self.options(server, scheme, &mut rng)).unwrap();
        let own = queue_of(actor as usize);
        while !self.is_over() {
            let queue = if queue == QUEUE && rng.one_in(3) { &own } else { queue };
            let pull = client.pull_within(queue, rng.millis(4000));
            let patience = self.patience(&mut rng, 2, 400, Duration::from_secs(3600));
            let Ok(pulled) = timeout(patience, pull).await else {
                self.cancel();
                continue;
            };
            let Ok(Some(delivery)) = pulled else {
                let _ = client.ensure_queue(queue).await;
                sleep(rng.millis(500)).await;
                continue;
            };
            let key = key_of(delivery.body()).unwrap();
            self.delivered(actor, key, client.address(), delivery.message_id());
            while self.has(Defect::Keeps) && !self.is_over() {
                sleep(Duration::from_secs(1)).await;
            }
            sleep(rng.millis(200)).await;
            if self.kinds.has(Kind::Failure) && rng.one_in(8) {
                self.give_back(&client, &delivery, &mut rng).await;
                continue;
            }
            self.note(actor, Event::Finish { key, deadline: None });
            let fate = fate_of(&client.delete(&delivery).await);
            self.note(actor, Event::Finished { key, fate });
        }
    }

    async fn give_back(&self, client: &Client, delivery: &Delivery, rng: &mut Rng) {
        // Whether or not that has worked, the message is delivered again.
        match rng.below(3) {
            0 => drop(client.lcancel(delivery).await),
            1 => drop(client.rcancel(delivery).await),
            _ => {
                let _ = client.reconnect().await;
                let error = client.delete(delivery).await.unwrap_err();
                assert_eq!(*error.kind(), ErrorKind::JobLost, "{error}");
                assert_eq!(error.fate(), adf_queue_client::Fate::NotSent, "{error}");
            }
        }
    }
}

fn web_socket(rng: &mut Rng) -> &'static str {
    ["adf", "adf+json"][rng.below(2) as usize]
}

/// State shared by a worker's handlers and its observer.
struct HandlerContext {
    stage: Stage,
    actor: u32,
    rng: Mutex<Rng>,
    endings: Mutex<Vec<Ending>>,
}

/// A message whose delete was requested. A server that has forgotten everything reuses its number.
struct Ending {
    job: JobContext,
    key: Key,
}

impl HandlerContext {
    async fn handle(&self, job: JobContext) -> Result<Outcome, &'static str> {
        let mut rng = self.rng.lock().unwrap().fork();
        let key = key_of(job.body()).unwrap();
        self.stage.delivered(self.actor, key, job.server(), job.message_id());
        sleep(self.stage.run_time(&mut rng)).await;
        match rng.below(12) {
            _ if !self.stage.kinds.has(Kind::Failure) => {}
            0 => return Ok(Outcome::ReturnLeft),
            1 => return Err("it fails on purpose"),
            2 if job.body().last() == Some(&COPIES) => return Ok(Outcome::DeadLetter),
            _ => {}
        }
        if !job.is_lost() {
            self.stage.note(self.actor, Event::Finish { key, deadline: None });
            self.endings.lock().unwrap().push(Ending { job, key });
        }
        Ok(Outcome::Delete)
    }

    fn hear(&self, event: &WorkerEvent) {
        let WorkerEventKind::Settled { message, fate, .. } = &event.what else { return };
        let mut endings = self.endings.lock().unwrap();
        let is_lost = matches!(fate, JobFate::Lost(_));
        let of = |likely: bool| {
            endings.iter().position(|Ending { job, .. }| {
                *job.server() == event.server
                    && job.message_id() == *message
                    && (!likely || job.is_lost() == is_lost)
            })
        };
        let Some(place) = of(true).or_else(|| of(false)) else { return };
        let Ending { key, .. } = endings.remove(place);
        let fate = match fate {
            JobFate::Deleted => Fate::Acknowledged,
            JobFate::Unknown => Fate::Unknown,
            _ => Fate::NotSent,
        };
        self.stage.note(self.actor, Event::Finished { key, fate });
    }
}
