//! The outbox against a model of servers, with every fault that a connection can have, at every byte.

mod leading;
mod servers;
mod waiting;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use queue_core::{
    End, Io, Pulse, Role,
    proof::{Faults, Peer, Proof, Steady, Woken, seeds},
};

use self::waiting::{Sleeper, has_room};
use super::*;
use crate::{Selection, Servers};

const BODY: usize = 5;

/// A server, and the connection to it.
#[derive(Default)]
struct Server {
    stored: Vec<(String, Vec<u8>)>,
    is_down: bool,
    refuses: bool,
    is_connected: bool,
    connection: Connection,
    io: Io<Error>,
}

#[derive(Default)]
struct Connection {
    received: Vec<u8>,
    used: String,
    replies: VecDeque<String>,
}

const LIMITS: &str = "---\nmax-job-size: 1000\n";

impl Server {
    fn connect(&mut self) {
        self.is_connected = true;
        self.connection = Connection { used: "default".to_owned(), ..Connection::default() };
    }

    /// Takes bytes, and executes the complete commands.
    fn receive(&mut self, bytes: &[u8]) {
        let connection = &mut self.connection;
        connection.received.extend_from_slice(bytes);
        loop {
            let Some(end) = connection.received.windows(2).position(|two| two == b"\r\n") else {
                return;
            };
            let line = String::from_utf8(connection.received[..end].to_vec()).unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let mut taken = end + 2;
            let reply = match words[..] {
                ["stats"] => format!("OK {}\r\n{LIMITS}\r\n", LIMITS.len()),
                ["use", tube] => {
                    connection.used = tube.to_owned();
                    format!("USING {tube}\r\n")
                }
                ["put", "1024", "0", "60", size] => {
                    let size: usize = size.parse().unwrap();
                    let Some(body) = connection.received.get(taken..taken + size + 2) else {
                        return;
                    };
                    assert!(body.ends_with(b"\r\n"));
                    taken += size + 2;
                    if self.refuses {
                        "DRAINING\r\n".to_owned()
                    } else {
                        self.stored.push((connection.used.clone(), body[..size].to_vec()));
                        format!("INSERTED {}\r\n", self.stored.len())
                    }
                }
                _ => panic!("the server got {line:?}"),
            };
            connection.replies.push_back(reply);
            connection.received.drain(..taken);
        }
    }
}

/// The lane of a server, polled twice each time.
struct Lane<'a>(&'a mut Outbox, usize);

impl Role for Lane<'_> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        self.0.exchange(self.1, io, now)
    }
}

fn bring(io: &mut Io<Error>, bytes: &[u8]) {
    for piece in bytes.chunks(64) {
        io.space()[..piece.len()].copy_from_slice(piece);
        io.came(piece.len());
    }
}

/// A put, and what its caller knows about it.
struct Job {
    slot: Option<SlotId>,
    tube: String,
    body: Vec<u8>,
    delivery: Delivery,
    outcome: Option<Result<Inserted>>,
}

struct World {
    outbox: Outbox,
    now: Instant,
    servers: Vec<Server>,
    jobs: Vec<Job>,
}

fn options(servers: usize, selection: Selection) -> ProducerOptions {
    let names = (0..servers).map(|n| format!("host{n}"));
    let servers = Servers::new(names).unwrap().selection(selection);
    ProducerOptions::from(servers).max_jobs(20).seed(1)
}

impl World {
    fn new(servers: usize, selection: Selection, probes: Probes) -> Self {
        World::of(options(servers, selection), probes)
    }

    fn of(options: ProducerOptions, probes: Probes) -> Self {
        let options = options.checked().unwrap();
        World {
            outbox: Outbox::new(&options, probes),
            now: Instant::now(),
            servers: options.servers.options().iter().map(|_| Server::default()).collect(),
            jobs: Vec::new(),
        }
    }

    /// These servers do not answer, until they are up again.
    fn down(mut self, servers: &[usize]) -> Self {
        servers.iter().for_each(|server| self.servers[*server].is_down = true);
        self
    }

