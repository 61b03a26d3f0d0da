//! The worker role by hand, and over any schedule and any network against the in-memory server.

use std::{collections::HashSet, io, time::Duration};

use bytes::BytesMut;
use fixtures::{
    gearmand::{Server, broker::ConnectionId},
    offline::Offline,
};
use queue_core::{
    ConnectionState, End as Ended, Haste, JobLimit, Pulse, Random, RetryPolicy,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::{
    Assignment, Grab, JobEnd, Report, Settled, WorkerSession,
    lane::{EchoBarrier, Lane, LaneEvent, LaneSettings},
};
use crate::{
    Deadline, Error, ErrorKind, FunctionName, LostReason,
    protocol::{Magic, Packet, PacketType, client::route::no_server, decoder::tests::requests},
};

const SECOND: Duration = Duration::from_secs(1);
const JOBS: usize = 30;
const PLACES: usize = 3;

fn terms(seed: u64) -> LaneSettings {
    LaneSettings {
        retry: RetryPolicy::new(2).seed(seed).backoff(SECOND / 100, SECOND),
        connect_timeout: 5 * SECOND,
        reply_timeout: 10 * SECOND,
        write_timeout: 5 * SECOND,
        grace: 25 * SECOND,
        max_packet_size: 1 << 20,
        fails_oversized: true,
        with_barrier: true,
        until_empty: false,
    }
}

/// A lane for the function `f`.
fn lane(terms: &LaneSettings) -> Lane {
    let (regrab, now) = (10 * SECOND, queue_core::now());
    let session = WorkerSession::new(Default::default(), PLACES, Grab::All, regrab, now);
    let mut lane = Lane::new(session, terms);
    lane.session.can_do(&FunctionName::try_from("f").unwrap(), None);
    lane.start();
    lane
}

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
    fn new(seed: u64, timeout: Duration, with_barrier: bool, until_empty: bool) -> Self {
        let lane = lane(&LaneSettings {
            reply_timeout: timeout,
            write_timeout: timeout,
            with_barrier,
            until_empty,
            ..terms(seed)
        });
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
        self.given_up += news.iter().filter(|news| matches!(news, LaneEvent::GivenUp)).count();
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
            let ended = self.lane().session.finish(&job.handle, JobEnd::Complete(b"w"), now);
            self.ended += usize::from(ended.is_ok());
        }
        pulse
    }

    fn ends_within(&mut self, steps: usize, seed: u64) {
        let is_over = (0..steps).any(|_| self.step() == Pulse::Over);
        assert!(is_over, "seed {seed}: it does not end");
    }
}

