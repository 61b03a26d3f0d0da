//! The worker role over any schedule and any network, against the in-memory server.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use fixtures::{
    adf_queue::{Quirks, Server},
    offline::Offline,
};
use queue_core::{
    Claim, Claimed, JobLimit, Pulse, Random, RetryPolicy,
    proof::{ByHand, Faults, Idle, Proof, seeds},
};

use super::{HandlerMessage, HeldKey, Lane, LaneEvent, LaneSettings};
use crate::{
    ConnectOptions, ConnectionState, JobFate, LostReason, Outcome, QueueName, WorkerEventKind,
    protocol::client::{
        link_network_tests::Served,
        link_tests::{SECOND, refused},
    },
};

/// A queue whose pull waits is not counted without a reason.
const NEVER: Duration = Duration::from_secs(100_000);

/// The worker, its handlers, and its server.
struct Face {
    proof: Proof<Lane, Served>,
    random: Random,
    running: Vec<HandlerMessage>,
    lost: HashSet<HeldKey>,
    /// The bodies that handlers began with, in order.
    started: Vec<String>,
    /// The bodies that were deleted or moved, as reported by the worker.
    settled: Vec<(String, u64, JobFate)>,
    /// Why messages were moved, and after how many attempts.
    dead: Vec<(String, u32)>,
    poisoned: usize,
    given_up: usize,
    refused: usize,
    connected: usize,
    disconnected: usize,
    requests: u64,
    start: Instant,
}

fn terms() -> LaneSettings {
    LaneSettings {
        slots: 3,
        slots_for: BTreeMap::new(),
        prefetch: 0,
        max_duplications: u16::MAX,
        dead_letter: None,
        grace: 25 * SECOND,
        recheck: 10 * SECOND,
        limit: None,
        until_empty: false,
        is_one_of_many: false,
    }
}

/// What came as often as this without success goes to `/dead`.
fn dead_lettering(max_duplications: u16) -> LaneSettings {
    LaneSettings { max_duplications, dead_letter: Some(name("/dead")), ..terms() }
}

fn server(queues: &[&str]) -> Offline {
    queues.iter().fold(Server::builder(), |server, queue| server.queue(*queue)).offline()
}

fn name(queue: &str) -> QueueName {
    queue.parse().unwrap()
}

fn options(seed: u64) -> ConnectOptions {
    let scheme = if seed.is_multiple_of(2) { "adf" } else { "adf+json" };
    let options: ConnectOptions = format!("{scheme}://server:1").parse().unwrap();
    let options = options.seed(seed).ping_interval(None).connect_timeout(Duration::MAX);
    options.reply_timeout(Duration::MAX).write_timeout(Duration::MAX)
}

impl Face {
    /// A worker that waits for answers as long as it takes, because a proof lets hours pass between two bytes.
    /// A lane that serves the only queue of its server, `/q`.
    fn serving(seed: u64, terms: LaneSettings) -> Self {
        Self::new(seed, terms, &["/q"], server(&["/q"]))
    }

    /// One that moves messages to `/dead`.
    fn dead_lettering(seed: u64, max_duplications: u16) -> Self {
        Self::new(seed, dead_lettering(max_duplications), &["/q"], server(&["/q", "/dead"]))
    }

    fn new(seed: u64, terms: LaneSettings, queues: &[&str], server: Offline) -> Self {
        let retry = RetryPolicy::new(u32::MAX).backoff(SECOND / 100, 10 * SECOND);
        Self::with(retry, seed, terms, queues, server)
    }

    fn with(
        retry: RetryPolicy,
        seed: u64,
        terms: LaneSettings,
        queues: &[&str],
        server: Offline,
    ) -> Self {
        let options = options(seed).retry(retry.seed(seed));
        let lane = Lane::new(options, terms, queues.iter().map(|queue| name(queue)));
        let peer = Served::new(server);
        let proof = Proof::new(lane, peer, refused, seed);
        Face {
            start: proof.now(),
            proof,
            random: Random::new(seed),
            running: Vec::new(),
            lost: HashSet::new(),
            started: Vec::new(),
            settled: Vec::new(),
            dead: Vec::new(),
            poisoned: 0,
            given_up: 0,
            refused: 0,
            connected: 0,
            disconnected: 0,
            requests: 0,
        }
    }

    fn lane(&mut self) -> &mut Lane {
        &mut self.proof.role.0
    }

    /// Another client's request over HTTP, and the server's answer.
    fn ask(&mut self, action: &str, queue: &str, body: &str) -> String {
        self.requests += 1;
        let target = format!("/queue/{action}.json?queue={queue}&requestid=r{}", self.requests);
        let request = match body {
            "" => format!("GET {target} HTTP/1.1\r\n\r\n"),
            _ => format!(
                "POST {target} HTTP/1.1\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        let server = &mut self.proof.peer.server;
        let id = server.connect();
        server.send(id, request.as_bytes());
        let answer = String::from_utf8(server.receive(id).bytes).unwrap();
        server.hang_up(id);
        answer
    }

    fn push(&mut self, queue: &str, body: &str) {
        assert!(self.ask("rpush", queue, body).contains("\"result\":\"ok\""));
    }

    /// Another client pulls the message of `/q`; returns the number of its request.
    fn pull_elsewhere(&mut self, body: &str) -> u64 {
        let answer = self.ask("pull", "/q", "");
        assert!(answer.contains(&format!("\"body\":\"{body}\"")), "{answer}");
        self.requests
    }

    /// It does so at once.
    fn pulled_elsewhere(&mut self, body: &str) -> u64 {
        self.push("/q", body);
        self.pull_elsewhere(body)
    }

    fn count(&mut self, queue: &str) -> usize {
        let answer = self.ask("count", queue, "");
        let (_, rest) = answer.split_once("\"count\":").unwrap();
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    }

    /// The bodies that are ready, the next one first. They stay pulled.
    fn ready(&mut self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        while self.count(queue) > 0 {
            let pulled = self.ask("pull", queue, "");
            let (_, rest) = pulled.split_once("\"body\":\"").unwrap();
            bodies.push(rest.split('"').next().unwrap().to_owned());
        }
        bodies
    }

    /// One exchange, and its face's reaction.
    fn step(&mut self) -> Pulse {
        let pulse = self.proof.step();
        self.check(pulse);
        while let Some((jobs, news)) = self.take() {
            for job in jobs {
                let body = body(&job);
                self.started.push(body);
                self.running.push(job);
            }
            news.into_iter().for_each(|news| self.hear(news));
        }
        let names: HashSet<_> = self
            .running
            .iter()
            .map(|job| (job.delivery.queue(), job.delivery.message_id().get()))
            .collect();
        assert_eq!(names.len(), self.running.len(), "a message is run twice at once");
        let slots = self.lane().terms.slots;
        assert!(self.running.len() <= slots, "{} handlers run", self.running.len());
        pulse
    }

    /// What a face asks about the lane, beside its news.
    fn check(&mut self, pulse: Pulse) {
        let (now, lane) = (self.proof.now(), self.lane());
        let is_over = lane.is_over();
        assert_eq!(is_over, pulse == Pulse::Over);
        let is_ready = lane.connection_state(now) == ConnectionState::Ready;
        assert!(is_over || lane.is_connected() == is_ready);
    }

    fn take(&mut self) -> Option<(Vec<HandlerMessage>, Vec<LaneEvent>)> {
        let has_news = self.lane().has_news();
        let taken = self.lane().take();
        assert_eq!(taken.is_some(), has_news);
        taken
    }

    fn hear(&mut self, news: LaneEvent) {
        match news {
            LaneEvent::Lost(key, _) => assert!(self.lost.insert(key), "a message is lost twice"),
            LaneEvent::Tell(WorkerEventKind::Settled { queue, message, fate }) => {
                assert_ne!(fate, JobFate::Lost(LostReason::NotPulled), "settled elsewhere");
                self.settled.push((queue.to_string(), message.get(), fate));
            }
            LaneEvent::Tell(WorkerEventKind::DeadLettered { reason, attempts, .. }) => {
                self.dead.push((reason, attempts));
            }
            LaneEvent::Tell(WorkerEventKind::Poisoned { .. }) => self.poisoned += 1,
            LaneEvent::Tell(WorkerEventKind::GivenUp) => self.given_up += 1,
            LaneEvent::Tell(WorkerEventKind::Refused { .. }) => self.refused += 1,
            LaneEvent::Tell(WorkerEventKind::Connected) => self.connected += 1,
            LaneEvent::Tell(WorkerEventKind::Disconnected(_)) => self.disconnected += 1,
            LaneEvent::Tell(_) => {}
        }
    }

    /// One of the handlers ends.
    fn end_one(&mut self, outcome: Outcome) {
        if !self.running.is_empty() {
            let job = self.running.swap_remove(self.random.below(self.running.len()));
            let now = self.proof.now();
            self.lane().finish(job.key, outcome, now);
        }
    }

    fn settled_as(&self, fate: JobFate) -> usize {
        self.settled.iter().filter(|(_, _, known)| *known == fate).count()
    }

    /// Steps on a good network until this holds; handlers return this outcome.
    fn until(&mut self, outcome: Outcome, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..20_000 {
            if holds(self) {
                return;
            }
            self.step();
            self.end_one(outcome);
        }
        panic!(
            "it does not come to that: {:?} {:?} {:?}",
            self.started, self.settled, self.proof.role.0
        );
    }

    /// How long it takes until this many messages are deleted, by a clock that does not leap ahead of events.
    fn time_to_delete(&mut self, count: usize) -> Duration {
        let start = self.proof.now();
        self.proof.leaps = false;
        self.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) >= count);
        self.proof.now() - start
    }