    fn put(&mut self, tube: u8, delivery: Delivery, timeout: u64) {
        let tube = format!("tube{tube}");
        let body = format!("{:0BODY$}", self.jobs.len()).into_bytes();
        let put = Put::new(&body, crate::PutOptions::default()).unwrap();
        let name = tube.as_str().try_into().unwrap();
        let timeout = Duration::from_secs(timeout);
        let policy = Policy { delivery, timeout, retries: true, key: Some(self.jobs.len() as u64) };
        let deadline = Some(self.now + timeout);
        if let Some(slot) = self.outbox.offer(&put, &name, &policy, deadline, self.now).unwrap() {
            let slot = Some(slot);
            self.jobs.push(Job { slot, tube, body, delivery, outcome: None });
        }
    }

    /// The connection breaks.
    fn breaks(&mut self, server: usize) {
        self.turn(server, 0, 0);
        if self.servers[server].is_connected {
            self.end(server, End::Lost(std::io::ErrorKind::ConnectionReset.into()));
        }
        self.collect();
    }

    /// Polls the lane of a server, and closes what it wants closed.
    fn ask(&mut self, server: usize) -> Pulse {
        let place = &mut self.servers[server];
        let pulse = Steady(Lane(&mut self.outbox, server)).exchange(&mut place.io, self.now);
        match pulse {
            Pulse::Close(_) | Pulse::Over => {
                place.io.closed();
                place.is_connected = false;
            }
            Pulse::Look | Pulse::Peek => {
                place.io.looked(self.now);
                return self.ask(server);
            }
            _ => {}
        }
        place.io.wake.drain(..).for_each(Waker::wake);
        pulse
    }

    fn end(&mut self, server: usize, why: End<Error>) {
        self.servers[server].is_connected = false;
        self.servers[server].io.ended(why);
        self.ask(server);
    }

    /// The stream takes this number of bytes, and this number of replies in flight arrive.
    fn move_bytes(&mut self, server: usize, takes: usize, arrives: usize) {
        let place = &mut self.servers[server];
        let arrived: Vec<String> =
            (0..arrives).map_while(|_| place.connection.replies.pop_front()).collect();
        let taken = place.io.unsent()[..takes.min(place.io.unwritten())].to_vec();
        place.io.took(taken.len(), self.now);
        place.receive(&taken);
        arrived.iter().for_each(|reply| bring(&mut place.io, reply.as_bytes()));
        self.ask(server);
    }

    /// One turn of the driver of a server's bytes. A reachable server is connected and greeted in one turn.
    fn turn(&mut self, server: usize, takes: usize, arrives: usize) {
        let place = &self.servers[server];
        if place.is_connected && place.is_down {
            self.end(server, End::Lost(std::io::ErrorKind::ConnectionReset.into()));
        } else if place.is_connected {
            self.move_bytes(server, takes, arrives);
        } else if let Pulse::Dial { .. } = self.ask(server) {
            if self.servers[server].is_down {
                let error = Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
                return self.end(server, End::NotConnected(error));
            }
            let place = &mut self.servers[server];
            place.connect();
            place.io.opened();
            self.ask(server);
            self.move_bytes(server, usize::MAX, 0);
            self.move_bytes(server, 0, 1);
        }
    }

    /// Connects, and has everything written that waits. No answer to it arrives.
    fn write(&mut self, server: usize) {
        for takes in [0, 0, usize::MAX] {
            self.turn(server, takes, 0);
        }
    }

