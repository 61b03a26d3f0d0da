//! Producers, workers and plain clients of beanstalkd.

mod consumers;
mod pipelines;
mod producers;
mod workers;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use beanstalk_client::{
    ConnectOptions,
    Delivery::{AtLeastOnce, AtMostOnce},
    Epoch, ErrorKind, Heartbeat, PutOptions, RetryPolicy,
    blocking::Client,
};
use fixtures::real::Beanstalkd;

use self::workers::Plan;
use crate::{
    options::Options,
    outsiders,
    rng::Rng,
    run::{self, End, Field, Protocol},
    stage::{Stage, folder},
    summary::Summary,
};

const TUBE: &str = "soak";
/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// `None` if the server is not installed.
pub fn soak(options: &Options) -> Option<Summary> {
    let folder = folder();
    let mut server = Beanstalkd::builder();
    if !options.without_log {
        server = server.arg("-b").arg(folder.path()).arg("-f").arg("0");
    }
    let mut server = server.start()?;
    let address = server.socket_addr().expect("it listens on TCP");
    let protocol = Protocol {
        outsider: ("resilient_consumer", [address.to_string(), TUBE.to_owned()], outsiders::body),
        start,
        produce,
        look: |address| Client::connect(connect_options(address, 0)).expect("the server runs"),
        jobs,
        connections: |client| {
            client.stats().expect("the server runs").current_connections as usize - 1
        },
    };
    Some(protocol.run(&mut server, options, options.without_log, Vec::new()))
}

/// Who puts or reserves, and where.
struct Part {
    stage: Arc<Stage>,
    actor: u32,
    place: SocketAddr,
    /// Puts a second.
    rate: f64,
}

fn produce(field: &mut Field, rate: u64) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let part = |actor, place: usize, percent: u32| Part {
        stage: stage.clone(),
        actor,
        place: places[place],
        rate: rate as f64 * f64::from(percent) / 100.0,
    };
    vec![
        field.run_async(part(100, 0, 20), |part, rng| part.shared_async(AtMostOnce, rng)),
        field.run_async(part(120, 1, 20), |part, rng| part.shared_async(AtLeastOnce, rng)),
        field.run(part(140, 2, 20), |part, rng| part.shared_blocking(AtMostOnce, rng)),
        field.run(part(160, 0, 20), |part, rng| part.shared_blocking(AtLeastOnce, rng)),
        field.run_async(part(180, 3, 10), Part::pipeline_async),
        field.run(part(190, 0, 10), Part::pipeline_blocking),
    ]
}

fn start(field: &mut Field) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let plan = |actor, is_async, place: usize, slots, prefetch, heartbeat| Plan {
        actor,
        is_async,
        place: places[place],
        slots,
        prefetch,
        heartbeat,
    };
    let short = Heartbeat::AtMost(Duration::from_secs(3));
    let workers = [
        plan(10, true, 0, 4, 1, Heartbeat::Always),
        plan(20, true, 1, 2, 8, short),
        plan(30, false, 0, 3, 16, Heartbeat::Always),
        plan(40, false, 2, 3, 1, Heartbeat::Never),
    ];
    let mut ends: Vec<End> = workers.into_iter().map(|plan| plan.start(field)).collect();
    let consumer = |actor, place: usize| {
        let (stage, place) = (stage.clone(), places[place]);
        Part { stage, actor, place, rate: 0.0 }
    };
    ends.extend([
        field.run_async(consumer(60, 1), Part::plain_async),
        field.run(consumer(61, 0), Part::plain_blocking),
    ]);
    ends
}

/// The jobs left, if there are any; buried ones are kicked.
fn jobs(client: &mut Client) -> Option<String> {
    client.use_tube(TUBE).expect("the server runs");
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
    left.iter().any(|(_, jobs)| *jobs != 0).then(|| format!("{left:?}"))
}

type Connections = run::Connections<Option<Epoch>>;

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