    /// Steps until nothing is in progress: neither held nor ready, nor in flight for a good while.
    fn until_idle(&mut self, outcome: Outcome, queues: &[&str]) {
        let mut idle = 0;
        self.until(outcome, |face| {
            let ready: usize = queues.iter().map(|queue| face.count(queue)).sum();
            idle = if ready + face.lane().held() == 0 { idle + 1 } else { 0 };
            idle > 300
        });
    }

    fn step_while(&mut self, mut goes_on: impl FnMut(&mut Self) -> bool) {
        while goes_on(self) {
            self.step();
        }
    }

    /// Steps until a handler runs.
    fn until_running(&mut self) {
        self.step_while(|face| face.running.is_empty());
    }

    /// Steps until the connection is lost, and with it a message whose handler runs.
    fn lose(&mut self) {
        self.proof.faults.broken = 1;
        self.step_while(|face| face.lost.is_empty());
        self.proof.faults.broken = 0;
    }

    /// Another client deletes the queue `/q` and creates it again, which leaves a pull that waits unanswered.
    fn remake_queue(&mut self) {
        for action in ["deletequeue", "createqueue"] {
            assert!(self.ask(action, "/q", "").contains("ok"));
        }
    }

    /// Steps until nothing more happens immediately.
    fn quiet(&mut self) {
        let before = self.proof.now();
        for _ in 0..200 {
            self.step();
        }
        assert!(self.proof.now() > before);
    }

    fn stop(&mut self) {
        let now = self.proof.now();
        self.lane().stop(now);
    }

    fn until_over(&mut self) {
        for _ in 0..2_000 {
            if self.step() == Pulse::Over {
                return;
            }
        }
        panic!("it does not end");
    }

    /// The same within fewer than this number of steps, while handlers end.
    fn until_over_ending(&mut self, outcome: Outcome, most: usize, seed: u64) {
        let mut steps = 0;
        while self.step() != Pulse::Over {
            self.end_one(outcome);
            steps += 1;
            assert!(steps < most, "seed {seed}: it does not end: {:?}", self.lane());
        }
    }

    /// The server notices that the worker's connection is gone.
    fn hang_up(&mut self) {
        if let Some(connection) = self.proof.peer.connection.take() {
            self.proof.peer.server.hang_up(connection);
        }
    }
}

fn body(job: &HandlerMessage) -> String {
    String::from_utf8(job.delivery.body().to_vec()).unwrap()
}

/// Every message is run until it is deleted; none is deleted twice, lost, or settled on another connection than its
/// own.
#[test]
fn every_message_is_settled_once_on_any_schedule_and_network() {
    let (mut lost, mut unknown, mut returned) = (0, 0, 0);
    for seed in seeds(15) {
        let terms = LaneSettings { prefetch: (seed % 3) as usize, ..terms() };
        let mut face = Face::new(seed, terms, &["/q", "/other"], server(&["/q", "/other"]));
        face.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 300 };
        for number in 0..30 {
            face.push(if number % 3 == 0 { "/other" } else { "/q" }, &number.to_string());
            for _ in 0..12 {
                assert_ne!(face.step(), Pulse::Over);
                let most = face.lane().terms.slots + face.lane().terms.prefetch + 3;
                let taken = face.lane().hold.taken(&BTreeMap::new());
                assert!(taken <= most, "seed {seed}: {taken} are held");
                if face.random.one_in(3) {
                    let outcome = match face.random.below(5) {
                        0 => Outcome::ReturnLeft,
                        1 => Outcome::ReturnRight,
                        2 => Outcome::Retry,
                        _ => Outcome::Delete,
                    };
                    face.end_one(outcome);
                }
            }
        }
        face.proof.faults = Faults::default();
        face.until_idle(Outcome::Delete, &["/q", "/other"]);
        face.stop();
        face.until_over();
        assert_eq!(
            face.count("/q") + face.count("/other"),
            0,
            "seed {seed}: the close returned one"
        );
        let deleted: Vec<_> =
            face.settled.iter().filter(|(_, _, fate)| *fate == JobFate::Deleted).collect();
        let distinct: HashSet<_> = deleted.iter().map(|(queue, id, _)| (queue, id)).collect();
        assert_eq!(distinct.len(), deleted.len(), "seed {seed}: deleted twice");
        let perhaps = face.settled_as(JobFate::Unknown);
        let count = deleted.len();
        assert!(count <= 30 && count + perhaps >= 30, "seed {seed}: {:?}", face.settled);
        lost += face.settled_as(JobFate::Lost(LostReason::ConnectionLost));
        unknown += perhaps;
        returned += face.settled_as(JobFate::ReturnedRight);
    }
    assert!(lost > 25 && unknown > 2 && returned > 15, "{lost} {unknown} {returned}");
}

/// Whatever fails is in the dead-letter queue in the end, and nowhere else.
#[test]
fn failures_reach_the_dead_letter_queue_on_any_schedule_and_network() {
    let mut moved = 0;
    for seed in seeds(15) {
        let mut face = Face::dead_lettering(seed, 2);
        face.proof.faults = Faults { broken: 80, refused: 4, dropped: 6, late: 300 };
        for number in 0..10 {
            face.push("/q", &number.to_string());
            for _ in 0..12 {
                face.step();
                face.end_one(Outcome::Retry);
            }
        }
        face.proof.faults = Faults::default();
        face.until_idle(Outcome::Retry, &["/q"]);
        face.stop();
        face.until_over();
        let dead = face.ready("/dead");
        let distinct: HashSet<_> = dead.iter().cloned().collect();
        assert_eq!(distinct.len(), 10, "seed {seed}: {dead:?}");
        assert_eq!(face.count("/q"), 0, "seed {seed}");
        moved += face.settled_as(JobFate::DeadLettered);
    }
    assert!(moved > 90, "{moved}");
}

