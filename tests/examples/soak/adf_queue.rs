//! Producers, workers and plain clients of Adf.QueueServer, which keeps nothing when it is killed.

mod consumers;
mod producers;
mod workers;

use std::{env, net::SocketAddr, path::PathBuf, sync::Arc, thread, time::Duration};

use adf_queue_client::{ConnectOptions, Epoch, RetryPolicy, blocking::Client};
use fixtures::{
    history::{Event, Key},
    real::AdfQueueServer,
};
use tokio::runtime::Runtime;

use self::{consumers::Consumer, producers::Pushes, workers::Plan};
use crate::{
    body::body_of,
    ledger::count,
    network::{networks, under_weather},
    open_jobs::Running,
    options::Options,
    outages::Outages,
    outsiders::{self, outsider},
    resources::{wait_for, watch},
    rng::Rng,
    stage::Stage,
    summary::Summary,
};

const QUEUE: &str = "/soak";
/// Where workers move what they cannot do.
const DEAD: &str = "/soak/dead";
/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the remaining messages may take at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(180);
/// Networks between some of the clients and the server.
const NETWORKS: usize = 3;

/// `None` if there is no server to start.
pub fn soak(options: &Options) -> Option<Summary> {
    let mut server = match AdfQueueServer::start(&mock()) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("soak: no Adf.QueueServer starts: {error}");
            return None;
        }
    };
    let address = server.socket_addr().expect("it listens on TCP");
    let stage = Arc::new(Stage::new(options));
    let mut rng = Rng::new(options.seed);
    let proxies = networks(address, NETWORKS);
    let places: Vec<SocketAddr> =
        [address].into_iter().chain(proxies.iter().map(|proxy| proxy.address())).collect();
    let runtime = Runtime::new().expect("a runtime");
    let mut reports = Vec::new();
    let trends = thread::scope(|scope| {
        let workers = start_workers(&stage, &runtime, &places, &mut rng);
        let mut consumer = |actor, url, queue| Consumer::new(&stage, actor, url, queue, &mut rng);
        let consumers = [
            scope.spawn(consumer(60, ws(places[1]), QUEUE).run_async(runtime.handle())),
            scope.spawn(consumer(61, ws(places[0]), QUEUE).run_blocking()),
            scope.spawn(consumer(62, json(places[0]), QUEUE).run_blocking()),
            scope.spawn(consumer(63, ws(places[0]), DEAD).run_async(runtime.handle())),
        ];
        scope.spawn(outsider(
            &stage,
            "resilient_handler",
            [ws(address), QUEUE.to_owned()],
            rng.fork(),
            outsiders::body,
        ));
        let trends = under_weather(&proxies, &stage, &mut rng.fork(), || {
            thread::scope(|scope| {
                let outages =
                    Outages { every: options.kill_every, forgets: !options.miss_forgotten };
                let (server, luck, stage) = (&mut server, rng.fork(), &stage);
                scope.spawn(move || outages.run(server, stage, luck));
                let trends = scope.spawn(move || watch(stage, options));
                reports.extend(produce(stage, &runtime, &places, options.rate, &mut rng));
                trends.join().expect("it only watches")
            })
        });
        drain(&stage, address);
        stage.end();
        reports.extend(workers.into_iter().map(Running::stop));
        reports.extend(consumers.into_iter().map(|consumer| consumer.join().expect("a consumer")));
        trends
    });
    // Proxies and the server notice a moment later what clients have closed.
    drop(proxies);
    let left = count_connections(address);
    stage.ledger.note(0, Event::Left { connections: left });
    Some(Summary::new(&stage, options, trends, reports))
}

/// The in-memory server, built beside this program.
fn mock() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let profile = program.parent().and_then(|examples| examples.parent());
    profile.unwrap_or(&program).join(format!("mock-adfqueue{}", env::consts::EXE_SUFFIX))
}

