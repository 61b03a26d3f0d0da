//! The role under a pump that does everything a pump may do, on a bad network, against the broker of the in-memory
//! server.

mod connections;
mod leftovers;
mod pipelines;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fixtures::{beanstalkd::Server, gearmand::broker::ConnectionId, offline::Offline};
use queue_core::{
    End, Operation, Random,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::*;
use crate::{
    Deadline, JobId, PutOptions, RetryPolicy, TubeName,
    protocol::{
        Delete, Ignore, ListTubeUsed, Put, Reserve, ReserveJob, ReserveWithTimeout, Stats, Touch,
        Use, Watch,
    },
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> ConnectOptions {
    let (base, cap) = (Duration::from_millis(10), SECOND);
    let options: ConnectOptions = "simulated:11300".parse().unwrap();
    options.retry(RetryPolicy::new(3).backoff(base, cap).seed(1))
}

fn refused() -> Error {
    closed("refused")
}

/// A server whose clock advances a little with each exchange.
struct Broker {
    server: Offline,
    connection: Option<ConnectionId>,
}

impl Broker {
    fn new() -> Self {
        let server = Server::builder().instance(1).log_capacity(0).offline();
        Broker { server, connection: None }
    }

    fn answer(&mut self, answer: &mut Vec<u8>) -> bool {
        self.server.advance(Duration::from_millis(20));
        let Some(connection) = self.connection else { return false };
        let received = self.server.receive(connection);
        answer.extend(received.bytes);
        received.end.is_none()
    }

    /// The answer to a command on its own connection.
    fn ask(&mut self, command: &str) -> String {
        let connection = self.server.connect();
        self.server.send(connection, command.as_bytes());
        let answer = self.server.receive(connection).bytes;
        self.server.hang_up(connection);
        String::from_utf8(answer).unwrap()
    }
}

impl Peer for Broker {
    fn connected(&mut self) {
        if let Some(old) = self.connection.replace(self.server.connect()) {
            self.server.hang_up(old);
        }
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        if let Some(connection) = self.connection {
            self.server.send(connection, bytes);
        }
        self.answer(answer)
    }

    fn half_closed(&mut self, answer: &mut Vec<u8>) -> bool {
        if let Some(connection) = self.connection {
            self.server.half_close(connection);
        }
        self.answer(answer)
    }
}

type Run = Proof<ClientSession, Broker>;

/// Polls until there is an outcome, or this often.
fn outcome<T>(
    proof: &mut Run,
    steps: usize,
    take: impl Fn(&mut ClientSession) -> Option<Result<T>>,
) -> Option<Result<T>> {
    for _ in 0..steps {
        proof.step();
        if let Some(outcome) = take(&mut proof.role.0) {
            return Some(outcome);
        }
    }
    assert!(steps < ALL, "it never ends: {:?}", proof.role);
    None
}

/// Carries out a command, or drops it after this many steps.
fn call<C: Command>(proof: &mut Run, steps: usize, command: &C) -> Option<Result<C::Reply>> {
    proof.role.0.begin(command);
    let outcome = outcome(proof, steps, ClientSession::reply)?;
    Some(proof.role.0.conclude(command, outcome, &mut Operation::none()))
}

/// What the caller knows about the jobs that it has put.
#[derive(Default)]
struct Book {
    /// By their bodies: whether the put was acknowledged.
    put: BTreeMap<String, Option<bool>>,
    done: BTreeSet<String>,
    tube: TubeName,
}

/// More than any call needs.
const ALL: usize = 100_000;

const PUT: &str = "it is a good command";

impl Book {
    fn put(&mut self, proof: &mut Run, steps: usize) {
        let body = format!("job {}", self.put.len());
        let command = Put::new(&body, PutOptions::default().ttr(3600 * SECOND)).expect(PUT);
        let known = match call(proof, steps, &command) {
            Some(Ok(_)) => Some(true),
            Some(Err(error)) if error.fate() == Fate::NotSent => Some(false),
            _ => None,
        };
        self.put.insert(body, known);
    }

    /// Takes a job, and deletes it. Returns whether there was one.
    fn take(&mut self, proof: &mut Run, steps: usize, wait: Duration) -> bool {
        let command = ReserveWithTimeout::new(wait).expect(PUT);
        let Some(Ok(reserved)) = call(proof, steps, &command) else { return true };
        let Some(job) = reserved.job() else { return false };
        let body = String::from_utf8(job.body.to_vec()).expect(PUT);
        assert_ne!(self.put[&body], Some(false), "{body} was not sent, and exists");
        assert!(!self.done.contains(&body), "{body} was deleted, and came again");
        match call(proof, ALL, &Delete::new(&job)) {
            Some(Ok(())) => drop(self.done.insert(body)),
            Some(Err(error)) if error.fate() == Fate::Unknown => {
                // It may be gone.
                self.put.insert(body, None);
            }
            _ => {}
        }
        true
    }

    fn use_another(&mut self, proof: &mut Run, steps: usize, name: &str) {
        let tube: TubeName = name.try_into().expect(PUT);
        match call(proof, steps, &Use(tube.clone())) {
            Some(Ok(())) => self.tube = tube,
            // Only its reply shows it.
            _ => self.tube = self.ask_for_tube(proof),
        }
        assert_eq!(self.ask_for_tube(proof), self.tube);
    }

    fn ask_for_tube(&self, proof: &mut Run) -> TubeName {
        for _ in 0..100 {
            if let Some(Ok(tube)) = call(proof, ALL, &ListTubeUsed) {
                assert_eq!(tube, *proof.role.0.session.used_tube());
                return tube;
            }
        }
        panic!("the network is never that bad");
    }
}

/// On any network, with calls that are dropped at any point: a command has one outcome, which is that at the server;
/// each job is delivered until it is deleted.
#[test]
fn each_command_gets_its_outcome_on_any_schedule_and_network() {
    for seed in seeds(100) {
        let role = ClientSession::new(options(), true);
        let mut proof = Proof::new(role, Broker::new(), refused, seed);
        let (mut random, mut book) = (Random::new(seed), Book::default());
        proof.faults = Faults { broken: 60, refused: 6, dropped: 6, late: 200 };
        for _ in 0..60 {
            let steps = if random.one_in(3) { 1 + random.below(12) } else { ALL };
            match random.below(10) {
                0..4 => book.put(&mut proof, steps),
                4..7 => {
                    let wait = SECOND * [0, 1, 30][random.below(3)];
                    book.take(&mut proof, steps, wait);
                }
                7 => book.use_another(&mut proof, steps, ["default", "a"][random.below(2)]),
                8 => drop(pair(&mut proof, steps)),
                _ => {
                    proof.role.0.connect();
                    outcome(&mut proof, steps, ClientSession::ready);
                }
            }
        }
        // All faults end, and then nothing is lost.
        proof.faults = Faults::default();
        let all = Watch("a".try_into().expect(PUT));
        while !matches!(call(&mut proof, ALL, &all), Some(Ok(_))) {}
        while book.take(&mut proof, ALL, Duration::ZERO) {}
        for (body, known) in &book.put {
            let lost = *known == Some(true) && !book.done.contains(body);
            assert!(!lost, "seed {seed}: {body} was acknowledged, and never came");
        }
        let stats = proof.peer.ask("stats\r\n");
        for none in ["current-jobs-ready: 0", "current-jobs-reserved: 0"] {
            assert!(stats.contains(none), "seed {seed}: {stats}");
        }
    }
}

/// Nothing that concerns a job of ours: a query, and a check for a job that arrives for the next reserve if it is
/// dropped.
fn pair(proof: &mut Run, steps: usize) -> Option<()> {
    let (first, second) = (Touch::new(u64::MAX), Stats);
    proof.role.0.begin_pair(&first, &second);
    let one = outcome(proof, steps, ClientSession::reply)?;
    let operations = [&mut Operation::none(), &mut Operation::none()];
    let one = proof.role.0.conclude_first(&first, one, operations).ok()?;
    proof.role.0.begin_second();
    let two = outcome(proof, steps, ClientSession::reply)?;
    let two = proof.role.0.conclude(&second, two, &mut Operation::none());
    assert!(one.is_err(), "there is no such job");
    if let Ok(stats) = two {
        assert!(!stats.version.is_empty(), "it is the answer to another question");
    }
    Some(())
}

/// The role by itself, with time and bytes by hand.
struct Bench {
    hand: ByHand<ClientSession>,
}

impl Bench {
    fn new(options: ConnectOptions) -> Self {
        let mut bench = Bench { hand: ByHand::new(ClientSession::new(options, true)) };
        bench.hand.role.0.connect();
        assert!(matches!(bench.ask(), Pulse::Dial { server: 0, by: Some(_), .. }));
        bench.hand.opens();
        bench.ask();
        assert!(bench.hand.role.0.ready().is_some_and(|outcome| outcome.is_ok()));
        bench
    }

    /// With the usual options, and this command on its way.
    fn begun(command: &impl Command) -> Self {
        let mut bench = Bench::new(options());
        bench.begin(command);
        bench
    }

    fn ask(&mut self) -> Pulse {
        self.hand.turn()
    }

    /// Begins a command; returns what the role wants then.
    fn starts<C: Command>(&mut self, command: &C) -> Pulse {
        self.hand.role.0.begin(command);
        self.ask()
    }

    /// Begins a command, and has it written; returns what was written.
    fn begin<C: Command>(&mut self, command: &C) -> String {
        self.starts(command);
        self.write()
    }

    /// Asks for a job, however long that takes.
    fn reserve(&mut self) -> String {
        self.hand.role.0.begin_reserve();
        self.ask();
        self.write()
    }

    /// As [`Self::begin`], for two commands.
    fn begin_pair<A: Command, B: Command>(&mut self, first: &A, second: &B) -> String {
        self.hand.role.0.begin_pair(first, second);
        self.ask();
        self.write()
    }

    fn write(&mut self) -> String {
        String::from_utf8(self.hand.takes_all()).unwrap()
    }

    /// What arrives, and what the caller gets of it.
    fn hear(&mut self, bytes: &str) -> Option<Result<Response>> {
        self.hand.comes(bytes.as_bytes());
        self.ask();
        self.hand.role.0.reply()
    }

    /// Begins a put, of which the server takes five bytes.
    fn puts_in_part(&mut self) {
        self.hand.role.0.begin(&put("body"));
        self.ask();
        self.hand.takes(5);
    }

    fn lose(&mut self) -> Pulse {
        self.hand.loses(std::io::ErrorKind::ConnectionReset);
        self.ask()
    }

    /// The call's error.
    fn failure(&mut self) -> (ErrorKind, Fate) {
        let error = self.hand.role.0.reply().unwrap().unwrap_err();
        (error.kind(), error.fate())
    }

    /// Makes the connection that the role wants at once.
    fn ask_and_open(&mut self) {
        let pulse = self.ask();
        self.open(pulse);
    }

    /// Loses the connection, and makes the next one, which the role wants at once.
    fn lose_and_open(&mut self) {
        let pulse = self.lose();
        self.open(pulse);
    }

    fn open(&mut self, pulse: Pulse) {
        assert!(matches!(pulse, Pulse::Dial { server: 0, .. }), "{pulse:?}");
        self.hand.opens();
        self.ask();
    }
}

fn put(body: &str) -> Put<&str> {
    Put::new(body, PutOptions::default()).unwrap()
}

#[test]
fn a_command_on_a_job_and_one_of_unknown_fate_are_never_repeated() {
    let mut bench = Bench::new(options());
    bench.starts(&Delete::new(JobId::from(7)));
    bench.hand.takes(5);
    assert_eq!(bench.lose(), Pulse::Close(None));
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!((error.fate(), error.command()), (Fate::NotSent, Some("delete")));
    let mut bench = Bench::begun(&put("body"));
    assert_eq!(bench.lose(), Pulse::Close(None));
    assert_eq!(bench.hand.role.0.reply().unwrap().unwrap_err().fate(), Fate::Unknown);
}

/// A server that was away for long is tried soon for a new call, and each call has its own delays.
#[test]
fn a_new_call_does_not_wait_for_the_long_delays_of_earlier_ones() {
    let base = Duration::from_millis(100);
    let retry = RetryPolicy::new(3).backoff(base, 600 * SECOND).seed(1);
    let mut bench = Bench::new(options().retry(retry));
    bench.begin(&put("body"));
    bench.lose();
    assert!(bench.hand.role.0.reply().unwrap().is_err());
    for call in 0..10 {
        let began = bench.hand.now;
        let mut pulse = bench.starts(&ListTubeUsed);
        if let Pulse::Close(Some(first)) = pulse {
            assert!(first - began <= base, "call {call}: {:?}", first - began);
        }
        loop {
            match pulse {
                Pulse::Dial { .. } => bench.hand.ends(End::NotConnected(refused())),
                Pulse::Close(Some(at)) => bench.hand.now = at,
                _ => break,
            }
            pulse = bench.ask();
        }
        assert!(bench.hand.role.0.reply().unwrap().is_err());
        assert!(bench.hand.now - began <= 8 * base, "call {call}: {:?}", bench.hand.now - began);
    }
}

#[test]
fn a_total_deadline_reports_the_last_failure_once() {
    let options = options().total_timeout(Some(10 * SECOND));
    let mut bench = Bench::new(options.retry(RetryPolicy::new(100).backoff(SECOND, SECOND)));
    bench.starts(&put("body"));
    let mut pulse = bench.lose();
    while let Some(at) = pulse.until() {
        bench.hand.now = at;
        if matches!(pulse, Pulse::Dial { .. }) {
            bench.hand.ends(End::NotConnected(closed("no way")));
        }
        pulse = bench.ask();
    }
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total));
    assert_eq!(
        error.to_string(),
        "put to simulated:11300: not done within the total timeout of 10 s: no way"
    );
    assert!(std::error::Error::source(&error).is_none());
}