    /// Turns of all drivers, in which everything moves.
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            (0..self.servers.len()).for_each(|server| self.turn(server, usize::MAX, usize::MAX));
        }
    }

    /// Takes the answers that have arrived.
    fn collect(&mut self) {
        for job in &mut self.jobs {
            let Some(slot) = job.slot else { continue };
            if let Poll::Ready(outcome) = self.outbox.poll_answer(slot, Waker::noop()) {
                job.slot = None;
                job.outcome = Some(outcome);
            }
        }
    }

    /// Lets everything finish.
    fn settle(&mut self) {
        for server in &mut self.servers {
            server.is_down = false;
            server.refuses = false;
        }
        for _ in 0..10_000 {
            for server in 0..self.servers.len() {
                self.turn(server, usize::MAX, usize::MAX);
            }
            self.collect();
            if self.outbox.room.jobs == 0 {
                return;
            }
            self.now += Duration::from_millis(20);
        }
        panic!("{:?}", self.outbox);
    }

    fn check(&self) {
        let mut copies: HashMap<&[u8], Vec<&str>> = HashMap::new();
        for (tube, body) in self.servers.iter().flat_map(|server| &server.stored) {
            copies.entry(body).or_default().push(tube);
        }
        for job in &self.jobs {
            let stored = copies.get(&job.body[..]).map_or(&[][..], |found| &found[..]);
            assert!(stored.iter().all(|tube| *tube == job.tube), "{stored:?} is not {}", job.tube);
            let count = stored.len();
            match (&job.outcome, job.delivery) {
                (Some(Ok(_)), Delivery::AtMostOnce) => assert_eq!(count, 1, "acknowledged"),
                (Some(Ok(_)), Delivery::AtLeastOnce) => assert!(count >= 1, "acknowledged"),
                (Some(Err(error)), delivery) => match error.fate() {
                    Fate::NotSent | Fate::Refused => assert_eq!(count, 0, "{error}"),
                    Fate::Unknown if delivery == Delivery::AtMostOnce => assert!(count <= 1),
                    _ => {}
                },
                (None, Delivery::AtMostOnce) => assert!(count <= 1, "abandoned"),
                (None, Delivery::AtLeastOnce) => {}
            }
            assert!(job.slot.is_none(), "every put has its answer");
        }
        let report = self.outbox.report();
        let over = report.inserted + report.refused + report.not_sent + report.unknown;
        assert_eq!((report.accepted, report.accepted), (self.jobs.len() as u64, over));
        assert_eq!((report.queued_jobs, report.queued_bytes), (0, 0));
        assert!(self.outbox.barrier.is_clear());
    }
}

/// `use tube0`, and a put of five bytes.
const FRAMES: usize = "use tube0\r\n".len() + "put 1024 0 60 5\r\n00000\r\n".len();

/// B1 and B2.
#[test]
fn a_put_whose_connection_breaks_at_any_byte_has_the_fate_of_its_last_byte() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
        for takes in 0..=FRAMES {
            let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
            world.turn(0, 0, 0);
            world.put(0, delivery, 60);
            // Connects; gets the bytes to write; writes a part of them.
            for taken in [0, 0, takes] {
                world.turn(0, taken, 0);
            }
            world.breaks(0);
            world.settle();
            world.check();
            let is_sent = takes == FRAMES;
            let outcome = world.jobs[0].outcome.take().unwrap();
            match (is_sent, delivery) {
                (true, Delivery::AtMostOnce) => {
                    assert_eq!(outcome.unwrap_err().fate(), Fate::Unknown);
                    assert_eq!(world.servers[0].stored.len(), 1);
                }
                (true, Delivery::AtLeastOnce) => {
                    let _ = outcome.unwrap();
                    assert_eq!(world.servers[0].stored.len(), 2, "a duplicate at most");
                }
                (false, _) => {
                    let _ = outcome.unwrap();
                    assert_eq!(world.servers[0].stored.len(), 1, "after {takes} bytes");
                }
            }
        }
    }
}

/// A link that lasts for this number of bytes, again and again: each connection completes something, and no more is
/// sent again than is completed.
#[test]
fn a_flapping_link_makes_progress_and_resends_little() {
    const PUTS: u64 = 20;
    for lives in [FRAMES, 60, 100, 200, 400] {
        let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
        for _ in 0..PUTS {
            world.put(0, Delivery::AtLeastOnce, 600);
        }
        let mut left = 0;
        for _ in 0..1000 {
            if !world.servers[0].is_connected {
                left = lives;
                world.now += Duration::from_millis(200);
                world.turn(0, 0, 0);
                continue;
            }
            let takes = world.servers[0].io.unwritten().min(left);
            world.turn(0, takes, usize::MAX);
            left -= takes;
            if left == 0 {
                world.breaks(0);
            }
        }
        world.settle();
        world.check();
        let report = world.outbox.report();
        assert_eq!(report.inserted, PUTS, "{lives} bytes: {report}");
        // A connection with work in flight has had as much answered, or has one put in flight.
        let (copies, stored) = (report.resent, world.servers[0].stored.len() as u64);
        assert!(copies <= PUTS + report.connections, "{lives} bytes: {report}");
        assert!(stored <= PUTS + copies, "{lives} bytes: {report}");
    }
}