/// All producers until the calm, each with its share of the rate.
fn produce(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rate: u64,
    rng: &mut Rng,
) -> Vec<String> {
    let pushes = |actor, url, at_least_once, percent: u32| Pushes {
        stage: stage.clone(),
        actor,
        url,
        at_least_once,
        rate: rate as f64 * f64::from(percent) / 100.0,
    };
    let handle = runtime.handle();
    thread::scope(|scope| {
        let mut luck = || rng.fork();
        let running = [
            scope.spawn(pushes(100, ws(places[0]), false, 20).shared_async(handle, luck())),
            scope.spawn(pushes(120, json(places[1]), true, 20).shared_async(handle, luck())),
            scope.spawn(pushes(140, ws(places[2]), false, 15).shared_blocking(luck())),
            scope.spawn(pushes(160, ws(places[0]), true, 15).shared_blocking(luck())),
            scope.spawn(pushes(180, ws(places[3]), false, 10).plain_async(handle, luck())),
            scope.spawn(pushes(190, http(places[1]), false, 10).plain_async(handle, luck())),
            scope.spawn(pushes(200, http(places[0]), false, 10).plain_blocking(luck())),
        ];
        running.into_iter().map(|producer| producer.join().expect("a producer")).collect()
    })
}

fn start_workers(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rng: &mut Rng,
) -> Vec<Running<adf_queue_client::MessageId, adf_queue_client::WorkerReport>> {
    [
        Plan { actor: 10, is_async: true, url: ws(places[0]), slots: 4, prefetch: 0 },
        Plan { actor: 20, is_async: true, url: json(places[1]), slots: 2, prefetch: 8 },
        Plan { actor: 30, is_async: false, url: ws(places[0]), slots: 3, prefetch: 16 },
        Plan { actor: 40, is_async: false, url: ws(places[2]), slots: 3, prefetch: 0 },
    ]
    .into_iter()
    .map(|plan| plan.start(stage, runtime, rng.fork()))
    .collect()
}

/// Waits until no message is left.
fn drain(stage: &Stage, address: SocketAddr) {
    let mut client = Client::connect(connect_options(&http(address), 0)).expect("the server runs");
    let mut last = String::new();
    let is_empty = wait_for(DRAIN_LIMIT, || {
        let stats = client.stats().expect("the server runs");
        last = format!("{:?}", stats.queues);
        stats.queues.iter().all(|queue| (queue.ready, queue.pulled) == (0, 0))
    });
    if !is_empty {
        stage.ledger.problem(format!("after {DRAIN_LIMIT:?} of calm messages are left: {last}"));
    }
}

/// The server's WebSocket connections; this query has none.
fn count_connections(address: SocketAddr) -> usize {
    let mut client = Client::connect(connect_options(&http(address), 0)).expect("the server runs");
    let mut open = 0;
    wait_for(Duration::from_secs(10), || {
        open = client.stats().expect("the server runs").connections as usize;
        open == 0
    });
    open
}

fn ws(place: SocketAddr) -> String {
    format!("adf://{place}")
}

fn json(place: SocketAddr) -> String {
    format!("adf+json://{place}")
}

fn http(place: SocketAddr) -> String {
    format!("http://{place}")
}

fn connect_options(url: &str, seed: u64) -> ConnectOptions {
    let options: ConnectOptions = url.parse().expect("an address");
    let (base, cap) = (Duration::from_millis(20), Duration::from_millis(500));
    options
        .connect_timeout(Duration::from_secs(2))
        .write_timeout(Duration::from_secs(3))
        .reply_timeout(Duration::from_secs(4))
        .ping_interval(Some(Duration::from_secs(2)))
        .total_timeout(Some(PATIENCE))
        .retry(RetryPolicy::new(10).backoff(base, cap).seed(seed))
        .seed(seed)
}

/// How bodies of messages end that may have copies: a worker may push one to the dead letters and fail to delete it.
const COPIES: u8 = b'+';

fn message(key: Key, may_be_copied: bool, rng: &mut Rng) -> Vec<u8> {
    let mut body = body_of(key, rng);
    if may_be_copied {
        body.push(COPIES);
    }
    body
}

fn may_be_copied(body: &[u8]) -> bool {
    body.last() == Some(&COPIES)
}

/// The connections of one client.
#[derive(Default)]
struct Connections {
    last: Option<Epoch>,
    seen: u64,
}

impl Connections {
    fn see(&mut self, stage: &Stage, epoch: Option<Epoch>) {
        if epoch.is_some() && self.last != epoch {
            self.last = epoch;
            self.seen += 1;
            count(&stage.ledger.counts.connections);
        }
    }
}
