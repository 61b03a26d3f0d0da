//! Clients and workers of gearmand.

mod submitters;
mod workers;

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use fixtures::{
    history::Key,
    real::{Gearmand, GearmandBuilder},
};
use gearman_client::{ConnectOptions, Epoch, Outcome, RetryPolicy, SubmitOptions, blocking::Admin};

use self::{submitters::Submitter, workers::Plan};
use crate::{
    options::Options,
    run::{self, End, Field, Protocol},
    stage::folder,
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

/// `None` if the server is not installed.
pub fn soak(options: &Options) -> Option<Summary> {
    let folder = folder();
    let server = Gearmand::builder();
    let (server, persists) =
        if options.without_log { (server, false) } else { persistent(server, folder.path()) };
    let mut server = server.start()?;
    let address = server.socket_addr().expect("it listens on TCP");
    let reports = vec![match persists {
        true => "background jobs survive the kills".to_owned(),
        false => "there is no persistent queue: kills forget all jobs".to_owned(),
    }];
    let protocol = Protocol {
        outsider: ("resilient_worker", [address.to_string(), SQUARE.to_owned()], |_, _| {}),
        start,
        produce,
        look: |address| Admin::connect(connect_options(address, 0)).expect("the server runs"),
        jobs: |admin| {
            let functions = admin.status().expect("the server runs");
            let is_empty = functions.iter().all(|function| function.total == 0);
            (!is_empty).then(|| format!("{:?}", functions.rows()))
        },
        connections: |admin| admin.workers().expect("the server runs").len() - 1,
    };
    Some(protocol.run(&mut server, options, !persists, reports))
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

/// Every foreground job gets its answer.
fn produce(field: &mut Field, rate: u64) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let plan = |actor, place: usize, percent: u32, idempotent| Submitter {
        stage: stage.clone(),
        actor,
        place: places[place],
        rate: rate as f64 * f64::from(percent) / 100.0,
        idempotent,
    };
    vec![
        field.run_async(plan(100, 0, 20, false), Submitter::background_async),
        field.run_async(plan(120, 1, 20, true), Submitter::background_async),
        field.run_async(plan(140, 0, 15, true), Submitter::foreground_async),
        field.run(plan(160, 0, 10, false), Submitter::foreground_blocking),
        field.run(plan(180, 2, 10, true), Submitter::foreground_blocking),
        field.run_async(plan(200, 3, 10, false), Submitter::batches_async),
        field.run(plan(210, 0, 10, false), Submitter::batches_blocking),
        field.run(plan(220, 0, 5, true), Submitter::squares),
    ]
}

fn start(field: &mut Field) -> Vec<End> {
    let (stage, places) = (field.stage.clone(), field.places.clone());
    let plan = |actor, place: usize, concurrency| Plan {
        stage: stage.clone(),
        actor,
        place: places[place],
        concurrency,
    };
    vec![
        field.run_async(plan(10, 0, 4), Plan::handlers_async),
        field.run_async(plan(20, 1, 4), Plan::handlers_async),
        field.run(plan(30, 0, 1), Plan::handlers_blocking),
        field.run(plan(31, 0, 1), Plan::handlers_blocking),
        field.run(plan(40, 2, 2), Plan::handlers_blocking),
        field.run_async(plan(50, 3, 2), Plan::by_hand_async),
        field.run(plan(60, 0, 1), Plan::by_hand_blocking),
    ]
}

type Connections = run::Connections<Vec<Epoch>>;

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
