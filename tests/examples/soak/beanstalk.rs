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
        let consumers = [
            scope.spawn(consumers::plain_async(&stage, &runtime, 60, places[1], rng.fork())),
            scope.spawn(consumers::plain_blocking(&stage, 61, places[0], rng.fork())),
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

/// All producers until the calm, each with its share of the rate.
fn produce(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rate: u64,
    rng: &mut Rng,
) -> Vec<String> {
    let share = |percent: u32| rate as f64 * f64::from(percent) / 100.0;
    let (once, again) = (Delivery::AtMostOnce, Delivery::AtLeastOnce);
    thread::scope(|scope| {
        let running = [
            scope.spawn(producers::shared_async(
                stage,
                runtime,
                100,
                places[0],
                once,
                share(20),
                rng.fork(),
            )),
            scope.spawn(producers::shared_async(
                stage,
                runtime,
                120,
                places[1],
                again,
                share(20),
                rng.fork(),
            )),
            scope.spawn(producers::shared_blocking(
                stage,
                140,
                places[2],
                once,
                share(20),
                rng.fork(),
            )),
            scope.spawn(producers::shared_blocking(
                stage,
                160,
                places[0],
                again,
                share(20),
                rng.fork(),
            )),
            scope.spawn(pipelines::pipeline_async(
                stage,
                runtime,
                180,
                places[3],
                share(10),
                rng.fork(),
            )),
            scope.spawn(pipelines::pipeline_blocking(stage, 190, places[0], share(10), rng.fork())),
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
    let short = Heartbeat::AtMost(Duration::from_secs(3));
    [
        Plan {
            actor: 10,
            is_async: true,
            place: places[0],
            slots: 4,
            prefetch: 1,
            heartbeat: Heartbeat::Always,
        },
        Plan {
            actor: 20,
            is_async: true,
            place: places[1],
            slots: 2,
            prefetch: 8,
            heartbeat: short,
        },
        Plan {
            actor: 30,
            is_async: false,
            place: places[0],
            slots: 3,
            prefetch: 16,
            heartbeat: Heartbeat::Always,
        },
        Plan {
            actor: 40,
            is_async: false,
            place: places[2],
            slots: 3,
            prefetch: 1,
            heartbeat: Heartbeat::Never,
        },
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