#[test]
fn a_connection_after_a_loss_doubles_its_window_with_each_answer() {
    let frame = (FRAMES - "use tube0\r\n".len()) as u64;
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    for _ in 0..20 {
        world.put(0, Delivery::AtLeastOnce, 600);
    }
    let under_way = |world: &World| world.servers[0].io.unwritten() as u64 / frame;
    world.turn(0, 0, 0);
    world.turn(0, 0, 0);
    assert_eq!(under_way(&world), 20, "nothing was lost yet");
    world.turn(0, usize::MAX, 0);
    world.breaks(0);
    world.now += Duration::from_secs(1);
    world.turn(0, 0, 0);
    // What is written in one turn is answered in the next one.
    let mut seen = Vec::new();
    for _ in 0..14 {
        world.turn(0, usize::MAX, usize::MAX);
        seen.extend(Some(under_way(&world)).filter(|puts| *puts > 0));
    }
    assert_eq!(seen, [1, 1, 2, 4, 8, 4], "behind the answer to `use`");
    world.settle();
    // A connection that is lost with nothing in flight says nothing about the next one.
    world.breaks(0);
    for _ in 0..20 {
        world.put(0, Delivery::AtLeastOnce, 600);
    }
    world.now += Duration::from_secs(1);
    world.turn(0, 0, 0);
    world.turn(0, 0, 0);
    assert_eq!(under_way(&world), 20);
}

#[test]
fn a_put_that_finds_nothing_connected_has_its_server_tried_again() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts).down(&[0]);
    let base = Duration::from_millis(100);
    let mut last = world.now;
    world.put(0, Delivery::AtMostOnce, 3600);
    for attempt in 0..30 {
        world.turn(0, 0, 0);
        let Pulse::Close(Some(_)) = world.ask(0) else { panic!() };
        let until = world.outbox.lanes[0].health.quarantine(world.now).unwrap();
        last = world.now;
        // Without calls, the delays grow.
        world.now = until;
        if attempt > 12 && until > last + 10 * base {
            break;
        }
    }
    world.now = last;
    world.put(0, Delivery::AtMostOnce, 2);
    assert!(matches!(world.ask(0), Pulse::Close(_)), "not sooner than the shortest delay");
    world.now += base;
    world.servers[0].is_down = false;
    world.rounds(4);
    world.collect();
    assert!(world.jobs.iter().all(|job| matches!(job.outcome, Some(Ok(_)))));
}

#[test]
fn a_spare_server_that_was_not_needed_yet_is_better_than_one_that_failed() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts);
    assert_eq!(world.outbox.state(), ConnectionState::Idle);
    world.servers[0].is_down = true;
    world.put(0, Delivery::AtMostOnce, 60);
    world.turn(0, 0, 0);
    let states: Vec<_> = world.outbox.report().servers.iter().map(|server| server.state).collect();
    assert_eq!(states, [ConnectionState::Backoff, ConnectionState::Idle]);
    assert_eq!(world.outbox.state(), ConnectionState::Idle);
}

#[test]
fn waiters_get_room_in_order() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    for _ in 0..20 {
        world.put(0, Delivery::AtMostOnce, 60);
    }
    let timeout = 5 * SECOND;
    let due = Some(world.now + timeout);
    assert!(world.offer("tube0", b"x", &policy()).unwrap().is_none());
    let places = [0; 3].map(|_| world.stand_in_line(1, due));
    world.outbox.abandon(places[0]);
    assert!(has_room(&mut world, places[1], 1).is_none());
    // One answer, after that to `use`, makes room for one put.
    for (takes, arrives) in [(0, 0), (0, 0), (usize::MAX, 0), (0, 2)] {
        world.turn(0, takes, arrives);
    }
    assert!(has_room(&mut world, places[2], 1).is_none());
    assert!(has_room(&mut world, places[1], 1).unwrap().is_ok());
    assert!(has_room(&mut world, places[2], 1).is_none());
    // Callers whose time is over are informed.
    world.now += timeout;
    world.turn(0, 0, 0);
    let error = has_room(&mut world, places[2], 1).unwrap().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (overdue_kind(), Fate::NotSent));
    assert!(error.to_string().contains("queue was full"), "{error}");
    world.settle();
    assert_eq!(world.servers[0].stored.len(), 21, "without the one whose time was over");
}