/// Every job is done, none twice at once, and the fate of each result is known.
#[test]
fn every_job_runs_on_any_schedule_and_network() {
    for seed in seeds(50) {
        let mut face = Face::new(seed, Duration::from_secs(10), seed % 2 == 0, false);
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
        face.lane().wind_down();
        face.ends_within(20_000, seed);
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
fn until_empty_runs_all_jobs_and_ends() {
    for seed in seeds(50) {
        let mut face = Face::new(seed, Duration::MAX, seed % 2 == 0, true);
        face.proof.faults = Faults { dropped: 4, ..Faults::default() };
        (0..JOBS).for_each(|_| face.proof.peer.submit());
        face.ends_within(20_000, seed);
        assert_eq!((face.ended, face.given_up, face.running.len()), (JOBS, 0, 0), "seed {seed}");
    }
}

/// Without that it never ended.
#[test]
fn until_empty_gives_up_an_unreachable_server() {
    for seed in seeds(20) {
        let until_empty = seed % 4 > 0;
        let mut face = Face::new(seed, Duration::MAX, true, until_empty);
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
    for seed in seeds(50) {
        let mut face = Face::new(seed, Duration::MAX, true, false);
        face.proof.faults = Faults { dropped: 4, ..Faults::default() };
        (0..JOBS).for_each(|_| face.proof.peer.submit());
        while face.ended < JOBS {
            face.step();
        }
        face.lane().wind_down();
        face.ends_within(20_000, seed);
        let settled: Vec<Settled> = face.lane().session.settled().collect();
        assert_eq!(settled, [Settled::Completed; JOBS], "seed {seed}");
    }
}

/// It may finish what it has begun, although the job is another worker's by then.
#[test]
fn a_stop_waits_for_the_handler_of_a_lost_job() {
    for seed in seeds(20) {
        let comes_back = seed % 2 > 0;
        let mut face = Face::new(seed, Duration::MAX, seed % 4 > 1, false);
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
        face.lane().wind_down();
        for _ in 0..200 {
            assert_ne!(face.step(), Pulse::Over, "seed {seed}: its handler runs");
        }
        face.may_end = true;
        face.ends_within(1_000, seed);
    }
}

/// A lane and its connection, moved by hand.
struct Bench {
    hand: ByHand<Lane>,
}

impl Bench {
    fn new(terms: &LaneSettings) -> Self {
        Bench { hand: ByHand::new(lane(terms)) }
    }

    /// One that is connected, and has asked for a job.
    fn open(terms: &LaneSettings) -> Self {
        let mut bench = Bench::new(terms);
        bench.opens();
        bench
    }

    /// One that is connected, and runs a job.
    fn busy(terms: &LaneSettings) -> (Self, Assignment) {
        let mut bench = Bench::open(terms);
        let job = bench.gets_job("f");
        (bench, job)
    }

    fn opens(&mut self) {
        assert!(matches!(self.turn(), Pulse::Dial { .. }));
        self.hand.opens();
        assert!(matches!(self.turn(), Pulse::Go(Some(_))));
        assert_eq!(self.written(), ["CAN_DO", "GRAB_JOB_ALL"]);
        self.turn();
    }

    fn turn(&mut self) -> Pulse {
        self.hand.turn()
    }

    fn lane(&mut self) -> &mut Lane {
        &mut self.hand.role.0
    }

    /// What is written, as names of packets.
    fn written(&mut self) -> Vec<String> {
        let sent = requests(&self.hand.takes_all());
        sent.iter().map(|packet| packet.packet_type.to_string()).collect()
    }

    fn comes(&mut self, packet_type: PacketType, arguments: &[&str]) {
        let mut wire = BytesMut::new();
        Packet::new(Magic::Response, packet_type, arguments).unwrap().encode(&mut wire);
        self.hand.comes(&wire);
    }

    /// A job comes, and its handler starts.
    fn gets_job(&mut self, function: &str) -> Assignment {
        self.gets("H:x:1", function)
    }

    fn gets(&mut self, handle: &str, function: &str) -> Assignment {
        self.comes(PacketType::JobAssignAll, &[handle, function, "u", "", "w"]);
        self.turn();
        let job = self.lane().take().0.pop().unwrap();
        self.lane().session.begin(&job.handle);
        job
    }

    fn completes(&mut self, job: &Assignment) {
        self.ends(job, JobEnd::Complete(b"r"));
    }

    fn ends(&mut self, job: &Assignment, end: JobEnd<'_>) {
        let now = self.hand.now;
        self.lane().session.finish(&job.handle, end, now).unwrap();
    }

    fn barrier(&mut self) -> EchoBarrier {
        let now = self.hand.now;
        self.lane().barrier(now)
    }

    /// Everything is written.
    fn writes(&mut self) {
        self.turn();
        self.written();
        self.turn();
    }

    /// Before an answer counts as overdue, it is looked for.
    fn looks_when_late(&mut self) {
        self.hand.now += 10 * SECOND;
        assert_eq!(self.turn(), Pulse::Look);
        self.hand.looked();
    }

    /// The two grabs in flight bring none.
    fn no_job_comes_twice(&mut self) {
        for _ in 0..2 {
            self.comes(PacketType::NoJob, &[]);
        }
    }

    /// A job is given back, and the two grabs in flight bring none.
    fn gives_back(&mut self, job: &Assignment) -> Pulse {
        self.ends(job, JobEnd::GiveBack);
        self.no_job_comes_twice();
        self.turn();
        self.written();
        self.turn()
    }

    /// The connection is closed for a pause, which passes.
    fn pauses(&mut self, pulse: Pulse) -> Duration {
        let Pulse::Close(Some(until)) = pulse else { panic!("{pulse:?}") };
        self.hand.closes();
        until - std::mem::replace(&mut self.hand.now, until)
    }

    /// The connection is lost.
    fn loses(&mut self) -> Pulse {
        self.hand.loses(io::ErrorKind::ConnectionReset);
        let pulse = self.turn();
        self.hand.closes();
        pulse
    }

    /// An attempt to connect fails, after a second.
    fn is_refused(&mut self) -> Pulse {
        assert!(matches!(self.turn(), Pulse::Dial { .. }));
        self.hand.now += SECOND;
        self.hand.ends(Ended::NotConnected(Error::timed_out(Deadline::Connect)));
        self.turn()
    }

    /// The number of tasks that are to be woken.
    fn woken(&self) -> usize {
        self.hand.io().wake.len()
    }

    fn settled(&mut self) -> Vec<Settled> {
        self.lane().session.settled().collect()
    }
}

#[test]
fn only_the_first_attempt_and_one_behind_a_good_connection_are_free() {
    let mut bench = Bench::new(&terms(7));
    assert!(bench.lane().connection().is_none(), "nobody knows yet");
    assert_eq!(bench.lane().state(), ConnectionState::Idle);
    let by = bench.hand.now + 6 * SECOND;
    assert_eq!(bench.is_refused(), Pulse::Dial { server: 0, by: Some(by), ask: None });
    assert!(matches!(bench.lane().take().1[..], [LaneEvent::Lost(_, Duration::ZERO)]));
    assert_eq!(bench.lane().state(), ConnectionState::Connecting);
    let why = bench.lane().connection().unwrap().unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Timeout(Deadline::Connect));
    let Pulse::Close(Some(until)) = bench.is_refused() else { panic!("it waits") };
    assert_eq!(bench.lane().state(), ConnectionState::Backoff);
    let wait = until - bench.hand.now;
    assert!(
        matches!(bench.lane().take().1[..], [LaneEvent::Lost(_, reported)] if reported == wait)
    );
    bench.hand.now = until;
    bench.opens();
    assert!(matches!(bench.lane().take().1[..], [LaneEvent::Connected]));
    assert_eq!(bench.lane().state(), ConnectionState::Ready);
    assert!(bench.lane().connection().unwrap().is_ok());
    bench.gets_job("f");
    assert!(matches!(bench.loses(), Pulse::Dial { .. }), "it has brought a job");
    let (_, news) = bench.lane().take();
    let [LaneEvent::Lost(error, Duration::ZERO)] = &news[..] else { panic!("{news:?}") };
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    bench.hand.opens();
    bench.turn();
    assert!(matches!(bench.loses(), Pulse::Close(Some(_))), "that one was of no use");
}

/// It ended the connection, which gave it back to the server together with all others, again and again.
#[test]
fn a_job_over_the_limit_fails_once_it_was_read_and_costs_no_other_job() {
    for limit in [None, Some(2), Some(9)] {
        let mut bench = Bench::new(&LaneSettings { max_packet_size: 100, ..terms(7) });
        if let Some(limit) = limit {
            bench.lane().session.set_limit(JobLimit::new(limit));
        }
        bench.opens();
        let job = bench.gets_job("f");
        bench.lane().take();
        bench.turn();
        bench.written();
        let mut large = BytesMut::new();
        let arguments = ["H:x:2", "f", "u", "", &"w".repeat(1_000_000)];
        let packet = Packet::new(Magic::Response, PacketType::JobAssignAll, &arguments).unwrap();
        packet.encode(&mut large);
        let (most, rest) = large.split_at(large.len() - 1);
        for piece in most.chunks(4 << 10) {
            bench.hand.comes(piece);
            bench.turn();
            assert!(bench.hand.io().data().is_empty());
        }
        assert_eq!(bench.written(), [""; 0], "the server still sends it");
        bench.hand.comes(rest);
        bench.turn();
        let next: &[&str] = match limit {
            Some(2) => &["WORK_EXCEPTION"],
            _ => &["WORK_EXCEPTION", "GRAB_JOB_ALL"],
        };
        assert_eq!(bench.written(), next, "it counts as one of {limit:?}");
        let (jobs, news) = bench.lane().take();
        let [LaneEvent::Oversized(failed, function, oversize)] = &news[..] else {
            panic!("{news:?}")
        };
        assert_eq!((failed.name(), function.as_bytes()), (&b"H:x:2"[..], &b"f"[..]));
        assert_eq!((oversize.size, oversize.limit), (packet.body.len(), 100));
        assert!(jobs.is_empty() && bench.lane().holds(&job.handle));
        if limit.is_none() {
            // One was asked for before.
            for settled in [&[][..], &[Settled::Failed]] {
                bench.comes(PacketType::NoJob, &[]);
                bench.turn();
                assert_eq!(bench.settled(), settled);
            }
        }
    }
}

#[test]
fn a_job_over_the_limit_ends_its_connection_if_it_must_not_fail() {
    let mut bench =
        Bench::open(&LaneSettings { max_packet_size: 100, fails_oversized: false, ..terms(7) });
    bench.comes(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", &"w".repeat(100)]);
    bench.turn();
    assert!(!bench.lane().is_open());
    assert_eq!(bench.lane().why_lost().kind(), ErrorKind::PacketTooLarge);
}

#[test]
fn a_job_that_a_limit_has_counted_is_handed_over_although_its_connection_is_lost() {
    for is_limited in [true, false] {
        let mut bench = Bench::new(&terms(7));
        if is_limited {
            bench.lane().session.set_limit(JobLimit::new(5));
        }
        bench.opens();
        bench.comes(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]);
        bench.loses();
        assert_eq!(bench.lane().take().0.len(), usize::from(is_limited));
        assert_eq!(bench.lane().session.is_idle(), !is_limited, "its handler will run");
    }
}

#[test]
fn a_silent_server_keeps_its_share_of_a_limit_until_its_answer_is_overdue() {
    let limit = JobLimit::new(2);
    let [mut silent, mut other] = [(); 2].map(|()| {
        let mut bench = Bench::new(&terms(7));
        bench.lane().session.set_limit(limit.clone());
        bench
    });
    silent.opens();
    silent.gets_job("f");
    assert_eq!(silent.written(), ["GRAB_JOB_ALL"]);
    silent.turn();
    assert!(matches!(other.turn(), Pulse::Dial { .. }));
    other.hand.opens();
    other.turn();
    assert_eq!(other.written(), ["CAN_DO"], "the last share is taken");
    silent.hand.now += 10 * SECOND - Duration::from_millis(1);
    silent.turn();
    other.hand.now = silent.hand.now;
    other.turn();
    assert_eq!(other.written(), [""; 0]);
    silent.hand.now += Duration::from_millis(1);
    assert_eq!(silent.turn(), Pulse::Look);
    silent.hand.looked();
    silent.turn();
    assert_eq!(silent.lane().why_lost().kind(), ErrorKind::Timeout(Deadline::Reply));
    other.hand.now = silent.hand.now;
    other.turn();
    assert_eq!(other.written(), ["GRAB_JOB_ALL"]);
}

#[test]
fn a_lost_connection_holds_nothing_and_wakes_waiters() {
    let (mut bench, job) = Bench::busy(&terms(7));
    let now = bench.hand.now;
    assert!(bench.lane().holds(&job.handle));
    assert_eq!(bench.lane().lost_reason(&job.handle, now), None);
    let barrier = bench.lane().barrier(now);
    bench.turn();
    assert!(bench.lane().is_past(barrier).is_none());
    {
        let (mut ticket, mut left) = (None, None);
        let waker = std::task::Waker::noop();
        bench.lane().barriers.add(waker);
        assert!(bench.lane().wake_on_loss(&mut ticket, waker.clone()).is_none());
        assert!(bench.lane().wake_on_loss(&mut ticket, waker.clone()).is_some());
        assert!(bench.lane().wake_on_loss(&mut left, waker.clone()).is_none());
        assert!(bench.lane().losses.leave(left.unwrap()).is_some());
        bench.turn();
        assert_eq!(bench.woken(), 0);
        bench.hand.loses(io::ErrorKind::ConnectionReset);
        bench.turn();
        assert_eq!(bench.woken(), 2, "one behind the barrier and one with the job");
        bench.hand.closes();
    }
    for is_back in [false, true] {
        if is_back {
            bench.opens();
        }
        assert_eq!(bench.lane().is_open(), is_back);
        assert!(!bench.lane().holds(&job.handle));
        let reason = bench.lane().lost_reason(&job.handle, now);
        assert_eq!(reason, Some(LostReason::ConnectionLost));
        let error = bench.lane().is_past(barrier).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLost);
        let late = bench.lane().session.finish(&job.handle, JobEnd::Fail, now).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::JobLost);
    }
    assert_eq!(bench.settled(), [Settled::Abandoned]);
}