/// A worker that is stopped at any moment ends, and what it did not settle is where it was.
#[test]
fn a_worker_stopped_at_any_moment_leaves_the_rest_in_its_order() {
    for seed in 0..100 {
        let terms = LaneSettings { slots: 1, prefetch: 2, grace: Duration::MAX, ..terms() };
        let mut face = Face::serving(seed, terms);
        face.proof.faults = Faults { dropped: 6, ..Faults::default() };
        let bodies: Vec<String> = ('a'..='h').map(String::from).collect();
        bodies.iter().for_each(|body| face.push("/q", body));
        for _ in 0..face.random.below(80) {
            face.step();
            if face.random.one_in(4) {
                face.end_one(Outcome::Delete);
            }
        }
        face.stop();
        let started = face.started.len();
        face.until_over_ending(Outcome::Delete, 2_000, seed);
        assert_eq!(face.step(), Pulse::Over);
        face.hang_up();
        let deleted = face.settled_as(JobFate::Deleted);
        assert_eq!(face.ready("/q"), bodies[deleted..], "seed {seed}");
        assert_eq!(face.started.len(), deleted, "seed {seed}: those that began have ended");
        assert_eq!(deleted, started, "seed {seed}: none began after that");
    }
}

#[test]
fn handlers_that_outlast_the_grace_lose_their_messages() {
    let mut face = Face::serving(2, terms());
    face.push("/q", "slow");
    face.until(Outcome::Retry, |face| !face.running.is_empty() || face.lane().held() > 0);
    face.until_running();
    face.stop();
    let start = face.proof.now();
    let job = face.running.pop().unwrap();
    face.until_over();
    assert!(face.proof.now() >= start + 25 * SECOND);
    assert!(face.lost.contains(&job.key));
    assert_eq!(face.settled_as(JobFate::Lost(LostReason::Stopped)), 1);
    let now = face.proof.now();
    assert_eq!(face.lane().connection_state(now), ConnectionState::Closed);
    face.hang_up();
    assert_eq!(face.ready("/q"), ["slow"]);
}

/// It has all the time that it needs otherwise.
#[test]
fn the_last_message_of_a_limit_has_its_grace_from_a_stop_on() {
    let mut face = Face::serving(2, LaneSettings { limit: Some(JobLimit::new(1)), ..terms() });
    face.push("/q", "slow");
    face.until_running();
    let start = face.proof.now();
    while face.proof.now() < start + 100 * SECOND {
        assert_ne!(face.step(), Pulse::Over);
    }
    assert_eq!(face.settled_as(JobFate::Lost(LostReason::Stopped)), 0);
    let start = face.proof.now();
    face.stop();
    face.until_over();
    assert!(face.proof.now() >= start + 25 * SECOND);
    assert_eq!(face.settled_as(JobFate::Lost(LostReason::Stopped)), 1);
}

/// It may finish what it has begun, although the message is another worker's by then.
#[test]
fn a_stop_leaves_the_handler_of_a_lost_message_its_grace() {
    for finishes in [true, false] {
        let mut face = Face::serving(2, terms());
        face.push("/q", "slow");
        face.until_running();
        face.proof.faults = Faults { broken: 1, refused: 1, ..Faults::default() };
        face.step_while(|face| face.lost.is_empty());
        face.stop();
        let start = face.proof.now();
        face.proof.leaps = false;
        for _ in 0..200 {
            assert_ne!(face.step(), Pulse::Over, "finishes: {finishes}");
        }
        if finishes {
            face.end_one(Outcome::Delete);
        }
        face.proof.leaps = true;
        face.until_over();
        assert_eq!(face.proof.now() >= start + 25 * SECOND, !finishes);
        assert_eq!(face.settled_as(JobFate::Lost(LostReason::ConnectionLost)), 1);
    }
}

#[test]
fn a_missing_queue_is_reported_and_retried_until_it_exists() {
    for seed in 0..4 {
        // What was refused keeps no share of a limit.
        let limit = (seed > 1).then(|| JobLimit::new(1));
        let mut face = Face::new(seed, LaneSettings { limit, ..terms() }, &["/q"], server(&[]));
        face.until(Outcome::Delete, |face| face.refused >= 3);
        face.proof.leaps = false;
        assert!(face.ask("createqueue", "/q", "").contains("ok"));
        face.push("/q", "x");
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
    }
}

#[test]
fn an_unsendable_name_is_reported_repeatedly() {
    let limit = Some(JobLimit::new(1));
    let mut face = Face::new(2, LaneSettings { limit, ..terms() }, &["/é"], server(&[]));
    face.until(Outcome::Delete, |face| face.refused == 3);
}

#[test]
fn redelivered_messages_do_not_use_up_the_limit() {
    for seed in 0..2 {
        let (limit, dead_letter) = (Some(JobLimit::new(1)), Some(name("/dead")));
        let terms = LaneSettings { limit, dead_letter, max_duplications: 0, ..terms() };
        let mut face = Face::new(seed, terms, &["/q"], server(&["/q", "/dead"]));
        ["a", "b"].iter().for_each(|body| face.push("/q", body));
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::DeadLettered) == 2);
    }
}

#[test]
fn messages_lost_before_handling_do_not_use_up_the_limit() {
    for seed in 0..2 {
        let limit = Some(JobLimit::new(2));
        let mut face =
            Face::serving(seed, LaneSettings { limit, slots: 1, prefetch: 1, ..terms() });
        ["a", "b"].iter().for_each(|body| face.push("/q", body));
        face.step_while(|face| face.running.is_empty() || face.lane().hold.waiting.is_empty());
        face.lose();
        face.until(Outcome::Delete, |face| face.started.len() == 2);
    }
}

#[test]
fn a_worker_until_its_queues_are_empty_counts_an_empty_one_at_once_when_it_holds_nothing() {
    let queues = ["/q", "/empty"];
    for seed in 0..4 {
        let terms = LaneSettings { until_empty: true, ..terms() };
        let mut face = Face::new(seed, terms, &queues, server(&queues));
        face.proof.leaps = false;
        face.push("/q", "slow");
        face.step_while(|face| face.proof.now() < face.start + 10 * SECOND);
        let start = face.proof.now();
        face.end_one(Outcome::Delete);
        face.until_over();
        let took = face.proof.now() - start;
        assert!(took < SECOND / 4, "seed {seed}: {took:?}, with counts every second before that");
    }
}

#[test]
fn a_queue_that_is_busy_is_not_counted() {
    let mut face = Face::serving(2, LaneSettings { slots: 1, ..terms() });
    face.proof.leaps = false;
    for messages in 1..=30 {
        face.push("/q", "x");
        face.time_to_delete(messages);
        face.step_while(|face| face.proof.now() < face.start + messages as u32 * SECOND);
    }
    let commands = face.lane().metrics().commands;
    assert_eq!(commands, 61, "a pull and a delete for each, and a pull that waits");
}

#[test]
fn a_queue_that_was_deleted_and_made_again_while_its_pull_waits_is_served() {
    for seed in 0..4 {
        let mut face = Face::new(seed, terms(), &["/q", "/other"], server(&["/q", "/other"]));
        face.quiet();
        // More often than pulls may wait: those on a deleted queue are never answered.
        for round in 1..=8 {
            face.remake_queue();
            face.push("/q", "x");
            face.push("/q", "y");
            face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 2 * round);
        }
    }
}

