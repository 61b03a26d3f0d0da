//! The slot under a pump that does everything a pump may do, against a server that forgets nothing.

mod asking;
mod ending;
mod keeping;

use std::{collections::BTreeSet, time::Duration};

use fixtures::{beanstalkd::broker::ConnectionId, offline::Offline};
use queue_core::{
    JobLimit, Pulse,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::{Action, JobKey, ReservationChange, WorkerSlot};
use crate::{
    ConnectOptions, Decision, Error, ErrorKind, Fate, JobFate, Outcome, Retries, RetryPolicy,
    TubeName, WorkerEventKind, WorkerOptions,
};

/// A server into which another client puts jobs.
struct Tube {
    server: Offline,
    producer: ConnectionId,
    worker: Option<ConnectionId>,
}

impl Tube {
    fn new() -> Self {
        let mut server = fixtures::beanstalkd::Server::builder().log_capacity(0).offline();
        let producer = server.connect();
        Tube { server, producer, worker: None }
    }

    fn ask(&mut self, line: &str) -> String {
        self.server.send(self.producer, line.as_bytes());
        String::from_utf8(self.server.receive(self.producer).bytes).unwrap()
    }

    fn put(&mut self) -> u64 {
        let said = self.ask("put 77 0 60 4\r\nbody\r\n");
        said.trim().strip_prefix("INSERTED ").unwrap().parse().unwrap()
    }
}

impl Peer for Tube {
    fn connected(&mut self) {
        if let Some(old) = self.worker.take() {
            self.server.hang_up(old);
        }
        self.worker = Some(self.server.connect());
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        let Some(worker) = self.worker else { return false };
        self.server.send(worker, bytes);
        let received = self.server.receive(worker);
        answer.extend_from_slice(&received.bytes);
        received.end.is_none()
    }
}

struct World {
    proof: Proof<WorkerSlot, Tube>,
    seed: u64,
    jobs: BTreeSet<u64>,
    running: Vec<(JobKey, u64)>,
    fates: Vec<(u64, JobFate)>,
    starts: usize,
    given_up: usize,
    clock: Duration,
}

impl World {
    fn new(options: &WorkerOptions, seed: u64) -> Self {
        let role = WorkerSlot::new(options, 0, seed, vec![TubeName::default()]);
        let refuse = || Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        World {
            proof: Proof::new(role, Tube::new(), refuse, seed),
            seed,
            jobs: BTreeSet::new(),
            running: Vec::new(),
            fates: Vec::new(),
            starts: 0,
            given_up: 0,
            clock: Duration::ZERO,
        }
    }

    fn step(&mut self) -> Pulse {
        let before = self.proof.now();
        let pulse = self.proof.step();
        let passed = self.proof.now() - before;
        self.clock += passed;
        self.proof.peer.server.advance(passed);
        while let Some(action) = self.proof.role.0.next_action() {
            match action {
                Action::Run(taken) => {
                    self.starts += 1;
                    self.running.push((taken.key, taken.job.id.get()));
                }
                Action::HandBack => self.hand_back(),
                Action::Tell(WorkerEventKind::GivenUp) => self.given_up += 1,
                Action::Tell(WorkerEventKind::Settled { job, fate }) => {
                    self.fates.push((job.get(), fate));
                }
                _ => {}
            }
        }
        pulse
    }

    /// The first one has begun.
    fn hand_back(&mut self) {
        for (key, _) in self.running.split_off(self.running.len().min(1)) {
            self.proof.role.0.give_back(key, self.proof.now());
        }
    }

    fn end_one(&mut self) {
        if !self.running.is_empty() {
            let (key, _) = self.running.remove(0);
            self.proof.role.0.finish(key, Outcome::Delete, 0, self.proof.now());
        }
    }

    fn is_done(&mut self, job: u64) -> bool {
        self.proof.peer.ask(&format!("stats-job {job}\r\n")).starts_with("NOT_FOUND")
    }
}

fn options(seed: u64) -> WorkerOptions {
    // However often it is reserved, no job is treated as poison.
    let patient = Retries::default().reserves(u64::MAX);
    // A proof jumps to deadlines more often than it reads a whole reply, so only some seeds have one.
    let reply = if seed.is_multiple_of(16) { 10 } else { 10_000 };
    let server: ConnectOptions = "127.0.0.1:1".parse().unwrap();
    let server = server.reply_timeout(Duration::from_secs(reply));
    WorkerOptions::from(server).seed(seed).retries(patient)
}

/// Without that it never ended.
#[test]
fn a_worker_until_its_tubes_are_empty_gives_up_a_server_that_cannot_be_reached() {
    for seed in 0..20 {
        let second = Duration::from_secs(1);
        let server: ConnectOptions = "127.0.0.1:1".parse().unwrap();
        let server = server.reply_timeout(10_000 * second).connect_timeout(10_000 * second);
        let server = server.retry(RetryPolicy::new(2).backoff(second, second));
        let options = WorkerOptions::from(server).seed(seed);
        let options = if seed % 4 > 0 { options.until_empty() } else { options };
        let mut world = World::new(&options, seed);
        world.proof.peer.put();
        // A leap to the end of a write is a failure, too.
        world.proof.leaps = false;
        let is_lost_later = seed % 2 > 0;
        if is_lost_later {
            let mut steps = 0;
            while world.running.is_empty() {
                let pulse = world.step();
                steps += 1;
                assert!(steps < 20_000, "seed {seed}: no job: {pulse:?}");
            }
        }
        world.proof.faults = Faults { broken: 1, refused: 1, ..Faults::default() };
        let mut steps = 0;
        while steps < 1_000 && world.step() != Pulse::Over {
            steps += 1;
            if is_lost_later && steps == 500 {
                assert_eq!((world.running.len(), world.given_up), (1, 0), "its handler runs");
                world.end_one();
            }
        }
        let gives_up = seed % 4 > 0;
        assert_eq!((steps < 1_000, world.given_up == 1), (gives_up, gives_up), "seed {seed}");
    }
}

/// Every job is deleted in the end, and none that was reported as deleted still exists.
#[test]
fn no_job_is_lost_on_any_schedule_and_network() {
    for seed in seeds(17) {
        let prefetch = if seed % 2 == 0 { 1 } else { 8 };
        let options = options(seed)
            .prefetch(prefetch)
            .reconnect_backoff(Duration::from_millis(10), Duration::from_secs(1));
        let mut world = World::new(&options, seed);
        world.proof.faults = Faults { broken: 40, refused: 4, dropped: 6, late: 200 };
        for step in 0..500 {
            if step % 20 == 0 {
                let job = world.proof.peer.put();
                world.jobs.insert(job);
            }
            world.step();
            if step % 7 == 0 {
                world.end_one();
            }
            assert!(world.running.len() <= prefetch, "seed {seed}: {:?}", world.running);
            if step % 50 == 0 {
                for (job, fate) in world.fates.clone() {
                    assert!(fate != JobFate::Deleted || world.is_done(job), "seed {seed}: {job}");
                }
            }
        }
        // All faults end, and then everything has to finish.
        world.proof.faults = Faults::default();
        let mut steps = 0;
        while let Some(job) = world.jobs.first().copied() {
            world.step();
            world.end_one();
            if world.is_done(job) {
                world.jobs.remove(&job);
            }
            steps += 1;
            assert!(steps < 50_000, "seed {seed}: job {job} of {:?}", world.jobs);
        }
        world.end();
    }
}

impl World {
    /// A stop ends everything: the connection, and what it holds.
    fn end(&mut self) {
        self.proof.role.0.stop(self.proof.now());
        for _ in 0..10_000 {
            if self.step() == Pulse::Over {
                assert!(!self.proof.role.0.is_connected());
                return;
            }
            self.end_one();
        }
        panic!("seed {}: it does not end", self.seed);
    }
}

/// A stop at any moment, on any network, ends the slot within its grace, and every job is back or done.
#[test]
fn a_stop_at_any_moment_returns_all_jobs() {
    for seed in 0..32 {
        let options = options(seed).prefetch(4).grace(Duration::from_secs(5));
        let mut world = World::new(&options, seed);
        world.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 0 };
        for _ in 0..20 {
            let job = world.proof.peer.put();
            world.jobs.insert(job);
        }
        for step in 0..seed % 100 {
            world.step();
            if step % 5 == 0 {
                world.end_one();
            }
        }
        let (asked, now) = (world.clock, world.proof.now());
        world.proof.role.0.stop(now);
        while world.step() != Pulse::Over {
            assert!(world.clock < asked + Duration::from_secs(8), "seed {seed}");
        }
        // A server notices the end of a connection soon.
        if let Some(worker) = world.proof.peer.worker.take() {
            world.proof.peer.server.hang_up(worker);
        }
        for job in world.jobs.clone() {
            let said = world.proof.peer.ask(&format!("stats-job {job}\r\n"));
            let is_back = said.contains("state: ready") && said.contains("pri: 77");
            assert!(is_back || said.starts_with("NOT_FOUND"), "seed {seed}: {said}");
            let deleted = world.fates.contains(&(job, JobFate::Deleted));
            assert!(!deleted || said.starts_with("NOT_FOUND"), "seed {seed}: {job}");
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A slot by itself: the test says what its server answers, and when.
struct Bench {
    hand: ByHand<WorkerSlot>,
    /// The jobs that were given to the handler.
    given: Vec<(JobKey, u64)>,
}

impl Bench {
    /// Before its first connection.
    fn new(options: &WorkerOptions) -> Self {
        Bench::watching(options, &["default"])
    }

    /// The same, for these tubes.
    fn watching(options: &WorkerOptions, tubes: &[&str]) -> Self {
        let tubes = tubes.iter().map(|tube| tube.parse().unwrap()).collect();
        Bench { hand: ByHand::new(WorkerSlot::new(options, 0, 1, tubes)), given: Vec::new() }
    }

    /// On a connection whose server has said who it is.
    fn connected(options: &WorkerOptions) -> Self {
        let mut bench = Bench::new(options);
        bench.opens();
        bench.hear(&server("1a"));
        bench.did();
        bench
    }

    /// A slot that was given a job, with its actions dropped.
    fn taken(options: &WorkerOptions, job: u64) -> Self {
        let mut bench = Bench::connected(options);
        bench.hear(&reserved(job));
        bench.did();
        bench
    }

    /// With this job in the handler, whose counters were read.
    fn running(options: &WorkerOptions, job: u64, ttr: u64) -> Self {
        let mut bench = Bench::connected(options);
        assert!(bench.hear(&reserved(job)).starts_with(&format!("stats-job {job}\r\n")));
        bench.hear(&counters(job, &[("ttr", ttr)]));
        assert_eq!(bench.did().last().unwrap(), &format!("run {job}"));
        bench
    }

    fn slot(&mut self) -> &mut WorkerSlot {
        &mut self.hand.role.0
    }

    /// Makes a connection when the slot wants one; returns what is said on it.
    fn opens(&mut self) -> String {
        loop {
            match self.hand.turn() {
                Pulse::Dial { .. } => break,
                Pulse::Close(Some(at)) => self.hand.now = at,
                other => panic!("{other:?}"),
            }
        }
        self.hand.opens();
        self.says()
    }

    /// What the slot says now.
    fn says(&mut self) -> String {
        self.hand.turn();
        String::from_utf8(self.hand.takes_all()).unwrap()
    }

    /// What it says when this has arrived.
    fn hear(&mut self, answer: &str) -> String {
        self.hand.comes(answer.as_bytes());
        self.says()
    }

    /// What it says when this time has passed.
    fn wait(&mut self, time: Duration) -> String {
        self.hand.now += time;
        self.says()
    }

    fn lose(&mut self) -> Pulse {
        self.hand.loses(std::io::ErrorKind::ConnectionReset);
        self.hand.turn()
    }

    fn key(&self, job: u64) -> JobKey {
        self.given.iter().rev().find(|(_, id)| *id == job).unwrap().0
    }

    /// The handler of this job ends; returns what is said then.
    fn finish(&mut self, job: u64, decision: impl Into<Decision>) -> String {
        let (key, now) = (self.key(job), self.hand.now);
        self.slot().finish(key, decision, 0, now);
        self.says()
    }

    fn stop(&mut self) -> String {
        let now = self.hand.now;
        self.slot().stop(now);
        self.says()
    }

    /// The decisions for the handlers since the last call.
    fn did(&mut self) -> Vec<String> {
        let actions: Vec<Action> = std::iter::from_fn(|| self.hand.role.0.next_action()).collect();
        actions.into_iter().map(|action| self.described(action)).collect()
    }

    fn described(&mut self, action: Action) -> String {
        let job = |key| self.given.iter().find(|(given, _)| *given == key).map_or(0, |(_, id)| *id);
        match action {
            Action::Run(taken) => {
                self.given.push((taken.key, taken.job.id.get()));
                format!("run {}", taken.job.id)
            }
            Action::Update(key, ReservationChange::Touched(_)) => format!("touched {}", job(key)),
            Action::Update(key, ReservationChange::TouchRefused(_)) => {
                format!("not touched {}", job(key))
            }
            Action::Update(key, ReservationChange::Known(..)) => format!("known {}", job(key)),
            Action::Update(key, ReservationChange::Lost(why)) => {
                format!("lost {}: {why:?}", job(key))
            }
            Action::Abort(key) => format!("abort {}", job(key)),
            Action::HandBack => "hand back".to_owned(),
            Action::Connected(id) => format!("connected {id}"),
            Action::Tell(what) => what.to_string(),
        }
    }
}

/// The answer to `stats` of a server with this id.
fn server(id: &str) -> String {
    text(&format!("---\nid: {id}\n"))
}

fn text(yaml: &str) -> String {
    format!("OK {}\r\n{yaml}\r\n", yaml.len())
}

fn reserved(job: u64) -> String {
    format!("RESERVED {job} 4\r\nbody\r\n")
}

/// The counters of a job that was reserved for the first time, apart from these.
fn counters<V: ToString>(job: u64, changes: &[(&str, V)]) -> String {
    counters_in("default", job, changes)
}

/// The same, of a job of this tube.
fn counters_in<V: ToString>(tube: &str, job: u64, changes: &[(&str, V)]) -> String {
    let usual = [
        ("tube", tube),
        ("state", "reserved"),
        ("pri", "77"),
        ("age", "5"),
        ("delay", "0"),
        ("ttr", "60"),
        ("reserves", "1"),
        ("timeouts", "0"),
        ("releases", "0"),
        ("buries", "0"),
        ("kicks", "0"),
    ];
    let mut yaml = format!("---\nid: {job}\n");
    for (key, value) in usual {
        let changed = changes.iter().find(|(name, _)| *name == key);
        let value = changed.map_or(value.to_owned(), |(_, value)| value.to_string());
        yaml += &format!("{key}: {value}\n");
    }
    text(&yaml)
}

fn as_usual() -> [(&'static str, u64); 0] {
    []
}