#[test]
fn each_loss_of_results_is_reported_once() {
    assert!(Bench::open(&terms(7)).lane().check_losses().is_ok());
    let mut bench = Bench::new(&terms(7));
    for is_told_by_barrier in [false, true] {
        bench.opens();
        let job = bench.gets_job("f");
        bench.completes(&job);
        let barrier = bench.barrier();
        bench.loses();
        if is_told_by_barrier {
            assert!(bench.lane().is_past(barrier).unwrap().is_err());
        } else {
            assert!(bench.lane().check_losses().is_err());
        }
        assert!(bench.lane().check_losses().is_ok());
    }
    assert_eq!(bench.settled(), [Settled::Unknown; 2]);
}

#[test]
fn a_barrier_is_passed_with_its_answer() {
    let mut bench = Bench::open(&terms(7));
    bench.comes(PacketType::NoJob, &[]);
    let barrier = bench.barrier();
    bench.turn();
    assert!(bench.lane().is_past(barrier).is_none());
    bench.written();
    bench.comes(PacketType::EchoRes, &[""]);
    bench.lane().barriers.add(std::task::Waker::noop());
    bench.turn();
    assert_eq!(bench.woken(), usize::from(cfg!(feature = "tokio")));
    assert!(bench.lane().is_past(barrier).unwrap().is_ok());
    // Requests before and behind it were sent at the same instant, and its answer comes with theirs.
    let (mut busy, job) = Bench::busy(&terms(7));
    busy.turn();
    let among = busy.barrier();
    busy.completes(&job);
    busy.turn();
    busy.lane().barriers.add(std::task::Waker::noop());
    busy.comes(PacketType::NoJob, &[]);
    busy.comes(PacketType::NoJob, &[]);
    busy.comes(PacketType::EchoRes, &[""]);
    busy.turn();
    assert_eq!(busy.woken(), usize::from(cfg!(feature = "tokio")));
    assert!(busy.lane().is_past(among).unwrap().is_ok());
    // Without a connection there is nothing to wait for.
    bench.loses();
    let barrier = bench.barrier();
    assert!(bench.lane().is_past(barrier).unwrap().is_err());
}

