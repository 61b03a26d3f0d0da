//! Clients and workers of gearmand.

mod submitters;
mod workers;

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use fixtures::{
    history::{Event, Key},
    real::{Gearmand, GearmandBuilder},
};
use gearman_client::{ConnectOptions, Epoch, Outcome, RetryPolicy, SubmitOptions, blocking::Admin};
use tokio::runtime::Runtime;

use self::{submitters::Submitter, workers::Plan};
use crate::{
    ledger::count,
    network::{networks, under_weather},
    options::Options,
    outages::Outages,
    outsiders::outsider,
    resources::{wait_for, watch},
    rng::Rng,
    stage::{Stage, folder},
    summary::Summary,
};

/// The function of the workers here.
const WORK: &str = "work";
/// The function of worker processes.
const SQUARE: &str = "square";
/// How long the submission of a background job may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a foreground job may take, with all its submissions.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How long the remaining jobs may take at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(180);
/// Networks between some of the clients and the server.
const NETWORKS: usize = 3;

/// `None` if the server is not installed.
pub fn soak(options: &Options) -> Option<Summary> {
    let folder = folder();
    let server = Gearmand::builder();
    let (server, persists) =
        if options.without_log { (server, false) } else { persistent(server, folder.path()) };
    let mut server = server.start()?;
    let address = server.socket_addr().expect("it listens on TCP");
    let stage = Arc::new(Stage::new(options));
    let mut rng = Rng::new(options.seed);
    let proxies = networks(address, NETWORKS);
    let places: Vec<SocketAddr> =
        [address].into_iter().chain(proxies.iter().map(|proxy| proxy.address())).collect();
    let runtime = Runtime::new().expect("a runtime");
    let mut reports = vec![match persists {
        true => "background jobs survive the kills".to_owned(),
        false => "there is no persistent queue: kills forget all jobs".to_owned(),
    }];
    let trends = thread::scope(|scope| {
        let workers = start_workers(&stage, &runtime, &places, &mut rng);
        let outsider_goes = scope.spawn(outsider(
            &stage,
            "resilient_worker",
            [address.to_string(), SQUARE.to_owned()],
            rng.fork(),
            |_, _| {},
        ));
        let trends = under_weather(&proxies, &stage, &mut rng.fork(), || {
            thread::scope(|scope| {
                let outages = Outages {
                    every: options.kill_every,
                    forgets: !persists && !options.miss_forgotten,
                };
                let (server, luck, stage) = (&mut server, rng.fork(), &stage);
                scope.spawn(move || outages.run(server, stage, luck));
                let trends = scope.spawn(move || watch(stage, options));
                reports.extend(submit(stage, &runtime, &places, options.rate, &mut rng));
                trends.join().expect("it only watches")
            })
        });
        drain(&stage, address);
        stage.end();
        reports.extend(workers.into_iter().map(|worker| worker.join().expect("a worker")));
        outsider_goes.join().expect("the worker process");
        trends
    });
    // Proxies and the server notice a moment later what clients have closed.
    drop(proxies);
    let left = count_connections(address);
    stage.ledger.note(0, Event::Left { connections: left });
    Some(Summary::new(&stage, options, trends, reports))
}

/// A server that keeps background jobs in a file, if it can; returns whether it can.
fn persistent(server: GearmandBuilder, folder: &Path) -> (GearmandBuilder, bool) {
    let help =
        Gearmand::program().and_then(|program| Command::new(program).arg("--help").output().ok());
    let text = help.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    if !String::from_utf8_lossy(&text).contains("--libsqlite3-db") {
        return (server, false);
    }
    let mut file = std::ffi::OsString::from("--libsqlite3-db=");
    file.push(folder.join("jobs.sqlite"));
    (server.arg("--queue-type=libsqlite3").arg(file), true)
}