#[test]
fn a_reserve_takes_over_an_earlier_one_and_asks_whether_its_job_is_still_held() {
    let mut bench = Bench::new(options());
    assert_eq!(bench.begin(&Reserve), "reserve\r\n");
    let wait = ReserveWithTimeout::new(10 * SECOND).unwrap();
    assert_eq!(bench.begin(&wait), "", "nothing is sent behind one that waits");
    assert!(bench.hear("RESERVED 7 2\r\nhi\r\n").is_none());
    assert_eq!(bench.write(), "touch 7\r\n");
    let reply = bench.hear("TOUCHED\r\n").unwrap().unwrap();
    assert!(matches!(reply, Response::Reserved(job) if job.id == 7.into()));
    // A job that is no longer held has no holder.
    bench.begin(&Reserve);
    bench.begin(&wait);
    bench.hear("RESERVED 8 2\r\nhi\r\n");
    assert_eq!(bench.write(), "touch 8\r\n");
    assert!(bench.hear("NOT_FOUND\r\n").is_none());
    assert_eq!(bench.write(), "reserve-with-timeout 10\r\n");
}

#[test]
fn a_reserve_out_of_time_reads_once_more_and_leaves_the_earlier_one() {
    let mut bench = Bench::begun(&Reserve);
    bench.begin(&ReserveWithTimeout::new(Duration::ZERO).unwrap());
    assert_eq!(bench.ask(), Pulse::Look);
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Rest(None));
    assert_eq!(bench.hand.role.0.reply().unwrap().unwrap(), Response::TimedOut);
    // What arrived in the meantime belongs to the next one.
    bench.hand.now += SECOND;
    bench.begin(&ReserveWithTimeout::new(Duration::ZERO).unwrap());
    assert_eq!(bench.ask(), Pulse::Look);
    bench.hear("RESERVED 7 2\r\nhi\r\n");
    assert_eq!(bench.write(), "touch 7\r\n");
}

