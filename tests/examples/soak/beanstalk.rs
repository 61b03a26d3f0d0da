//! Producers, workers and plain clients of beanstalkd.

mod consumers;
mod pipelines;
mod producers;
mod workers;

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use beanstalk_client::{
    ConnectOptions, Delivery, Epoch, ErrorKind, Heartbeat, PutOptions, RetryPolicy,
    blocking::Client,
};
use fixtures::{history::Event, real::Beanstalkd};
use tokio::runtime::Runtime;

use self::workers::Plan;
use crate::{
    ledger::count,
    network::{networks, under_weather},
    open_jobs::Running,
    options::Options,
    outages::Outages,
    outsiders::{self, outsider},
    resources::{wait_for, watch},
    rng::Rng,
    stage::{Stage, folder},
    summary::Summary,
};

const TUBE: &str = "soak";
/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the remaining jobs may take at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(180);
/// Networks between some of the clients and the server.
const NETWORKS: usize = 3;

/// `None` if the server is not installed.
pub fn soak(options: &Options) -> Option<Summary> {
    let folder = folder();
    let mut server = Beanstalkd::builder();
    if !options.without_log {
        server = server.arg("-b").arg(folder.path()).arg("-f").arg("0");
    }
    let mut server = server.start()?;
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
        let consumer = |actor, place: usize| {
            let (stage, place) = (stage.clone(), places[place]);
            Part { stage, actor, place, rate: 0.0 }
        };
        let consumers = [
            scope.spawn(consumer(60, 1).plain_async(runtime.handle(), rng.fork())),
            scope.spawn(consumer(61, 0).plain_blocking(rng.fork())),
        ];
        scope.spawn(outsider(
            &stage,
            "resilient_consumer",
            [address.to_string(), TUBE.to_owned()],
            rng.fork(),
            outsiders::body,
        ));
        let trends = under_weather(&proxies, &stage, &mut rng.fork(), || {
            thread::scope(|scope| {
                let forgets = options.without_log && !options.miss_forgotten;
                let outages = Outages { every: options.kill_every, forgets };
                let (server, luck) = (&mut server, rng.fork());
                let stage = &stage;
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

/// Who puts or reserves, and where.
struct Part {
    stage: Arc<Stage>,
    actor: u32,
    place: SocketAddr,
    /// Puts a second.
    rate: f64,
}

/// All producers until the calm, each with its share of the rate.
fn produce(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rate: u64,
    rng: &mut Rng,
) -> Vec<String> {
    let part = |actor, place: usize, percent: u32| Part {
        stage: stage.clone(),
        actor,
        place: places[place],
        rate: rate as f64 * f64::from(percent) / 100.0,
    };
    let (once, again, handle) = (Delivery::AtMostOnce, Delivery::AtLeastOnce, runtime.handle());
    thread::scope(|scope| {
        let mut luck = || rng.fork();
        let running = [
            scope.spawn(part(100, 0, 20).shared_async(handle, once, luck())),
            scope.spawn(part(120, 1, 20).shared_async(handle, again, luck())),
            scope.spawn(part(140, 2, 20).shared_blocking(once, luck())),
            scope.spawn(part(160, 0, 20).shared_blocking(again, luck())),
            scope.spawn(part(180, 3, 10).pipeline_async(handle, luck())),
            scope.spawn(part(190, 0, 10).pipeline_blocking(luck())),
        ];
        running.into_iter().map(|producer| producer.join().expect("a producer")).collect()
    })
}

fn start_workers(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rng: &mut Rng,
) -> Vec<Running<beanstalk_client::JobId, beanstalk_client::WorkerReport>> {
    let plan = |actor, is_async, place: usize, slots, prefetch, heartbeat| Plan {
        actor,
        is_async,
        place: places[place],
        slots,
        prefetch,
        heartbeat,
    };
    let short = Heartbeat::AtMost(Duration::from_secs(3));
    [
        plan(10, true, 0, 4, 1, Heartbeat::Always),
        plan(20, true, 1, 2, 8, short),
        plan(30, false, 0, 3, 16, Heartbeat::Always),
        plan(40, false, 2, 3, 1, Heartbeat::Never),
    ]
    .into_iter()
    .map(|plan| plan.start(stage, runtime, rng.fork()))
    .collect()
}

/// Waits until no job is left; buried ones are kicked.
fn drain(stage: &Stage, address: SocketAddr) {
    let mut client = Client::connect(connect_options(address, 0)).expect("the server runs");
    client.use_tube(TUBE).expect("the server runs");
    let mut last = String::new();
    let is_empty = wait_for(DRAIN_LIMIT, || {
        // A kill in the middle of a put can leave a job without its end: the workers bury it.
        while let Err(error) = client.peek_buried() {
            assert_eq!(error.kind(), ErrorKind::BodyDamaged, "{error}");
            client.delete(error.job().expect("it names its job")).expect("the server runs");
        }
        client.kick(10_000).expect("the server runs");
        let stats = client.stats_tube(TUBE).expect("the server runs").expect("it is used");
        let left = [
            ("ready", stats.current_jobs_ready),
            ("reserved", stats.current_jobs_reserved),
            ("delayed", stats.current_jobs_delayed),
            ("buried", stats.current_jobs_buried),
        ];
        last = format!("{left:?}");
        left.iter().all(|(_, jobs)| *jobs == 0)
    });
    if !is_empty {
        stage.ledger.problem(format!("after {DRAIN_LIMIT:?} of calm jobs are left: {last}"));
    }
}

/// The server's connections, except for this one.
fn count_connections(address: SocketAddr) -> usize {
    let mut client = Client::connect(connect_options(address, 0)).expect("the server runs");
    let mut others = 0;
    wait_for(Duration::from_secs(10), || {
        let stats = client.stats().expect("the server runs");
        others = stats.current_connections as usize - 1;
        others == 0
    });
    others
}

fn connect_options(place: SocketAddr, seed: u64) -> ConnectOptions {
    let options: ConnectOptions = place.to_string().parse().expect("an address");
    let (base, cap) = (Duration::from_millis(20), Duration::from_millis(500));
    options
        .connect_timeout(Duration::from_secs(2))
        .write_timeout(Duration::from_secs(3))
        .reply_timeout(Duration::from_secs(4))
        .total_timeout(Some(PATIENCE))
        .retry(RetryPolicy::new(10).backoff(base, cap).seed(seed))
}

fn put_options(rng: &mut Rng) -> PutOptions {
    let delay = if rng.one_in(20) { rng.below(3) } else { 0 };
    PutOptions::default()
        .priority(rng.below(3) as u32)
        .delay(Duration::from_secs(delay))
        .ttr(Duration::from_secs(2 + rng.below(10)))
}

/// The connections of one client.
#[derive(Default)]
struct Connections {
    last: Option<Epoch>,
    seen: u64,
}

impl Connections {
    fn see(&mut self, stage: &Stage, epoch: Epoch) {
        if self.last.replace(epoch) != Some(epoch) {
            self.seen += 1;
            count(&stage.ledger.counts.connections);
        }
    }
}