#[test]
fn messages_returned_during_a_pull_are_found() {
    // The only claim of the smallest limit is held by the pull that waits, which a returned message does not wake.
    for (seed, limit) in (0..12).zip([None, Some(1), Some(10)].into_iter().cycle()) {
        let limit = limit.map(JobLimit::new);
        let mut face = Face::serving(seed, LaneSettings { limit: limit.clone(), ..terms() });
        // Another client pulls it first, and returns it when the worker's pull is waiting.
        let pulled = face.pulled_elsewhere("x");
        face.quiet();
        let connection = face.lane().link.epoch;
        put_back_all(&mut face, "/q", pulled, pulled);
        let took = face.time_to_delete(1);
        assert!(took < 15 * SECOND, "seed {seed}: {took:?}, with a count every 10 s");
        assert_eq!(face.started, ["x"]);
        if !limit.is_some_and(|limit| limit.is_reached()) {
            face.quiet();
            assert_eq!(face.lane().link.epoch, connection, "seed {seed}");
        }
    }
}

#[test]
fn returned_messages_are_found_after_a_reconnect() {
    for seed in 0..4 {
        let mut face = Face::serving(seed, terms());
        let pulled = face.pulled_elsewhere("x");
        face.quiet();
        face.proof.faults.broken = 1;
        face.step_while(|face| face.disconnected == 0);
        face.proof.faults.broken = 0;
        face.step_while(|face| face.connected == 1);
        face.quiet();
        put_back_all(&mut face, "/q", pulled, pulled);
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
    }
}

#[test]
fn a_message_whose_connection_is_lost_before_its_handler_takes_it_is_not_run() {
    let mut face = Face::serving(2, LaneSettings { slots: 1, prefetch: 1, ..terms() });
    ["a", "b"].iter().for_each(|body| face.push("/q", body));
    face.step_while(|face| face.running.is_empty() || face.lane().hold.waiting.is_empty());
    face.proof.faults.broken = 1;
    face.step();
    face.end_one(Outcome::Delete);
    face.step();
    assert_eq!(face.started, ["a"]);
}

#[test]
fn a_failed_message_is_retried_during_a_waiting_pull() {
    for seed in 0..8 {
        let limit = (seed > 3).then(|| JobLimit::new(10));
        let mut face = Face::serving(seed, LaneSettings { recheck: NEVER, limit, ..terms() });
        face.push("/q", "x");
        face.until_running();
        // A pull waits for the second slot.
        face.quiet();
        let connection = face.lane().link.epoch;
        face.proof.leaps = false;
        face.end_one(Outcome::Retry);
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
        assert_eq!(face.started, ["x", "x"]);
        assert_eq!(face.lane().link.epoch, connection, "its pulls are good");
    }
}

#[test]
fn a_queue_with_a_waiting_pull_is_counted_periodically() {
    for seed in 0..4 {
        let mut face = Face::serving(seed, LaneSettings { slots: 1, ..terms() });
        face.quiet();
        let (start, before) = (face.proof.now(), face.lane().metrics().commands);
        face.step_while(|face| face.proof.now() < start + 100 * SECOND);
        let counts = face.lane().metrics().commands - before;
        assert!((5..=11).contains(&counts), "seed {seed}: {counts} in 100 s, every 10 s");
    }
}

/// With a pull more than needed, it would have to wait for the next periodic count.
#[test]
fn a_worker_until_its_queues_are_empty_pulls_no_more_than_it_found() {
    for seed in 0..8 {
        let slots = if seed < 4 { 1 } else { 2 };
        let terms = LaneSettings { slots, until_empty: true, recheck: NEVER, ..terms() };
        let mut face = Face::serving(seed, terms);
        face.push("/q", "x");
        for times in 1..=5 {
            face.until_running();
            face.quiet();
            assert_eq!(face.lane().pulls(), 0, "seed {seed}, {times}");
            face.end_one(if times == 5 { Outcome::Delete } else { Outcome::Retry });
        }
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
        assert_eq!(face.started, ["x"; 5]);
    }
}

#[test]
fn a_queue_that_shares_a_limit_is_polled_every_second() {
    for seed in 0..4 {
        let limit = Some(JobLimit::new(10));
        let queues = ["/q", "/other"];
        let mut face = Face::new(seed, LaneSettings { limit, ..terms() }, &queues, server(&queues));
        face.step_while(|face| face.proof.now() < face.start + 100 * SECOND);
        assert_eq!(face.lane().pulls(), 0);
        let counts = face.lane().metrics().commands;
        assert!(counts < 300, "seed {seed}: {counts} counts of two queues in 100 s");
        face.push("/q", "x");
        let took = face.time_to_delete(1);
        assert!(took < 3 * SECOND, "seed {seed}: {took:?}");
    }
}

/// A count of nothing while it is held is no reason to run it again at once.
#[test]
fn until_empty_backs_off_from_redelivered_messages() {
    for seed in 0..4 {
        let terms = LaneSettings { max_duplications: 0, until_empty: true, ..terms() };
        let mut face = Face::serving(seed, terms);
        face.proof.leaps = false;
        face.push("/q", "x");
        face.step_while(|face| face.proof.now() < face.start + 20 * SECOND);
        assert!((5..40).contains(&face.poisoned), "seed {seed}: {} times in 20 s", face.poisoned);
    }
}

#[test]
fn redelivered_messages_are_returned_unrun_with_a_backoff() {
    for seed in 0..2 {
        let mut face = Face::serving(seed, LaneSettings { max_duplications: 1, ..terms() });
        face.push("/q", "poison");
        face.until(Outcome::Retry, |face| face.poisoned > 0);
        let start = face.proof.now();
        face.until(Outcome::Retry, |face| face.poisoned > 40);
        assert!(face.proof.now() - start > 5 * SECOND, "it is asked for without pause");
        assert_eq!(face.started, ["poison"]);
        // The valid messages among them are run.
        face.push("/q", "good");
        face.until(Outcome::Delete, |face| face.started.len() == 2);
    }
}

#[test]
fn a_deferral_is_not_an_attempt_and_dead_letters_carry_the_reason() {
    let terms = dead_lettering(2);
    let mut face = Face::new(0, terms, &["/q"], server(&["/q", "/dead"]));
    face.push("/q", "x");
    face.until(Outcome::Defer, |face| face.settled_as(JobFate::ReturnedRight) == 5);
    while face.settled_as(JobFate::DeadLettered) == 0 {
        face.step();
        let keys: Vec<HeldKey> = face.running.iter().map(|job| job.key).collect();
        keys.into_iter().for_each(|key| face.lane().note_reason(key, "no such picture".into()));
        face.end_one(Outcome::Retry);
    }
    assert_eq!((face.started.len(), face.settled.len()), (7, 7), "it had two attempts");
    assert_eq!(face.dead, [("no such picture".to_owned(), 2)]);
}

#[test]
fn a_queue_with_its_own_slots_leaves_the_others_free() {
    for seed in 0..30 {
        let slots_for = BTreeMap::from([(name("/slow"), 1 + (seed % 2) as usize)]);
        let most = slots_for[&name("/slow")];
        let terms = LaneSettings { prefetch: (seed % 3) as usize, slots_for, ..terms() };
        let queues = ["/slow", "/q"];
        let mut face = Face::new(seed, terms, &queues, server(&queues));
        let is_slow = |job: &HandlerMessage| job.delivery.queue().as_str() == "/slow";
        let slow = |face: &Face| face.running.iter().filter(|job| is_slow(job)).count();
        for number in 0..12 {
            face.push(queues[number % 2], &number.to_string());
        }
        // Its handlers take their time; the others go on.
        let mut steps = 0;
        while face.settled_as(JobFate::Deleted) < 6 || slow(&face) < most {
            face.step();
            assert!(slow(&face) <= most, "seed {seed}");
            if let Some(place) = face.running.iter().position(|job| !is_slow(job)) {
                let job = face.running.swap_remove(place);
                let now = face.proof.now();
                face.lane().finish(job.key, Outcome::Delete, now);
            }
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: {:?}", face.lane());
        }
        // On a bad network, too, and when messages are returned.
        face.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 300 };
        let mut returned = 0;
        for _ in 0..600 {
            face.step();
            assert!(slow(&face) <= most, "seed {seed}");
            if face.random.one_in(4) && returned < 20 {
                returned += 1;
                face.end_one(Outcome::ReturnRight);
            }
        }
        face.proof.faults = Faults::default();
        face.until(Outcome::Delete, |face| {
            assert!(slow(face) <= most, "seed {seed}");
            queues.iter().map(|queue| face.count(queue)).sum::<usize>() + face.lane().held() == 0
        });
    }
}