#[test]
fn a_reserve_without_end_asks_in_slices_and_notices_a_silent_server() {
    const SLICE: &str = "reserve-with-timeout 15\r\n";
    let reserve = |options: ConnectOptions| {
        let mut bench = Bench::new(options.reply_timeout(10 * SECOND));
        assert_eq!(bench.reserve(), SLICE);
        bench.hand.now += 15 * SECOND;
        assert!(bench.hear("TIMED_OUT\r\n").is_none());
        assert_eq!(bench.write(), SLICE);
        bench
    };
    let mut bench = reserve(options());
    let due = bench.ask().until().unwrap();
    assert_eq!(due, bench.hand.now + 25 * SECOND, "its time, and that of a reply");
    bench.hand.now = due;
    bench.ask();
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    let timeout = ErrorKind::Timeout(Deadline::Reply);
    assert_eq!((error.kind(), error.command()), (timeout, Some("reserve")));
    // Its other outcomes are those of the last slice.
    for reply in ["DEADLINE_SOON\r\n", "RESERVED 7 2\r\nhi\r\n"] {
        assert!(reserve(options()).hear(reply).unwrap().is_ok());
    }
    // A total timeout is that of all slices.
    let mut bench = reserve(options().total_timeout(Some(20 * SECOND)));
    bench.hand.now += 5 * SECOND;
    bench.ask();
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Total));
}