/// All submitters until the calm, each with its share of the rate; every foreground job gets its answer.
fn submit(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rate: u64,
    rng: &mut Rng,
) -> Vec<String> {
    let plan = |actor, place: usize, percent: u32, idempotent| Submitter {
        stage: stage.clone(),
        actor,
        place: places[place],
        rate: rate as f64 * f64::from(percent) / 100.0,
        idempotent,
    };
    let handle = runtime.handle();
    thread::scope(|scope| {
        let mut luck = || rng.fork();
        let running = [
            scope.spawn(plan(100, 0, 20, false).background_async(handle, luck())),
            scope.spawn(plan(120, 1, 20, true).background_async(handle, luck())),
            scope.spawn(plan(140, 0, 15, true).foreground_async(handle, luck())),
            scope.spawn(plan(160, 0, 10, false).foreground_blocking(luck())),
            scope.spawn(plan(180, 2, 10, true).foreground_blocking(luck())),
            scope.spawn(plan(200, 3, 10, false).batches_async(handle, luck())),
            scope.spawn(plan(210, 0, 10, false).batches_blocking(luck())),
            scope.spawn(plan(220, 0, 5, true).squares(luck())),
        ];
        running.into_iter().map(|submitter| submitter.join().expect("a submitter")).collect()
    })
}

fn start_workers(
    stage: &Arc<Stage>,
    runtime: &Runtime,
    places: &[SocketAddr],
    rng: &mut Rng,
) -> Vec<JoinHandle<String>> {
    let plan = |actor, place: usize, concurrency| Plan {
        stage: stage.clone(),
        actor,
        place: places[place],
        concurrency,
    };
    vec![
        thread::spawn(plan(10, 0, 4).handlers_async(runtime.handle(), rng.fork())),
        thread::spawn(plan(20, 1, 4).handlers_async(runtime.handle(), rng.fork())),
        thread::spawn(plan(30, 0, 1).handlers_blocking(rng.fork())),
        thread::spawn(plan(31, 0, 1).handlers_blocking(rng.fork())),
        thread::spawn(plan(40, 2, 2).handlers_blocking(rng.fork())),
        thread::spawn(plan(50, 3, 2).by_hand_async(runtime.handle(), rng.fork())),
        thread::spawn(plan(60, 0, 1).by_hand_blocking(rng.fork())),
    ]
}

/// Waits until no job is left.
fn drain(stage: &Stage, address: SocketAddr) {
    let mut admin = Admin::connect(connect_options(address, 0)).expect("the server runs");
    let mut last = String::new();
    let is_empty = wait_for(DRAIN_LIMIT, || {
        let functions = admin.status().expect("the server runs");
        last = format!("{:?}", functions.rows());
        functions.iter().all(|function| function.total == 0)
    });
    if !is_empty {
        stage.ledger.problem(format!("after {DRAIN_LIMIT:?} of calm jobs are left: {last}"));
    }
}

/// The server's connections, except for this one.
fn count_connections(address: SocketAddr) -> usize {
    let mut admin = Admin::connect(connect_options(address, 0)).expect("the server runs");
    let mut others = 0;
    wait_for(Duration::from_secs(10), || {
        others = admin.workers().expect("the server runs").len() - 1;
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
        .retry(RetryPolicy::new(200).backoff(base, cap).seed(seed))
}

fn submit_options(idempotent: bool) -> SubmitOptions {
    SubmitOptions::default().idempotent(idempotent).timeout(ANSWER_LIMIT)
}

/// How a job ends, and what its handler does. Every attempt ends the same way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Complete,
    Fail,
    Exception,
    Panic,
}

impl Ending {
    fn of(key: Key) -> Self {
        match key % 100 {
            0 => Ending::Fail,
            1 => Ending::Exception,
            2 => Ending::Panic,
            _ => Ending::Complete,
        }
    }

    /// What is reported to the submitter.
    fn is_told_as(self, key: Key, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Ending::Complete, Outcome::Complete(result)) => *result == result_of(key),
            (Ending::Exception, Outcome::Exception(what)) => *what == result_of(key),
            (Ending::Fail | Ending::Panic, Outcome::Fail) => true,
            _ => false,
        }
    }
}

fn result_of(key: Key) -> String {
    format!("the result of {key}")
}

/// The connections of one client.
#[derive(Default)]
struct Connections {
    last: Vec<Epoch>,
    seen: u64,
}

impl Connections {
    fn see(&mut self, stage: &Stage, epochs: impl Iterator<Item = Epoch>) {
        let epochs: Vec<Epoch> = epochs.collect();
        if self.last != epochs {
            self.last = epochs;
            self.seen += 1;
            count(&stage.ledger.counts.connections);
        }
    }
}