#[test]
fn a_report_waits_for_room_while_too_much_is_unwritten() {
    let (mut bench, job) = Bench::busy(&terms(7));
    assert!(bench.lane().has_room());
    bench.writes();
    assert_eq!(bench.lane().backlog(), 0);
    let data = vec![0; (1 << 20) - 12 - "H:x:1\0".len()];
    bench.lane().session.report(&job.handle, Report::Data(&data)).unwrap();
    assert_eq!((bench.lane().backlog(), bench.lane().has_room()), (1 << 20, false));
    bench.lane().waiting.add(std::task::Waker::noop());
    bench.turn();
    assert_eq!((bench.lane().backlog(), bench.lane().has_room()), (1 << 20, false));
    assert_eq!(bench.woken(), 0);
    assert_eq!(bench.written(), ["WORK_DATA"]);
    bench.turn();
    assert_eq!((bench.lane().backlog(), bench.lane().has_room()), (0, true));
    assert_eq!(bench.woken(), usize::from(cfg!(feature = "tokio")));
    bench.lane().session.report(&job.handle, Report::Data(&data)).unwrap();
    bench.loses();
    assert!(bench.lane().has_room(), "a report learns at once that its job is lost");
}

/// Its result is queued before the deadline is noticed, and never written.
#[test]
fn a_job_ending_on_a_silent_server_has_an_unknown_fate() {
    let (mut bench, job) = Bench::busy(&terms(7));
    bench.writes();
    bench.looks_when_late();
    bench.completes(&job);
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
    assert_eq!(bench.settled(), [Settled::Unknown]);
    assert!(bench.lane().check_losses().is_err() && bench.lane().check_losses().is_ok());
    assert!(!bench.lane().is_open() && bench.lane().session.is_idle());
}