#[test]
fn a_message_that_the_dead_letter_queue_does_not_take_stays() {
    for seed in 0..2 {
        let terms = dead_lettering(1);
        let mut face = Face::serving(seed, terms);
        face.push("/q", "x");
        face.until(Outcome::Retry, |face| face.refused > 2);
        assert_eq!(face.settled_as(JobFate::DeadLettered), 0);
        assert!(face.ask("createqueue", "/dead", "").contains("ok"));
        face.until(Outcome::Retry, |face| face.settled_as(JobFate::DeadLettered) == 1);
        assert_eq!((face.ready("/dead"), face.count("/q")), (vec!["x".to_owned()], 0));
    }
}

#[test]
fn a_limit_is_kept_and_none_is_pulled_beyond_it() {
    for seed in 0..40 {
        let limit = JobLimit::new(7);
        let terms = LaneSettings { limit: Some(limit.clone()), ..terms() };
        let mut face = Face::new(seed, terms, &["/q", "/other"], server(&["/q", "/other"]));
        face.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 0 };
        for number in 0..20 {
            face.push(if number % 2 == 0 { "/other" } else { "/q" }, &number.to_string());
        }
        let mut steps = 0;
        while face.step() != Pulse::Over {
            let pulls: usize = face.lane().pulls();
            let waiting = face.lane().hold.waiting.len();
            assert!((pulls + waiting) as u64 <= limit.left(), "seed {seed}: too many pulls");
            face.end_one(Outcome::Delete);
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: it does not end: {:?}", face.lane());
        }
        assert_eq!((face.started.len(), limit.left()), (7, 0), "seed {seed}");
    }
}

#[test]
fn as_many_pulls_wait_as_there_is_room_for_and_one_for_each_queue() {
    let cases: [(usize, usize, &[&str], [usize; 2]); 5] = [
        (1, 0, &["/q"], [1, 0]),
        (3, 2, &["/q"], [5, 4]),
        (2, 3, &["/q", "/other"], [5, 4]),
        (1, 0, &["/q", "/other"], [2, 1]),
        (1, usize::MAX, &["/q"], [256, 256]),
    ];
    for (slots, prefetch, queues, [at_first, with_one]) in cases {
        for seed in 0..2 {
            let terms = LaneSettings { slots, prefetch, ..terms() };
            let mut face = Face::new(seed, terms, queues, server(queues));
            face.quiet();
            let case = format!("{slots} slots, prefetch {prefetch}, {queues:?}");
            assert_eq!(face.lane().pulls(), at_first, "{case}");
            face.push("/q", "x");
            face.until_running();
            face.quiet();
            assert_eq!(face.lane().pulls(), with_one, "{case}, one of them taken");
        }
    }
}

#[test]
fn a_departing_lane_returns_its_share_of_the_limit() {
    let limit = JobLimit::new(1);
    let terms = LaneSettings { limit: Some(limit.clone()), ..terms() };
    let mut first = Face::serving(2, terms.clone());
    first.quiet();
    assert_eq!(first.lane().pulls(), 1);
    drop(first);
    let mut second = Face::serving(2, terms);
    second.proof.leaps = false;
    second.push("/q", "x");
    second.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
    second.until_over();
}

/// It ends, but not before every message was settled, including one that was put back, and one of another queue.
#[test]
fn a_worker_until_its_queues_are_empty_ends_on_any_network_when_they_are() {
    let mut seen = 0;
    for seed in seeds(24) {
        let prefetch = (seed % 3) as usize;
        let terms = LaneSettings { until_empty: true, prefetch, ..terms() };
        let mut face = Face::new(seed, terms, &["/q", "/other"], server(&["/q", "/other"]));
        face.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 300 };
        for number in 0..20 {
            face.push(if number % 3 == 0 { "/other" } else { "/q" }, &number.to_string());
        }
        let (mut steps, mut puts_back) = (0, 10);
        while face.step() != Pulse::Over {
            if face.random.one_in(3) {
                let outcome = match face.random.below(4) {
                    0 if puts_back > 0 => Outcome::ReturnLeft,
                    1 if puts_back > 0 => Outcome::ReturnRight,
                    _ => Outcome::Delete,
                };
                puts_back -= i32::from(outcome != Outcome::Delete && !face.running.is_empty());
                face.end_one(outcome);
            }
            steps += 1;
            assert!(steps < 40_000, "seed {seed}: it does not end: {:?}", face.lane());
        }
        face.hang_up();
        let left = face.count("/q") + face.count("/other");
        assert_eq!((left, face.running.len()), (0, 0), "seed {seed}: it ended too early");
        seen += face.settled_as(JobFate::ReturnedRight) + face.settled_as(JobFate::ReturnedLeft);
    }
    assert!(seen > 40, "{seen}");
}

/// Without that it never ended.
#[test]
fn a_worker_until_its_queues_are_empty_gives_up_a_server_that_cannot_be_reached() {
    for seed in 0..20 {
        let retry = RetryPolicy::new(2).backoff(SECOND, SECOND);
        let terms = LaneSettings { until_empty: seed % 4 > 0, ..terms() };
        let mut face = Face::with(retry, seed, terms, &["/q"], server(&["/q"]));
        face.push("/q", "x");
        let is_lost_later = seed % 2 > 0;
        if is_lost_later {
            face.until_running();
        }
        face.proof.faults = Faults { broken: 1, refused: 1, ..Faults::default() };
        let mut steps = 0;
        while steps < 1_000 && face.step() != Pulse::Over {
            steps += 1;
            if is_lost_later && steps == 500 {
                assert_eq!((face.running.len(), face.given_up), (1, 0), "its handler runs");
                face.end_one(Outcome::Delete);
            }
        }
        let gives_up = seed % 4 > 0;
        assert_eq!((steps < 1_000, face.given_up == 1), (gives_up, gives_up), "seed {seed}");
    }
}

#[test]
fn until_empty_is_not_delayed_by_messages_pulled_elsewhere() {
    for seed in 0..4 {
        let mut face =
            Face::serving(seed, LaneSettings { until_empty: true, recheck: NEVER, ..terms() });
        face.push("/q", "x");
        // It has seen the message, and another client has it when the pull arrives.
        face.until(Outcome::Retry, |face| face.lane().pulls() > 0 || face.lane().held() > 0);
        let is_taken = face.count("/q") == 1;
        if is_taken {
            face.pull_elsewhere("x");
        }
        for _ in 0..2_000 {
            face.end_one(Outcome::Delete);
            if face.step() == Pulse::Over {
                break;
            }
        }
        assert_eq!(face.step(), Pulse::Over, "seed {seed}");
        assert_eq!(face.started.len(), usize::from(!is_taken), "seed {seed}");
    }
}

#[test]
fn until_empty_skips_missing_queues() {
    for seed in 0..2 {
        let terms = LaneSettings { until_empty: true, ..terms() };
        let mut face = Face::new(seed, terms, &["/q", "/none"], server(&["/q"]));
        face.push("/q", "x");
        face.until_over_ending(Outcome::Delete, 20_000, seed);
        assert_eq!((face.settled_as(JobFate::Deleted), face.refused > 0), (1, true));
    }
}

