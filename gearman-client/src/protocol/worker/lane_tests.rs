//! The worker role over any schedule and any network, against the in-memory server.
#![cfg(any(feature = "tokio", feature = "blocking"))]

use std::{collections::HashSet, time::Duration};

use fixtures::{
    gearmand::{Server, broker::ConnectionId},
    offline::Offline,
};
use queue_core::{
    Pulse, Random, RetryPolicy,
    proof::{Faults, Peer, Proof},
};

use super::{
    Assignment, End, Grab, Settled, WorkerSession,
    lane::{Lane, News, Terms},
};
use crate::{Error, FunctionName, protocol::client::route::no_server};

const JOBS: usize = 30;
const PLACES: usize = 3;

struct Gearmand {
    server: Offline,
    client: ConnectionId,
    worker: Option<ConnectionId>,
}

impl Gearmand {
    fn new() -> Self {
        let mut server = Server::builder().log_capacity(0).offline();
        let client = server.connect();
        Gearmand { server, client, worker: None }
    }

    fn submit(&mut self) {
        self.server.send(self.client, b"\0REQ\0\0\0\x12\0\0\0\x04f\0\0w");
        assert!(self.server.receive(self.client).bytes.starts_with(b"\0RES\0\0\0\x08"));
    }

    /// The function, with the number of its jobs and of its running jobs.
    fn status(&mut self) -> String {
        self.server.send(self.client, b"status\n");
        String::from_utf8(self.server.receive(self.client).bytes).unwrap()
    }
}

impl Peer for Gearmand {
    fn connected(&mut self) {
        if let Some(old) = self.worker.replace(self.server.connect()) {
            self.server.hang_up(old);
        }
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        let worker = self.worker.unwrap();
        self.server.send(worker, bytes);
        let received = self.server.receive(worker);
        answer.extend(received.bytes);
        received.end.is_none()
    }
}

/// Runs the handlers of the lane.
struct Face {
    proof: Proof<Lane, Gearmand>,
    random: Random,
    running: Vec<Assignment>,
    /// Number of results sent.
    ended: usize,
    given_up: usize,
    /// Whether handlers end.
    may_end: bool,
}

impl Face {
    fn new(seed: u64, timeout: Duration, with_barrier: bool) -> Self {
        Self::with(seed, timeout, with_barrier, false)
    }

    fn with(seed: u64, timeout: Duration, with_barrier: bool, until_empty: bool) -> Self {
        let retry = RetryPolicy::new(2).seed(seed);
        let terms = Terms {
            retry: retry.backoff(Duration::from_millis(10), Duration::from_secs(1)),
            connect_timeout: Duration::from_secs(5),
            reply_timeout: timeout,
            write_timeout: timeout,
            max_packet_size: 1 << 20,
            with_barrier,
            until_empty,
        };
        let (regrab, now) = (Duration::from_secs(10), queue_core::now());
        let session = WorkerSession::new(Default::default(), PLACES, Grab::All, regrab, now);
        let mut lane = Lane::new(session, &terms);
        lane.session.can_do(&FunctionName::try_from("f").unwrap(), None);
        lane.session.start();
        let proof = Proof::new(lane, Gearmand::new(), no_server as fn() -> Error, seed);
        let random = Random::new(seed);
        Face { proof, random, running: Vec::new(), ended: 0, given_up: 0, may_end: true }
    }

    fn lane(&mut self) -> &mut Lane {
        &mut self.proof.role.0
    }

    fn step(&mut self) -> Pulse {
        let pulse = self.proof.step();
        let (came, news) = self.lane().take();
        self.given_up += news.iter().filter(|news| matches!(news, News::GivenUp)).count();
        for job in came {
            self.lane().session.begin(&job.handle);
            self.running.push(job);
        }
        let names: HashSet<&[u8]> = self.running.iter().map(|job| job.handle.name()).collect();
        assert_eq!(names.len(), self.running.len(), "a job runs twice at once");
        assert!(self.running.len() <= PLACES, "{} jobs run", self.running.len());
        if self.may_end && !self.running.is_empty() && self.random.one_in(3) {
            let job = self.running.swap_remove(self.random.below(self.running.len()));
            let now = self.proof.now();
            let ended = self.lane().session.finish(&job.handle, End::Complete(b"w"), now);
            self.ended += usize::from(ended.is_ok());
        }
        pulse
    }
}