#[test]
fn a_caller_that_queues_for_room_that_is_free_by_then_gets_it() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    let place = world.stand_in_line(1, None);
    assert!(has_room(&mut world, place, 1).unwrap().is_ok());
    world.settle();
}

fn overdue_kind() -> ErrorKind {
    ErrorKind::Timeout(crate::Deadline::Total)
}

#[test]
fn a_put_without_a_server_fails_with_the_reason() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts).down(&[0]);
    world.put(0, Delivery::AtMostOnce, 3);
    for _ in 0..40 {
        world.turn(0, 0, 0);
        world.collect();
        world.now += Duration::from_millis(100);
    }
    let error = world.failure(0);
    assert_eq!((error.kind(), error.fate()), (overdue_kind(), Fate::NotSent));
    assert!(error.to_string().ends_with("refused"), "{error}");
    world.settle();
    assert!(world.servers[0].stored.is_empty(), "nothing is sent after that");
}

#[test]
fn a_put_that_a_draining_server_refuses_waits_for_a_server_that_is_only_away() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts);
    world.servers[0].refuses = true;
    let turns = |world: &mut World| {
        world.rounds(8);
        world.collect();
    };
    world.put(0, Delivery::AtMostOnce, 60);
    turns(&mut world);
    assert_eq!(world.servers[1].stored.len(), 1);
    // After its time, the draining one is asked again.
    world.now += Duration::from_secs(11);
    world.servers[1].is_down = true;
    turns(&mut world);
    world.put(0, Delivery::AtMostOnce, 60);
    turns(&mut world);
    assert!(world.jobs[1].outcome.is_none(), "{:?}", world.jobs[1].outcome);
    world.servers[1].is_down = false;
    world.now += Duration::from_secs(11);
    turns(&mut world);
    assert!(matches!(world.jobs[1].outcome, Some(Ok(_))), "{:?}", world.jobs[1].outcome);
    assert_eq!(world.servers[1].stored.len(), 2);
}

/// A server that may be tried again takes its own puts back when another one has been connected.
#[test]
fn a_put_on_the_same_server_is_not_reported_as_moved() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts).down(&[0, 1]);
    world.outbox.want_connections();
    world.turn(1, 0, 0);
    world.put(0, Delivery::AtMostOnce, 60);
    world.turn(0, 0, 0);
    while queued(&world.outbox) != [1, 0] {
        world.now += Duration::from_millis(200);
        world.turn(1, 0, 0);
    }
    let moved = world.outbox.report().moved;
    world.now += Duration::from_secs(11);
    world.servers[1].is_down = false;
    world.turn(1, 0, usize::MAX);
    assert_eq!((world.outbox.report().connections, queued(&world.outbox)), (1, vec![1, 0]));
    assert_eq!(world.outbox.report().moved, moved);
}

/// Number of puts in each lane.
fn queued(outbox: &Outbox) -> Vec<usize> {
    outbox.lanes.iter().map(|lane| lane.log.queued_puts().count()).collect()
}

#[test]
fn a_failed_use_never_misroutes_puts_silently() {
    for answer in ["OUT_OF_MEMORY\r\n", "USING tube\r\n"] {
        let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
        world.put(0, Delivery::AtMostOnce, 60);
        world.write(0);
        world.servers[0].connection.replies[0] = answer.to_owned();
        world.turn(0, 0, 2);
        let error = world.failure(0);
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Protocol, Fate::Unknown));
        assert!(!world.servers[0].is_connected);
    }
}