/// Its consequence with the default interval.
fn waits(is_late: bool) -> Vec<(u64, usize, f64)> {
    let mut waits = Vec::new();
    for seed in seeds(12) {
        let terms = LaneSettings { slots: 1, until_empty: true, ..terms() };
        let quirks = Quirks { delivers_late: is_late, ..Quirks::default() };
        let server = Server::builder().queue("/q").quirks(quirks).offline();
        let mut face = Face::new(seed, terms, &["/q"], server);
        face.proof.leaps = false;
        face.push("/q", "x");
        for times in 1..=30 {
            let from = face.proof.now();
            face.until_running();
            waits.push((seed, times, (face.proof.now() - from).as_secs_f64()));
            for _ in 0..40 {
                face.step();
            }
            face.end_one(if times == 30 { Outcome::Delete } else { Outcome::Retry });
        }
    }
    waits.retain(|(_, _, s)| *s > 2.0);
    waits
}

#[test]
fn a_failed_message_does_not_wait_for_periodic_counts() {
    assert!(waits(false).is_empty(), "control");
    let waits = waits(true);
    assert!(waits.is_empty(), "seed, run, seconds: {waits:?}");
}

fn put_back_all(face: &mut Face, queue: &str, first: u64, last: u64) {
    for n in first..=last {
        face.requests = n - 1;
        assert!(face.ask("rcancel", queue, "").contains("\"result\":\"ok\""));
    }
    face.requests = last + 100;
}

#[test]
fn many_messages_that_wake_no_pull_do_not_wait_for_a_count_each() {
    let mut slow = Vec::new();
    for (seed, is_put_back) in (0..4).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut face = Face::serving(seed, terms());
        let push = |face: &mut Face| (0..20).for_each(|n| face.push("/q", &n.to_string()));
        if is_put_back {
            push(&mut face);
            let first = face.requests + 1;
            for _ in 0..20 {
                face.ask("pull", "/q", "");
            }
            let last = face.requests;
            face.quiet();
            assert_eq!(face.lane().pulls(), 3);
            put_back_all(&mut face, "/q", first, last);
        } else {
            face.quiet();
            face.remake_queue();
            push(&mut face);
        }
        slow.push(face.time_to_delete(20).as_secs());
    }
    assert!(slow.iter().all(|s| *s < 15), "seconds for 20 messages, recheck 10 s: {slow:?}");
}

#[test]
fn a_lane_that_has_ended_keeps_no_share_of_a_limit() {
    let mut kept = 0;
    for seed in 0..40 {
        let terms = LaneSettings {
            until_empty: true,
            limit: Some(JobLimit::new(1)),
            is_one_of_many: true,
            slots: 1,
            ..terms()
        };
        let mut first = Face::serving(seed, terms.clone());
        first.push("/q", "x");
        first.until(Outcome::Retry, |face| face.lane().pulls() > 0 || face.lane().held() > 0);
        if first.count("/q") == 0 {
            continue;
        }
        // Another client is faster.
        first.pull_elsewhere("x");
        first.until_over();
        assert!(first.started.is_empty());
        kept += 1;
        // The other lane of the same worker: `Running` keeps the first one until both have ended.
        let mut second = Face::serving(seed, terms);
        second.proof.leaps = false;
        second.push("/q", "y");
        second.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 1);
        drop(first);
    }
    assert!(kept > 0);
}

#[test]
fn no_message_is_held_behind_a_running_handler_without_prefetch() {
    let mut held = Vec::new();
    for seed in 0..8 {
        let mut face = Face::serving(seed, LaneSettings { slots: 1, prefetch: 0, ..terms() });
        for n in 0..5 {
            face.push("/q", &n.to_string());
        }
        for _ in 0..3 {
            face.until_running();
            face.quiet();
            held.push((seed, face.lane().hold.taken(&BTreeMap::new())));
            face.end_one(Outcome::Retry);
        }
    }
    assert!(held.iter().all(|(_, n)| *n <= 1), "seed, held with one slot: {held:?}");
}

#[test]
fn one_missing_queue_is_one_refusal_however_many_pulls_were_sent() {
    for seed in 0..2 {
        let terms = LaneSettings { slots: 8, ..terms() };
        let mut face = Face::new(seed, terms, &["/q"], server(&[]));
        let mut times = Vec::new();
        let mut seen = 0;
        while face.refused < 40 {
            face.step();
            if face.refused > seen {
                times.push((face.refused - seen, face.proof.now()));
                seen = face.refused;
            }
        }
        let start = times[0].1;
        let times: Vec<_> = times.iter().map(|(n, at)| (*n, (*at - start).as_millis())).collect();
        assert!(times[0].0 == 1, "refusals told, at ms: {times:?}");
    }
}

#[test]
fn a_queue_that_is_made_soon_is_served_soon_however_many_slots_there_are() {
    let mean = |slots: usize| {
        let mut sum = 0.0;
        for seed in 0..40 {
            let mut face = Face::new(seed, LaneSettings { slots, ..terms() }, &["/q"], server(&[]));
            face.proof.leaps = false;
            face.step_while(|face| face.refused < slots);
            assert!(face.ask("createqueue", "/q", "").contains("ok"));
            face.push("/q", "x");
            sum += face.time_to_delete(1).as_secs_f64();
        }
        sum / 40.0
    };
    let (one, eight) = (mean(1), mean(8));
    assert!(
        eight < 2.0 * one,
        "mean seconds until it is served: {one:.3} with 1 slot, {eight:.3} with 8"
    );
}

#[test]
fn a_count_that_is_refused_is_not_repeated_without_a_pause() {
    let terms = LaneSettings { slots: 1, until_empty: true, ..terms() };
    let mut face = (0..)
        .step_by(2)
        .find_map(|seed| {
            let mut face = Face::serving(seed, terms.clone());
            face.proof.leaps = false;
            face.push("/q", "x");
            face.step_while(|face| face.lane().pulls() == 0);
            // Another client is faster.
            face.ask("pull", "/q", "").contains("\"body\":\"x\"").then_some(face)
        })
        .unwrap();
    face.proof.peer.refuses_counts = true;
    let start = face.proof.now();
    while face.proof.now() < start + 8 * SECOND {
        if face.step() == Pulse::Over {
            break;
        }
    }
    let (counts, s) = (face.proof.peer.counts, (face.proof.now() - start).as_secs_f64());
    assert!(counts < 20, "{counts} counts in {s} s of steps of 2.5 ms");
}

#[test]
fn a_worker_that_stops_at_once_leaves_its_handlers_no_grace() {
    for is_stopping in [false, true] {
        let mut face = Face::serving(2, terms());
        face.push("/q", "slow");
        face.until_running();
        if is_stopping {
            face.stop();
        }
        let now = face.proof.now();
        face.lane().stop_now(now);
        face.until_over();
        assert!(face.proof.now() < now + 5 * SECOND);
        assert_eq!(face.settled_as(JobFate::Lost(LostReason::Stopped)), 1);
    }
}

#[test]
fn a_lane_wakes_its_face_when_another_one_starts_the_last_job() {
    let (limit, task) = (JobLimit::new(1), Arc::new(Idle));
    let terms = LaneSettings { limit: Some(limit), ..terms() };
    let mut lane = Lane::new(options(2), terms, [name("/q")]);
    lane.wake_when_enough(&Waker::from(task.clone()));
    assert_eq!(Arc::strong_count(&task), 2, "its waker is kept");
}

