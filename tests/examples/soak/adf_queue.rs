//! Producers, workers and plain clients of Adf.QueueServer, which keeps nothing when it is killed.

mod consumers;
mod producers;
mod workers;

use std::{env, net::SocketAddr, path::PathBuf, time::Duration};

use adf_queue_client::{ConnectOptions, Epoch, RetryPolicy, blocking::Client};
use fixtures::{history::Key, real::AdfQueueServer};

use self::{consumers::Consumer, producers::Pushes, workers::Plan};
use crate::{
    body::body_of,
    options::Options,
    outsiders,
    rng::Rng,
    run::{self, End, Field, Protocol},
    summary::Summary,
};

const QUEUE: &str = "/soak";
/// Where workers move what they cannot do.
const DEAD: &str = "/soak/dead";
/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(20);

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
    let protocol = Protocol {
        outsider: ("resilient_handler", [ws(address), QUEUE.to_owned()], outsiders::body),
        start,
        produce,
        look: |address| {
            Client::connect(connect_options(&http(address), 0)).expect("the server runs")
        },
        jobs: |client| {
            let queues = client.stats().expect("the server runs").queues;
            let is_empty = queues.iter().all(|queue| (queue.ready, queue.pulled) == (0, 0));
            (!is_empty).then(|| format!("{queues:?}"))
        },
        // The WebSocket ones; this query has none.
        connections: |client| client.stats().expect("the server runs").connections as usize,
    };
    Some(protocol.run(&mut server, options, true, Vec::new()))
}

/// The in-memory server, built beside this program.
fn mock() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let profile = program.parent().and_then(|examples| examples.parent());
    profile.unwrap_or(&program).join(format!("mock-adfqueue{}", env::consts::EXE_SUFFIX))
}

fn produce(field: &mut Field, rate: u64) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let pushes = |actor, url, at_least_once, percent: u32| Pushes {
        stage: stage.clone(),
        actor,
        url,
        at_least_once,
        rate: rate as f64 * f64::from(percent) / 100.0,
    };
    vec![
        field.run_async(pushes(100, ws(places[0]), false, 20), Pushes::shared_async),
        field.run_async(pushes(120, json(places[1]), true, 20), Pushes::shared_async),
        field.run(pushes(140, ws(places[2]), false, 15), Pushes::shared_blocking),
        field.run(pushes(160, ws(places[0]), true, 15), Pushes::shared_blocking),
        field.run_async(pushes(180, ws(places[3]), false, 10), Pushes::plain_async),
        field.run_async(pushes(190, http(places[1]), false, 10), Pushes::plain_async),
        field.run(pushes(200, http(places[0]), false, 10), Pushes::plain_blocking),
    ]
}

fn start(field: &mut Field) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let workers = [
        Plan { actor: 10, is_async: true, url: ws(places[0]), slots: 4, prefetch: 0 },
        Plan { actor: 20, is_async: true, url: json(places[1]), slots: 2, prefetch: 8 },
        Plan { actor: 30, is_async: false, url: ws(places[0]), slots: 3, prefetch: 16 },
        Plan { actor: 40, is_async: false, url: ws(places[2]), slots: 3, prefetch: 0 },
    ];
    let mut ends: Vec<End> = workers.into_iter().map(|plan| plan.start(field)).collect();
    let consumer = |actor, url, queue| Consumer { stage: stage.clone(), actor, url, queue };
    ends.extend([
        field.run_async(consumer(60, ws(places[1]), QUEUE), Consumer::run_async),
        field.run(consumer(61, ws(places[0]), QUEUE), Consumer::run_blocking),
        field.run(consumer(62, json(places[0]), QUEUE), Consumer::run_blocking),
        field.run_async(consumer(63, ws(places[0]), DEAD), Consumer::run_async),
    ]);
    ends
}

type Connections = run::Connections<Option<Epoch>>;

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