#[test]
fn slices_that_the_server_ends_at_once_do_not_spin() {
    let mut bench = Bench::new(options());
    bench.reserve();
    let start = bench.hand.now;
    for _ in 0..20 {
        assert!(bench.hear("TIMED_OUT\r\n").is_none());
        if bench.write().is_empty() {
            bench.hand.now = bench.ask().until().unwrap();
            bench.ask();
            assert!(!bench.write().is_empty());
        }
    }
    assert!(bench.hand.now - start > 3 * SECOND, "{:?}", bench.hand.now - start);
    // The next call leaves nothing of the pauses.
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.begin(&Stats), "stats\r\n");
}

/// The body of a reply for a caller that has gone is skipped as it arrives, and this one has no end.
#[test]
fn a_flood_does_not_keep_a_reserve_that_may_not_wait_any_longer() {
    let mut bench = Bench::begun(&Reserve);
    bench.begin(&ReserveWithTimeout::new(SECOND).unwrap());
    assert!(bench.hear(&format!("RESERVED 7 {}\r\n", u64::MAX / 2)).is_none());
    bench.hand.now += SECOND;
    let mut looks = 0;
    while bench.ask() == Pulse::Look {
        bench.hand.floods();
        looks += 1;
        assert!(looks < 100_000);
    }
    assert!(looks > 1, "{looks}");
    assert_eq!(bench.hand.role.0.reply().unwrap().unwrap(), Response::TimedOut);
}