/// Each attempt would put copies into the tube that was used before.
#[test]
fn puts_wait_for_the_answer_to_a_use_that_was_refused() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    for _ in 0..10 {
        world.put(0, Delivery::AtLeastOnce, 600);
    }
    for _ in 0..5 {
        world.write(0);
        world.servers[0].connection.replies[0] = "OUT_OF_MEMORY\r\n".to_owned();
        world.turn(0, 0, 1);
        assert!(!world.servers[0].is_connected);
        world.now += Duration::from_secs(60);
    }
    assert_eq!(world.servers[0].stored.len(), 10, "in front of the first refusal");
    world.settle();
    assert_eq!(world.servers[0].stored.len(), 20);
    assert!((0..10).all(|job| world.has(job)));
}

/// Idle cost: once everything has its answer, nothing is sent, and after the last deadline nothing wakes.
#[test]
fn an_idle_producer_sends_nothing() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    for _ in 0..3 {
        world.put(0, Delivery::AtLeastOnce, 60);
    }
    world.settle();
    let start = world.now;
    let sent = world.servers[0].io.sent();
    let mut wakes = 0;
    while let Some(at) = world.ask(0).until() {
        (world.now, wakes) = (at, wakes + 1);
        assert!(wakes < 3 && at <= start + Duration::from_secs(60), "it wakes at {at:?}");
    }
    assert_eq!(world.ask(0), Pulse::Rest(None));
    let io = &world.servers[0].io;
    assert!(io.is_drained() && io.sent() == sent, "it says {:?}", io.unsent());
    assert!(world.outbox.report().connections == 1, "it has its connection");
}

/// A caller that puts one job after the other does not pay for a check, and one that returns later does.
#[test]
fn an_idle_connection_is_checked_before_use() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    let look = |world: &mut World| {
        let place = &mut world.servers[0];
        Steady(Lane(&mut world.outbox, 0)).exchange(&mut place.io, world.now) == Pulse::Peek
    };
    world.put(0, Delivery::AtMostOnce, 60);
    world.settle();
    world.put(0, Delivery::AtMostOnce, 60);
    assert!(!look(&mut world), "it was just used");
    world.settle();
    world.now += 2 * lane::IDLE;
    world.put(0, Delivery::AtMostOnce, 60);
    assert!(look(&mut world) && world.servers[0].io.is_drained());
    // A thread that has written may not run for a while, and then the answer is waiting.
    world.servers[0].io.looked(world.now);
    assert!(!look(&mut world));
    // Nor may it run for a while between the check and the write: it would check again and again, and never write.
    world.now += 2 * lane::IDLE;
    assert!(!look(&mut world), "it was just checked");
    world.now += lane::CHECKED;
    assert!(look(&mut world), "that was long ago");
    world.servers[0].io.looked(world.now);
    assert!(!look(&mut world));
    world.move_bytes(0, usize::MAX, 0);
    world.now += 2 * lane::IDLE;
    assert!(!look(&mut world), "an answer is on its way");
    world.settle();
    world.check();
}

#[test]
fn a_lane_without_its_task_fails_puts_by_their_sent_bytes() {
    let mut world = World::new(1, Selection::InOrder, Probes::InBackground);
    world.outbox.claim(0);
    world.put(0, Delivery::AtLeastOnce, 60);
    world.turn(0, 0, 0);
    world.turn(0, usize::MAX, 0);
    world.put(0, Delivery::AtMostOnce, 60);
    world.servers[0].io.abandoned();
    assert_eq!(world.ask(0), Pulse::Over);
    world.collect();
    let fates: Vec<_> =
        world.jobs.iter_mut().map(|job| job.outcome.take().unwrap().unwrap_err().fate()).collect();
    assert_eq!(fates, [Fate::Unknown, Fate::NotSent]);
    let refused = world.outbox.poll_closed(Waker::noop());
    assert!(refused.is_ready() && world.outbox.report().accepted == 2);
}

/// How most puts are treated.
fn policy() -> Policy {
    let timeout = Duration::from_secs(60);
    Policy { delivery: Delivery::AtMostOnce, timeout, retries: true, key: None }
}