/// Every job is done, none twice at once, and the fate of each result is known.
#[test]
fn any_schedule_and_any_network_does_every_job() {
    for seed in 0..150 {
        let mut face = Face::new(seed, Duration::from_secs(10), seed % 2 == 0);
        face.proof.faults = Faults { broken: 60, refused: 4, dropped: 6, late: 300 };
        for _ in 0..JOBS {
            face.proof.peer.submit();
            for _ in 0..15 {
                assert_ne!(face.step(), Pulse::Over);
            }
        }
        // All faults end, and then everything has to finish.
        face.proof.faults = Faults::default();
        let mut steps = 0;
        while face.proof.peer.status() != "f\t0\t0\t1\n.\n" || !face.running.is_empty() {
            face.step();
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: {}", face.proof.peer.status());
        }
        face.lane().stop();
        while face.step() != Pulse::Over {
            steps += 1;
            assert!(steps < 40_000, "seed {seed}: it does not end");
        }
        assert_eq!(face.step(), Pulse::Over);
        let settled: Vec<Settled> = face.lane().session.settled().collect();
        let of = |what| settled.iter().filter(|settled| **settled == what).count();
        let (completed, unknown) = (of(Settled::Completed), of(Settled::Unknown));
        let results = completed + unknown + of(Settled::Rejected);
        assert_eq!(results, face.ended, "seed {seed}: each result is accounted for");
        assert!(completed + unknown >= JOBS, "seed {seed}: {completed}, {unknown}");
    }
}

/// It ends only once the server has nothing for it, and after its own jobs.
#[test]
fn a_worker_until_there_are_no_jobs_does_all_of_them_and_ends() {
    for seed in 0..50 {
        let mut face = Face::with(seed, Duration::MAX, seed % 2 == 0, true);
        face.proof.faults = Faults { dropped: 4, ..Faults::default() };
        (0..JOBS).for_each(|_| face.proof.peer.submit());
        let mut steps = 0;
        while face.step() != Pulse::Over {
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: it does not end");
        }
        assert_eq!((face.ended, face.given_up, face.running.len()), (JOBS, 0, 0), "seed {seed}");
    }
}

/// Without that it never ended.
#[test]
fn a_worker_until_there_are_no_jobs_gives_up_a_server_that_cannot_be_reached() {
    for seed in 0..20 {
        let until_empty = seed % 4 > 0;
        let mut face = Face::with(seed, Duration::MAX, true, until_empty);
        face.proof.peer.submit();
        face.may_end = false;
        let is_lost_later = seed % 2 > 0;
        if is_lost_later {
            while face.running.is_empty() {
                face.step();
            }
        }
        face.proof.faults = Faults { broken: 1, refused: 1, ..Faults::default() };
        let mut steps = 0;
        while steps < 1_000 && face.step() != Pulse::Over {
            steps += 1;
            if is_lost_later && steps == 500 {
                assert_eq!((face.running.len(), face.given_up), (1, 0), "its handler runs");
                face.may_end = true;
            }
        }
        assert_eq!((steps < 1_000, face.given_up == 1), (until_empty, until_empty), "seed {seed}");
    }
}

/// Nothing is definitely lost on a network that only delays.
#[test]
fn every_result_is_confirmed_before_the_end() {
    for seed in 0..50 {
        let mut face = Face::new(seed, Duration::MAX, true);
        face.proof.faults = Faults { dropped: 4, ..Faults::default() };
        (0..JOBS).for_each(|_| face.proof.peer.submit());
        while face.ended < JOBS {
            face.step();
        }
        face.lane().stop();
        while face.step() != Pulse::Over {}
        let settled: Vec<Settled> = face.lane().session.settled().collect();
        assert_eq!(settled, [Settled::Completed; JOBS], "seed {seed}");
    }
}

/// It may finish what it has begun, although the job is another worker's by then.
#[test]
fn a_stop_waits_for_the_handler_of_a_lost_job() {
    for seed in 0..20 {
        let comes_back = seed % 2 > 0;
        let mut face = Face::new(seed, Duration::MAX, seed % 4 > 1);
        face.proof.peer.submit();
        face.may_end = false;
        while face.running.is_empty() {
            face.step();
        }
        face.proof.faults = Faults { broken: 1, refused: 1, ..Faults::default() };
        while face.lane().is_open() {
            face.step();
        }
        if comes_back {
            face.proof.faults = Faults::default();
            while !face.lane().is_open() {
                face.step();
            }
        }
        face.lane().stop();
        for _ in 0..200 {
            assert_ne!(face.step(), Pulse::Over, "seed {seed}: its handler runs");
        }
        face.may_end = true;
        let mut steps = 0;
        while face.step() != Pulse::Over {
            steps += 1;
            assert!(steps < 1_000, "seed {seed}: it does not end");
        }
    }
}