/// The time between calls counts for the server, too; but what has arrived in the meantime is read first.
#[test]
fn an_earlier_reserve_is_overdue_only_when_nothing_of_its_reply_has_come() {
    let wait = ReserveWithTimeout::new(5 * SECOND).unwrap();
    let left = || {
        let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
        bench.begin(&wait);
        // The first one that waits for it.
        bench.begin(&wait);
        bench.hand.now += 3600 * SECOND;
        assert_eq!(bench.starts(&wait), Pulse::Look);
        bench
    };
    let mut bench = left();
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Close(None));
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Reply));
    let mut bench = left();
    assert!(bench.hear("RESERVED 7 2\r\n").is_none());
    let rest = bench.ask().until().unwrap();
    assert!(rest > bench.hand.now, "its rest has its time");
    bench.hear("hi\r\n");
    assert_eq!(bench.write(), "touch 7\r\n");
    // Bytes that arrive now and then do not postpone it forever.
    let mut bench = left();
    let mut late = 0;
    while bench.hand.role.0.task.is_some() {
        bench.hear("R");
        bench.hand.now += SECOND;
        late += 1;
        assert!(late < 100);
    }
}

#[test]
fn a_command_behind_a_reserve_that_waits_ends_the_sending_side() {
    let mut bench = Bench::begun(&Reserve);
    assert!(matches!(bench.starts(&ListTubeUsed), Pulse::HalfClose(Some(_))));
    assert_eq!(bench.write(), "list-tube-used\r\n");
    let reply = bench.hear("TIMED_OUT\r\nUSING default\r\n");
    assert_eq!(reply.unwrap().unwrap(), Response::Using("default".into()));
    assert_eq!(bench.ask(), Pulse::Close(None), "the connection is not used again");
}

/// A connection that holds job 7, with a waiting reserve that was abandoned.
fn held_behind_a_reserve() -> (Bench, Touch) {
    let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
    bench.begin(&Reserve);
    let job = bench.hear("RESERVED 7 2\r\nhi\r\n").unwrap().unwrap();
    let Response::Reserved(job) = job else { panic!("{job:?}") };
    assert_eq!(bench.begin(&Reserve), "reserve\r\n");
    (bench, Touch::new(&job))
}