#[test]
fn a_message_arriving_during_a_stop_is_returned() {
    for seed in 0..2 {
        let mut face = Face::serving(seed, terms());
        face.push("/q", "slow");
        face.until_running();
        face.quiet();
        face.proof.leaps = false;
        face.stop();
        face.push("/q", "late");
        face.quiet();
        assert_eq!(face.count("/q"), 0, "a pull that waited has it");
        face.end_one(Outcome::Delete);
        face.until_over();
        assert_eq!(face.settled, [("/q".to_owned(), 1, JobFate::Deleted)]);
        face.hang_up();
        assert_eq!(face.ready("/q"), ["late"]);
    }
}

/// A lane whose handler has a message of a server that falls silent then.
fn held_from_a_silent_server(terms: LaneSettings) -> (ByHand<Lane>, HeldKey) {
    let mut server = server(&["/q", "/dead"]);
    let other = server.connect();
    server.send(other, b"POST /queue/rpush.json?queue=/q&requestid=1 HTTP/1.1\r\nContent-Type: application/octet-stream\r\nContent-Length: 1\r\n\r\nx");
    let options = options(2).reply_timeout(100 * SECOND);
    let mut hand = ByHand::new(Lane::new(options, terms, [name("/q")]));
    hand.turn();
    hand.opens();
    let connection = server.connect();
    loop {
        hand.turn();
        server.send(connection, &hand.takes_all());
        hand.comes(&server.receive(connection).bytes);
        let jobs = hand.role.0.take().map_or(Vec::new(), |(jobs, _)| jobs);
        if let [job] = &jobs[..] {
            return (hand, job.key);
        }
    }
}

/// A stop waited for the reply timeout.
#[test]
fn a_settlement_without_an_answer_ends_a_second_after_the_grace() {
    let copies = LaneSettings { dead_letter: Some(name("/dead")), ..terms() };
    let cases = [
        (LaneSettings { grace: 5 * SECOND, ..terms() }, Outcome::Delete, JobFate::Unknown),
        // The message itself goes back with the connection.
        (copies, Outcome::DeadLetter, JobFate::Lost(LostReason::Stopped)),
    ];
    for ((terms, outcome, expected), at_once) in
        cases.into_iter().flat_map(|case| [(case.clone(), false), (case, true)])
    {
        let grace = if at_once { Duration::ZERO } else { terms.grace };
        let (mut hand, key) = held_from_a_silent_server(terms);
        let start = hand.now;
        hand.role.0.finish(key, outcome, start);
        match at_once {
            true => hand.role.0.stop_now(start),
            false => hand.role.0.stop(start),
        }
        let mut reported = Vec::new();
        loop {
            let pulse = hand.turn();
            hand.takes_all();
            for news in hand.role.0.take().map_or(Vec::new(), |(_, news)| news) {
                if let LaneEvent::Tell(WorkerEventKind::Settled { fate, .. }) = news {
                    reported.push((fate, hand.now - start));
                }
            }
            match pulse {
                Pulse::Over => break,
                Pulse::Look => hand.looked(),
                pulse => hand.now = pulse.until().unwrap_or(hand.now).max(hand.now),
            }
        }
        assert_eq!(reported, [(expected, grace + SECOND)], "{outcome:?}, at once: {at_once}");
        assert!(hand.now - start <= grace + 2 * SECOND, "{:?}", hand.now - start);
    }
}

#[test]
fn a_message_that_comes_with_the_end_of_its_connection_is_not_held() {
    let (limit, mut server) = (JobLimit::new(1), server(&["/q"]));
    let terms = LaneSettings { limit: Some(limit.clone()), is_one_of_many: true, ..terms() };
    let mut hand = ByHand::new(Lane::new(options(2), terms, [name("/q")]));
    let other = server.connect();
    server.send(other, b"POST /queue/rpush.json?queue=/q&requestid=1 HTTP/1.1\r\nContent-Type: application/octet-stream\r\nContent-Length: 1\r\n\r\nx");
    hand.turn();
    hand.opens();
    let connection = server.connect();
    while hand.role.0.pulls() == 0 {
        hand.turn();
        server.send(connection, &hand.takes_all());
        hand.comes(&server.receive(connection).bytes);
    }
    hand.role.0.take();
    hand.loses(std::io::ErrorKind::ConnectionReset);
    hand.turn();
    let (jobs, news) = hand.role.0.take().unwrap();
    assert!(jobs.is_empty());
    let is_loss =
        |one: &LaneEvent| matches!(one, LaneEvent::Tell(WorkerEventKind::Disconnected(_)));
    assert!(news.len() == 1 && news.iter().all(is_loss), "{news:?}");
    assert_eq!(Claimed::new(Some(limit)).ask(), Claim::Granted, "another lane may have its share");
}

#[test]
fn a_lost_connection_is_reported_unless_stopping() {
    for stops in [false, true] {
        let mut face = Face::serving(2, terms());
        face.push("/q", "x");
        face.until_running();
        if stops {
            face.stop();
        }
        face.lose();
        let reported = usize::from(!stops);
        let errors: u64 = face.lane().metrics().errors.iter().map(|(_, times)| times).sum();
        assert_eq!((face.connected, face.disconnected, errors), (1, reported, reported as u64));
    }
}

/// A pull on a deleted queue is never answered, even if the queue is made again.
#[test]
fn pulls_that_are_dead_are_sent_again_at_the_first_find_over_the_same_connection() {
    for (seed, slots) in [(0, 1), (1, 1), (2, 3), (3, 3)] {
        let mut face = Face::serving(seed, LaneSettings { slots, ..terms() });
        face.proof.leaps = false;
        face.quiet();
        let connection = face.lane().link.epoch;
        face.remake_queue();
        for round in 1..=4 {
            face.push("/q", "x");
            let is_late = face.time_to_delete(round) > SECOND;
            assert_eq!(is_late, round == 1, "seed {seed}, message {round}");
            face.quiet();
            assert_eq!(face.lane().link.epoch, connection, "seed {seed}, message {round}");
        }
    }
}

/// Its connection cannot be replaced, because it is never idle.
#[test]
fn a_busy_worker_serves_a_queue_made_again_over_the_same_connection() {
    for seed in 0..2 {
        let (terms, queues) = (LaneSettings { slots: 2, ..terms() }, ["/q", "/busy"]);
        let mut face = Face::new(seed, terms, &queues, server(&queues));
        face.proof.leaps = false;
        face.quiet();
        face.remake_queue();
        let (connection, start) = (face.lane().link.epoch, face.proof.now());
        let (mut steps_alone, mut served) = (0, 0);
        while served < 4 {
            served += face.settled.drain(..).filter(|(queue, ..)| queue == "/q").count();
            assert!(face.proof.now() < start + 15 * SECOND, "seed {seed}: it is not served");
            for queue in queues {
                if face.count(queue) == 0 {
                    face.push(queue, "x");
                }
            }
            face.step();
            steps_alone = if face.running.len() == 1 { steps_alone + 1 } else { 0 };
            if face.running.len() == 2 || steps_alone > 100 {
                face.end_one(Outcome::Delete);
            }
        }
        assert_eq!(face.lane().link.epoch, connection, "seed {seed}");
    }
}

#[test]
fn a_queue_deleted_during_a_pull_is_reported_at_the_next_count() {
    for seed in 0..4 {
        let mut face = Face::serving(seed, terms());
        face.proof.leaps = false;
        face.quiet();
        let start = face.proof.now();
        assert!(face.ask("deletequeue", "/q", "").contains("ok"));
        face.until(Outcome::Delete, |face| face.refused > 0);
        let took = face.proof.now() - start;
        assert!(took < 15 * SECOND, "seed {seed}: {took:?}");
    }
}