/// It has answered that kind on an earlier connection, and may be another version by now.
#[test]
fn a_server_that_no_longer_answers_a_grab_is_asked_with_an_older_one() {
    let mut bench = Bench::open(&terms(7));
    bench.comes(PacketType::NoJob, &[]);
    bench.turn();
    if let Pulse::Close(Some(until)) = bench.loses() {
        bench.hand.now = until;
    }
    bench.opens();
    bench.looks_when_late();
    assert!(matches!(bench.turn(), Pulse::Go(Some(_))));
    assert_eq!(bench.written(), ["GRAB_JOB_UNIQ"]);
}

#[test]
fn a_stopping_worker_keeps_its_connection_until_its_results_are_confirmed() {
    for with_barrier in [true, false] {
        let (mut bench, job) = Bench::busy(&LaneSettings { with_barrier, ..terms(7) });
        assert_eq!(bench.written(), ["GRAB_JOB_ALL"; 2]);
        bench.lane().wind_down();
        assert!(matches!(bench.turn(), Pulse::Go(_)));
        bench.no_job_comes_twice();
        assert!(matches!(bench.turn(), Pulse::Go(_)), "its job runs");
        bench.completes(&job);
        let pulse = bench.turn();
        if with_barrier {
            assert!(matches!(pulse, Pulse::Go(Some(_))));
            assert_eq!(bench.written(), ["WORK_COMPLETE", "ECHO_REQ"]);
            bench.comes(PacketType::EchoRes, &[""]);
        } else {
            assert!(matches!(pulse, Pulse::HalfClose(Some(_))));
            assert_eq!(bench.written(), ["WORK_COMPLETE"]);
            bench.hand.loses(io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(bench.turn(), Pulse::Over);
        assert!(bench.lane().is_over() && !bench.lane().is_open());
        assert_eq!(bench.lane().state(), ConnectionState::Closed);
        assert!(bench.lane().connection().unwrap().is_err());
        let fate = if with_barrier { Settled::Completed } else { Settled::Unknown };
        assert_eq!(bench.settled(), [fate]);
        let (_, news) = bench.lane().take();
        assert!(news.is_empty(), "its end is no loss: {news:?}");
    }
}

/// The connection ends with its other jobs, and the next ones come later and later until a job is done.
#[test]
fn a_job_that_is_given_back_ends_its_connection_and_the_next_one_waits() {
    for with_barrier in [true, false] {
        let mut bench = Bench::open(&LaneSettings { with_barrier, ..terms(7) });
        let (held, given_back) = (bench.gets_job("f"), bench.gets("H:x:2", "f"));
        bench.written();
        bench.ends(&given_back, JobEnd::GiveBack);
        assert!(matches!(bench.turn(), Pulse::Go(_)), "a job runs, and grabs are not answered");
        // This job comes too late to be started.
        bench.comes(PacketType::JobAssignAll, &["H:x:3", "f", "u", "", "w"]);
        bench.turn();
        assert!(bench.lane().take().0.is_empty());
        bench.completes(&held);
        assert!(matches!(bench.turn(), Pulse::Go(Some(_))));
        assert_eq!(bench.written(), ["WORK_COMPLETE", "ECHO_REQ"]);
        bench.comes(PacketType::EchoRes, &[""]);
        let Pulse::Close(Some(_)) = bench.turn() else { panic!("it is still connected") };
        assert_eq!(bench.lane().state(), ConnectionState::Backoff);
        let fates = [Settled::GivenBack, Settled::Completed, Settled::Abandoned];
        assert_eq!(bench.settled(), fates);
    }
}

#[test]
fn pauses_grow_while_jobs_are_given_back_and_start_over_when_one_ends() {
    let longest = |seed, is_fruitful: bool| {
        let mut bench = Bench::new(&terms(seed));
        (0..20).fold(Duration::ZERO, |longest, _| {
            bench.opens();
            let mut job = bench.gets_job("f");
            if is_fruitful {
                bench.completes(&job);
                job = bench.gets("H:x:2", "f");
            }
            let pulse = bench.gives_back(&job);
            longest.max(bench.pauses(pulse))
        })
    };
    for seed in seeds(5) {
        assert!(longest(seed, false) > SECOND / 4, "seed {seed}");
        assert!(longest(seed, true) <= SECOND / 100, "seed {seed}");
    }
}

#[test]
fn until_empty_ends_when_every_job_is_given_back() {
    let mut bench = Bench::new(&LaneSettings { until_empty: true, ..terms(7) });
    for times in 0..=2 {
        bench.opens();
        let job = bench.gets_job("f");
        let pulse = bench.gives_back(&job);
        if times < 2 {
            bench.pauses(pulse);
        }
    }
    assert!(bench.lane().is_over());
    let (_, news) = bench.lane().take();
    assert!(!news.iter().any(|news| matches!(news, LaneEvent::GivenUp)), "its server is there");
}

#[test]
fn a_server_that_does_not_end_a_half_closed_connection_is_left() {
    let (mut bench, job) = Bench::busy(&LaneSettings { with_barrier: false, ..terms(7) });
    bench.lane().wind_down();
    bench.no_job_comes_twice();
    bench.completes(&job);
    bench.turn();
    bench.written();
    assert_eq!(bench.turn(), Pulse::HalfClose(Some(bench.hand.now + 10 * SECOND)));
    bench.looks_when_late();
    assert_eq!(bench.turn(), Pulse::Over);
    assert_eq!(bench.settled(), [Settled::Unknown]);
}

#[test]
fn a_lane_that_is_cut_leaves_its_jobs_at_once() {
    let (mut bench, job) = Bench::busy(&terms(7));
    bench.lane().cut();
    assert!(bench.lane().is_over() && !bench.lane().is_open());
    assert_eq!(bench.settled(), [Settled::Abandoned]);
    let now = bench.hand.now;
    assert_eq!(bench.lane().lost_reason(&job.handle, now), Some(LostReason::Stopped));
    assert!(bench.lane().session.finish(&job.handle, JobEnd::Fail, now).is_err());
    let other = bench.lane().connection().unwrap();
    assert!(other.is_err());
    let (mut running, _) = Bench::busy(&terms(7));
    running.lane().cut();
    assert_eq!(running.turn(), Pulse::Over, "although its handler runs");
    assert_eq!(running.lane().state(), ConnectionState::Closed);
}

/// The grace counts from the first stop, however often the worker is told.
#[test]
fn a_job_that_outlasts_the_grace_goes_back_and_sent_results_have_a_second_more() {
    for is_confirmed in [true, false] {
        let (mut bench, held) = Bench::busy(&terms(7));
        bench.turn();
        bench.comes(PacketType::JobAssignAll, &["H:x:2", "f", "u", "", "w"]);
        bench.turn();
        let ended = bench.lane().take().0.pop().unwrap();
        let start = bench.hand.now;
        bench.lane().stop(Haste::Gently, start);
        bench.comes(PacketType::NoJob, &[]);
        bench.turn();
        bench.completes(&ended);
        bench.turn();
        assert_eq!(bench.written().last().unwrap(), "WORK_COMPLETE");
        {
            let waker = std::task::Waker::noop().clone();
            assert!(bench.lane().wake_on_loss(&mut None, waker).is_none());
        }
        assert_eq!(bench.turn(), Pulse::Go(Some(start + 25 * SECOND)), "its handler runs");
        assert_eq!(bench.woken(), 0);
        bench.hand.now += 25 * SECOND;
        let now = bench.hand.now;
        bench.lane().stop(Haste::Gently, now);
        assert_eq!(bench.turn(), Pulse::Go(Some(now + SECOND)), "its results matter");
        assert_eq!(bench.woken(), usize::from(cfg!(feature = "tokio")), "the job is lost now");
        assert_eq!(bench.written(), ["ECHO_REQ"]);
        let lost = bench.lane().lost_reason(&held.handle, now);
        assert_eq!((lost, bench.lane().holds(&held.handle)), (Some(LostReason::Stopped), false));
        if is_confirmed {
            bench.comes(PacketType::EchoRes, &[""]);
        } else {
            bench.hand.now += SECOND;
        }
        assert_eq!(bench.turn(), Pulse::Over);
        let settled = bench.settled();
        match is_confirmed {
            true => assert_eq!(settled, [Settled::Completed, Settled::Abandoned]),
            false => assert_eq!(settled, [Settled::Abandoned, Settled::Unknown]),
        }
        assert_eq!(bench.lane().lost_reason(&held.handle, now), Some(LostReason::Stopped));
    }
}

/// A job in the last answer of the server, too.
#[test]
fn nothing_is_held_once_the_grace_has_passed() {
    let mut bench = Bench::open(&terms(7));
    let now = bench.hand.now;
    bench.lane().stop(Haste::Gently, now);
    assert!(matches!(bench.turn(), Pulse::Go(_)), "an answer is due");
    bench.hand.now += 25 * SECOND;
    bench.comes(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]);
    assert_eq!(bench.turn(), Pulse::Over);
    let late = bench.lane().take().0.pop().unwrap();
    assert!(!bench.lane().holds(&late.handle));
    assert_eq!(bench.settled(), [Settled::Abandoned]);
}

#[test]
fn the_handler_of_a_lost_job_has_the_grace_of_a_stop() {
    let (mut bench, _) = Bench::busy(&terms(7));
    bench.loses();
    let now = bench.hand.now;
    bench.lane().stop(Haste::Gently, now);
    assert_eq!(bench.turn(), Pulse::Close(Some(now + 25 * SECOND)));
    bench.hand.now += 25 * SECOND;
    assert_eq!(bench.turn(), Pulse::Over);
}

#[test]
fn held_jobs_can_be_left_while_the_lane_works_on() {
    let (mut bench, job) = Bench::busy(&terms(7));
    bench.lane().session.leave_all();
    assert!(!bench.lane().holds(&job.handle) && bench.lane().session.is_idle());
    assert!(matches!(bench.turn(), Pulse::Go(_)));
    assert!(!bench.lane().is_over());
}

/// Nothing may have been read while a handler ran.
#[test]
fn received_data_can_be_read_without_waiting() {
    let mut bench = Bench::new(&terms(7));
    bench.lane().look();
    assert!(!bench.lane().is_looking(), "there is no connection");
    bench.opens();
    bench.lane().look();
    assert!(bench.lane().is_looking());
    assert_eq!(bench.turn(), Pulse::Look);
    assert!(bench.lane().is_looking());
    bench.hand.looked();
    assert!(matches!(bench.turn(), Pulse::Go(_)));
    assert!(!bench.lane().is_looking());
    bench.lane().look();
    bench.loses();
    assert!(!bench.lane().is_looking(), "nothing more can arrive");
}

/// A job over the limit that is still arriving keeps no handler waiting that asks about its own.
#[test]
fn a_flood_does_not_postpone_the_end_of_a_probe() {
    let mut bench = Bench::open(&terms(7));
    let mut flood = b"\0RES\0\0\0\x28\x01\0\0\0H:x:1\0f\0u\0\0".to_vec();
    flood.resize(12 << 20, b'w');
    bench.lane().look();
    assert_eq!(bench.turn(), Pulse::Look);
    let mut looks = 0;
    for piece in flood.chunks(4 << 10) {
        bench.hand.comes(piece);
        if bench.turn() != Pulse::Look {
            break;
        }
        looks += 1;
    }
    assert!(bench.lane().is_open() && !bench.lane().is_looking());
    assert!((2..3_000).contains(&looks), "{looks}");
}

#[test]
fn traffic_is_counted_over_all_connections() {
    let mut bench = Bench::new(&terms(7));
    for _ in 0..2 {
        bench.opens();
        bench.comes(PacketType::NoJob, &[]);
        bench.turn();
        assert_eq!(bench.written(), ["PRE_SLEEP"]);
        bench.turn();
        let traffic = bench.lane().take_traffic();
        assert_eq!((traffic.replies, traffic.bytes_in, traffic.bytes_out), (1, 12, 13 + 2 * 12));
        let none = bench.lane().take_traffic();
        assert_eq!((none.replies, none.bytes_in, none.bytes_out), (0, 0, 0));
        let Pulse::Dial { .. } = bench.loses() else {
            bench.hand.now += SECOND;
            continue;
        };
    }
}