#[test]
fn a_touch_behind_a_reserve_that_waits_is_sent_when_that_has_ended() {
    for end in ["DEADLINE_SOON\r\n", "TIMED_OUT\r\n", "RESERVED 8 2\r\nhi\r\n"] {
        let (mut bench, touch) = held_behind_a_reserve();
        assert_eq!(bench.begin(&touch), "", "the server would read it when the reserve has ended");
        assert!(bench.hear(end).is_none());
        assert_eq!(bench.write(), "touch 7\r\n");
        assert_eq!(bench.hear("TOUCHED\r\n").unwrap().unwrap(), Response::Touched);
        assert_eq!(bench.ask(), Pulse::Rest(None), "the connection is kept");
        assert_eq!(bench.hand.role.0.session.orphan().is_some(), end.starts_with("RESERVED"));
    }
}

#[test]
fn a_touch_that_would_have_to_end_a_reserve_is_not_sent() {
    let (mut bench, touch) = held_behind_a_reserve();
    let job = touch.job().unwrap();
    bench.begin(&touch);
    bench.hand.now += 10 * SECOND;
    assert_eq!(bench.ask(), Pulse::Look);
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Rest(None));
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!((error.fate(), error.command()), (Fate::NotSent, Some("touch")));
    // The job is held, so a command that finishes it is executed, and then the connection ends.
    assert!(matches!(bench.starts(&Delete::new(job)), Pulse::HalfClose(Some(_))));
    assert_eq!(bench.write(), "delete 7\r\n");
    let reply = bench.hear("TIMED_OUT\r\nDELETED\r\n").unwrap().unwrap();
    assert_eq!(reply, Response::Deleted);
}

#[test]
fn a_pair_with_a_touch_waits_for_the_end_of_a_reserve() {
    let (mut bench, touch) = held_behind_a_reserve();
    assert_eq!(bench.begin_pair(&Delete::new(JobId::from(5)), &touch), "");
    bench.hear("DEADLINE_SOON\r\n");
    assert_eq!(bench.write(), "delete 5\r\ntouch 7\r\n");
    let (mut bench, touch) = held_behind_a_reserve();
    bench.hand.role.0.begin_pair(&Reserve, &touch);
    bench.ask();
    bench.hear("RESERVED 8 2\r\nhi\r\n");
    assert_eq!(bench.write(), "touch 8\r\n", "the reserve takes over what came");
    let reply = bench.hear("TOUCHED\r\n").unwrap().unwrap();
    assert!(matches!(reply, Response::Reserved(job) if job.id == 8.into()));
    bench.hand.role.0.begin_second();
    bench.ask();
    assert_eq!(bench.write(), "touch 7\r\n");
}

/// Its connection is lost while a touch waits for an earlier reserve, so nothing of the touch was sent.
#[test]
fn a_touch_whose_connection_is_lost_before_it_is_sent_says_so() {
    let (mut bench, touch) = held_behind_a_reserve();
    bench.begin(&touch);
    bench.lose();
    assert_eq!(bench.failure(), (ErrorKind::ConnectionLost, Fate::NotSent));
}

/// A reserving command is not sent on a connection that ends after it.
#[test]
fn a_reserve_by_id_behind_a_waiting_reserve_opens_a_connection() {
    let (mut bench, _) = held_behind_a_reserve();
    assert_eq!(bench.starts(&ReserveJob(9.into())), Pulse::Close(None));
    let (mut bench, touch) = held_behind_a_reserve();
    bench.hand.role.0.begin_pair(&Delete::new(touch.job().unwrap()), &ReserveJob(9.into()));
    assert!(matches!(bench.ask(), Pulse::HalfClose(Some(_))));
    assert_eq!(bench.write(), "delete 7\r\n");
    assert!(bench.hear("TIMED_OUT\r\nDELETED\r\n").unwrap().is_ok());
    bench.hand.role.0.begin_second();
    assert_eq!(bench.ask(), Pulse::Close(None));
}