impl World {
    /// A put of this body into a tube, which is not noted.
    fn offer(&mut self, tube: &str, body: &[u8], policy: &Policy) -> Result<Option<SlotId>> {
        let put = Put::new(body, crate::PutOptions::default()).unwrap();
        let deadline = Some(self.now + policy.timeout);
        self.outbox.offer(&put, &tube.try_into().unwrap(), policy, deadline, self.now)
    }

    fn answer(&mut self, slot: SlotId) -> Option<Result<Inserted>> {
        match self.outbox.poll_answer(slot, Waker::noop()) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// A caller with a put of this size that waits for room.
    fn stand_in_line(&mut self, size: usize, due: Option<Instant>) -> SlotId {
        let put = Put::new(vec![b'x'; size], crate::PutOptions::default()).unwrap();
        self.outbox.stand_in_line(&put, (&policy(), due), Waker::noop())
    }

    /// The error that a put has got.
    fn failure(&mut self, job: usize) -> Error {
        self.collect();
        self.jobs[job].outcome.take().unwrap().unwrap_err()
    }

    fn has(&mut self, job: usize) -> bool {
        self.collect();
        matches!(self.jobs[job].outcome, Some(Ok(_)))
    }

    /// Connects to a server that answers the greeting like this.
    fn greet(&mut self, server: usize, answer: &str) {
        assert!(matches!(self.ask(server), Pulse::Dial { .. }));
        let place = &mut self.servers[server];
        place.connect();
        place.io.opened();
        self.ask(server);
        self.move_bytes(server, usize::MAX, 0);
        self.servers[server].connection.replies[0] = answer.to_owned();
        self.move_bytes(server, 0, 1);
    }

    /// The next pulse of a lane, without obeying it.
    fn pulse(&mut self, server: usize) -> Pulse {
        let place = &mut self.servers[server];
        Steady(Lane(&mut self.outbox, server)).exchange(&mut place.io, self.now)
    }

    /// The bytes that wait to be written.
    fn unsent(&self, server: usize) -> String {
        String::from_utf8(self.servers[server].io.unsent().to_vec()).unwrap()
    }

    fn events(&mut self) -> Vec<String> {
        let events = self.outbox.take_events();
        events.into_iter().map(|(server, what)| format!("{server} {what}")).collect()
    }
}

fn text(yaml: &str) -> String {
    format!("OK {}\r\n{yaml}\r\n", yaml.len())
}

const SECOND: Duration = Duration::from_secs(1);

/// The only lane of an outbox, with what its callers know.
impl Role for World {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        self.now = now;
        self.outbox.exchange(0, io, now)
    }
}

impl Peer for Server {
    fn connected(&mut self) {
        self.connect();
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        self.receive(bytes);
        self.connection.replies.drain(..).for_each(|reply| answer.extend(reply.into_bytes()));
        true
    }
}

#[test]
fn each_put_gets_its_fate_on_any_schedule_and_network() {
    for seed in seeds(300) {
        let mut random = queue_core::Random::new(seed);
        let probes = if seed % 2 == 0 { Probes::ByPuts } else { Probes::InBackground };
        let world = World::new(1, Selection::InOrder, probes);
        let refuse = || Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        let mut proof = Proof::new(world, Server::default(), refuse, seed);
        proof.faults = Faults { broken: 12, refused: 4, dropped: 6, late: 200 };
        for _ in 0..200 {
            proof.step();
            let world = &mut proof.role.0;
            if world.jobs.len() < 30 && random.one_in(3) {
                let delivery = [Delivery::AtMostOnce, Delivery::AtLeastOnce][random.below(2)];
                world.put(random.below(2) as u8, delivery, 1 + random.below(600) as u64);
            }
            world.collect();
        }
        // All faults end, and then everything has to finish.
        proof.faults = Faults::default();
        let mut steps = 0;
        while proof.role.0.outbox.room.jobs > 0 {
            proof.step();
            proof.role.0.collect();
            steps += 1;
            assert!(steps < 100_000, "seed {seed}: {:?}", proof.role.0.outbox);
        }
        proof.role.0.collect();
        std::mem::swap(&mut proof.role.0.servers[0], &mut proof.peer);
        proof.role.0.check();
    }
}