#[test]
fn a_worker_that_only_waits_for_a_missing_queue_does_not_read() {
    let mut face = Face::new(2, terms(), &["/q"], server(&[]));
    face.until(Outcome::Delete, |face| face.refused > 3);
    let rests = (0..100).filter(|_| matches!(face.step(), Pulse::Rest(Some(_)))).count();
    assert!(rests > 0);
}

#[test]
fn under_a_limit_one_pull_waits_where_no_other_queue_or_lane_may_need_it() {
    let cases: [(bool, &[&str], usize); 3] =
        [(false, &["/q"], 1), (true, &["/q"], 0), (false, &["/q", "/other"], 0)];
    for (is_one_of_many, queues, expected) in cases {
        for seed in 0..2 {
            let limit = Some(JobLimit::new(10));
            let terms = LaneSettings { limit, is_one_of_many, ..terms() };
            let mut face = Face::new(seed, terms, queues, server(queues));
            face.quiet();
            assert_eq!(face.lane().pulls(), expected, "{queues:?}, of many: {is_one_of_many}");
        }
    }
}

#[test]
fn until_empty_pulls_all_counted_messages_at_once() {
    for seed in 0..2 {
        for slots in [1, 3] {
            let terms = LaneSettings { until_empty: true, slots, recheck: NEVER, ..terms() };
            let mut face = Face::serving(seed, terms);
            (0..5).for_each(|n: u8| face.push("/q", &n.to_string()));
            face.step_while(|face| face.lane().pulls() == 0);
            assert_eq!(face.lane().pulls(), slots);
            while face.started.len() < 5 {
                face.end_one(Outcome::Delete);
                face.step();
            }
            face.quiet();
            // Five pulls and four deletes; a count before all of them, and one or two behind a pull; in JSON also one
            // before each pull.
            let commands = face.lane().metrics().commands;
            assert!(slots > 1 || commands <= 16 + 5 * seed, "seed {seed}: {commands}");
            loop {
                assert_eq!(face.lane().pulls(), 0, "there is no sixth");
                face.end_one(Outcome::Delete);
                if face.step() == Pulse::Over {
                    break;
                }
            }
        }
    }
}

#[test]
fn returned_messages_are_found_before_the_worker_ends() {
    let mut found = 0;
    for seed in 0..16 {
        let terms = LaneSettings { until_empty: true, recheck: NEVER, ..terms() };
        let queues = ["/q", "/other"];
        let mut face = Face::new(seed, terms, &queues, server(&queues));
        face.push("/other", "keeps it");
        face.push("/q", "x");
        face.step_while(|face| face.lane().pulls() == 0);
        // Another client is faster, if this queue is the first one that is pulled from.
        if face.count("/q") == 0 {
            continue;
        }
        let pulled = face.pull_elsewhere("x");
        face.until_running();
        face.quiet();
        if face.lane().pulls() == 0 {
            continue;
        }
        put_back_all(&mut face, "/q", pulled, pulled);
        face.proof.leaps = false;
        face.until(Outcome::Delete, |face| face.settled_as(JobFate::Deleted) == 2);
        found += 1;
    }
    assert!(found > 0);
}

#[test]
fn the_connection_is_checked_after_64_handlers_that_end_at_once() {
    let mut face = Face::serving(2, LaneSettings { slots: 1, prefetch: 99, ..terms() });
    (0..100).for_each(|n: u8| face.push("/q", &n.to_string()));
    face.step_while(|face| face.lane().held() < 100);
    face.step();
    let mut ended = 0;
    while let Some(job) = face.running.pop() {
        let now = face.proof.now();
        face.lane().finish(job.key, Outcome::Delete, now);
        let taken = face.lane().take();
        face.running.extend(taken.into_iter().flat_map(|(jobs, _)| jobs));
        ended += 1;
    }
    assert_eq!(ended, 65, "the one that ran, and 64");
}

#[test]
fn the_last_failure_moves_the_message_before_another_delivery() {
    for seed in 0..2 {
        let mut face = Face::dead_lettering(seed, 2);
        face.push("/q", "x");
        face.until(Outcome::Retry, |face| face.settled_as(JobFate::DeadLettered) == 1);
        assert_eq!((face.started.len(), face.poisoned), (2, 0), "seed {seed}");
    }
}

#[test]
fn a_copy_that_is_lost_with_its_connection_was_not_refused() {
    let mut lost = 0;
    for seed in 0..16 {
        let mut face = Face::dead_lettering(seed, 1);
        face.push("/q", "x");
        face.until_running();
        face.end_one(Outcome::Retry);
        face.step_while(|face| face.count("/dead") == 0);
        face.proof.faults.broken = 1;
        face.step_while(|face| face.settled.is_empty());
        lost += face.settled_as(JobFate::Lost(LostReason::ConnectionLost));
        assert_eq!(face.refused, 0, "seed {seed}");
    }
    assert!(lost > 0);
}

#[test]
fn abandoned_messages_without_a_handler_are_reported() {
    for stops in [true, false] {
        let mut face = Face::serving(2, LaneSettings { slots: 1, prefetch: 2, ..terms() });
        ["a", "b", "c"].iter().for_each(|body| face.push("/q", body));
        face.step_while(|face| face.running.is_empty() || face.lane().hold.waiting.len() < 2);
        if stops {
            face.stop();
            face.end_one(Outcome::Delete);
            face.until_over();
            assert_eq!(face.settled_as(JobFate::Abandoned), 2);
        } else {
            face.lose();
            assert_eq!(face.settled_as(JobFate::Lost(LostReason::ConnectionLost)), 3);
        }
    }
}

#[test]
fn a_message_whose_queue_was_deleted_is_lost() {
    for seed in 0..2 {
        let mut face = Face::serving(seed, terms());
        face.push("/q", "x");
        face.until_running();
        assert!(face.ask("deletequeue", "/q", "").contains("ok"));
        face.end_one(Outcome::Delete);
        face.until(Outcome::Delete, |face| !face.settled.is_empty());
        assert_eq!(face.settled_as(JobFate::Lost(LostReason::QueueDeleted)), 1);
    }
}

#[test]
fn one_message_that_came_too_often_between_good_ones_costs_no_pause() {
    let retry = RetryPolicy::new(u32::MAX).backoff(20 * SECOND, 20 * SECOND);
    let dead_letter = Some(name("/dead"));
    let terms = LaneSettings { slots: 1, max_duplications: 1, dead_letter, ..terms() };
    let mut face = Face::with(retry, 2, terms, &["/q"], server(&["/q", "/dead"]));
    face.proof.leaps = false;
    face.push("/q", "good");
    let start = face.proof.now();
    for round in 1..=3 {
        face.until_running();
        // Its only slot is taken, so no pull waits.
        let pulled = face.pulled_elsewhere("poison");
        put_back_all(&mut face, "/q", pulled, pulled);
        face.push("/q", "good");
        face.end_one(Outcome::Delete);
        face.until_running();
        assert_eq!((face.poisoned, face.started.len()), (round, round + 1));
    }
    assert!(face.proof.now() < start + 10 * SECOND, "{:?}", face.proof.now() - start);
}

#[test]
fn count_results_end_with_the_connection() {
    for seed in 0..2 {
        let mut face = Face::serving(seed, LaneSettings { until_empty: true, slots: 1, ..terms() });
        (0..5).for_each(|n: u8| face.push("/q", &n.to_string()));
        face.until_running();
        face.quiet();
        face.hang_up();
        assert_eq!(face.ready("/q").len(), 5, "somebody else has them");
        face.lose();
        face.end_one(Outcome::Delete);
        while face.step() != Pulse::Over {
            assert_eq!(face.lane().pulls(), 0, "seed {seed}");
        }
    }
}