/// If the dropped one gets its job, the connection is closed, and what it holds is given back.
#[test]
fn holding_calls_wait_for_a_dropped_reserve_by_id() {
    let (mut bench, touch) = held_behind_a_reserve();
    bench.hear("TIMED_OUT\r\n");
    for (answer, sent) in [("NOT_FOUND\r\n", "touch 7\r\n"), ("RESERVED 9 2\r\nhi\r\n", "")] {
        assert_eq!(bench.begin(&ReserveJob(9.into())), "reserve-job 9\r\n");
        assert_eq!(bench.begin(&touch), "");
        bench.hear(answer);
        assert_eq!(bench.write(), sent);
        if !sent.is_empty() {
            assert_eq!(bench.hear("TOUCHED\r\n").unwrap().unwrap(), Response::Touched);
        }
    }
    assert!(!bench.hand.role.0.session.is_open());
    bench.lose_and_open();
    assert_eq!(bench.failure(), (ErrorKind::JobLost, Fate::NotSent));
}

/// A change of the watch list gives back unclaimed jobs, by closing the connection.
#[test]
fn a_touch_that_was_answered_on_a_connection_that_is_given_up_does_not_say_ok() {
    let (mut bench, touch) = held_behind_a_reserve();
    bench.begin(&touch);
    bench.hear("RESERVED 8 2\r\nhi\r\n");
    bench.write();
    assert!(bench.hear("TOUCHED\r\n").unwrap().is_ok());
    bench.begin(&Watch("more".try_into().unwrap()));
    bench.begin(&touch);
    let error = bench.hear("WATCHING 2\r\nTOUCHED\r\n").unwrap().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::JobLost, Fate::Unknown));
}

#[test]
fn an_idle_connection_is_checked_before_use() {
    let mut bench = Bench::begun(&put("a"));
    bench.hear("INSERTED 1\r\n");
    bench.hand.now += 5 * SECOND;
    assert_eq!(bench.starts(&put("b")), Pulse::Peek);
    bench.hand.loses(std::io::ErrorKind::UnexpectedEof);
    assert!(matches!(bench.ask(), Pulse::Dial { server: 0, .. }), "nothing was sent on it");
    bench.hand.opens();
    bench.ask();
    assert_eq!(bench.write(), "put 1024 0 60 1\r\nb\r\n");
}

/// A command on it would wait behind that reply, and its fate would be unknown.
#[test]
fn a_connection_that_owes_an_overdue_reply_is_replaced_before_sending() {
    let dropped = |waited: Duration| {
        let mut bench = Bench::new(options().reply_timeout(3 * SECOND));
        bench.begin(&put("a"));
        bench.hear("INSERTED 1\r\n");
        bench.begin(&put("dropped"));
        bench.hand.now += waited;
        bench.hand.role.0.begin(&Use("more".try_into().unwrap()));
        let pulse = bench.ask();
        (bench, pulse)
    };
    let (mut bench, pulse) = dropped(3 * SECOND);
    assert_eq!(pulse, Pulse::Look, "what has arrived is read first");
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Close(None));
    bench.hand.closes();
    assert!(matches!(bench.ask(), Pulse::Dial { .. }), "the call goes on elsewhere");
    assert_eq!(bench.hand.unsent(), b"");

    // A part of the reply gives the rest its full time.
    let (mut bench, _) = dropped(3600 * SECOND);
    bench.hand.comes(b"INSER");
    assert_eq!(bench.ask(), Pulse::Peek);
    bench.hand.looked();
    bench.ask();
    assert_eq!(bench.write(), "use more\r\n");
    assert!(bench.hear("TED 2\r\nUSING more\r\n").unwrap().is_ok());

    let (mut bench, pulse) = dropped(2 * SECOND);
    assert_eq!(pulse, Pulse::Peek, "it was idle, and the reply is not due yet");
    bench.hand.looked();
    bench.ask();
    assert_eq!(bench.write(), "use more\r\n");
}

#[test]
fn a_reply_to_a_command_that_is_written_at_once_is_due_from_then_on() {
    let mut bench = Bench::new(options().reply_timeout(3 * SECOND).write_timeout(100 * SECOND));
    bench.hand.role.0.begin(&Ignore("a".try_into().unwrap()));
    let start = bench.hand.now;
    assert_eq!(bench.ask().until(), Some(start + 3 * SECOND));
    bench.write();
    bench.hand.now += 3 * SECOND;
    assert_eq!(bench.ask(), Pulse::Close(None));
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Reply));
}
