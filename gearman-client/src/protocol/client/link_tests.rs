//! Tests of the client role, without sockets and clocks.

use std::{
    collections::HashMap,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::BytesMut;
use queue_core::{
    End, Pulse, Random,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::{InboxItem, Link, answer};
use crate::{
    ClientEventKind, ConnectOptions, ConnectionState, Deadline, Error, ErrorKind, Fate,
    FunctionName, JobEvent, RetryPolicy, SubmitOptions,
    protocol::{Echo, Magic, Packet, PacketType, Submit, decoder::tests::requests},
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> ConnectOptions {
    let options: ConnectOptions = "server:1".parse().unwrap();
    options
        .reply_timeout(10 * SECOND)
        .write_timeout(5 * SECOND)
        .retry(RetryPolicy::new(3).seed(7).backoff(SECOND / 100, SECOND))
}

/// A link and its connection, moved by hand.
struct Bench {
    hand: ByHand<Link>,
}

impl Bench {
    fn new(options: ConnectOptions) -> Self {
        Bench { hand: ByHand::new(Link::new(options)) }
    }

    /// One that is connected.
    fn open(options: ConnectOptions) -> Self {
        let mut bench = Bench::new(options);
        bench.hand.opens();
        assert_eq!(bench.turn(), Pulse::Rest(None));
        bench
    }

    fn turn(&mut self) -> Pulse {
        self.hand.turn()
    }

    fn link(&mut self) -> &mut Link {
        &mut self.hand.role.0
    }

    /// A caller wants a connection, which is made.
    fn connects(&mut self) {
        assert!(self.link().poll_room(&mut None, Waker::noop()).is_pending());
        assert!(matches!(self.turn(), Pulse::Dial { .. }));
        self.hand.opens();
        assert_eq!(self.turn(), Pulse::Rest(None));
    }

    /// The connection is lost, and no longer there.
    fn loses(&mut self) {
        self.hand.loses(std::io::ErrorKind::ConnectionReset);
        assert_eq!(self.turn(), Pulse::Close(None));
        self.hand.closes();
    }

    /// An attempt to connect fails.
    fn is_refused(&mut self) {
        assert!(self.link().poll_room(&mut None, Waker::noop()).is_pending());
        assert!(matches!(self.turn(), Pulse::Dial { .. }));
        let refused = Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        self.hand.ends(End::NotConnected(refused));
        assert_eq!(self.turn(), Pulse::Close(None));
    }

    fn is_away(&mut self) -> bool {
        let now = self.hand.now;
        self.link().life.quarantine(now).is_some()
    }

    /// The number of callers that are to be woken.
    fn woken(&self) -> usize {
        self.hand.io().wake.len()
    }

    /// Submits a foreground job.
    fn submit(&mut self) -> u32 {
        let link = self.link();
        assert!(link.poll_room(&mut None, Waker::noop()).is_ready());
        let slot = link.slots.open(false);
        let function = FunctionName::try_from("f").unwrap();
        let submit = Submit::foreground(function, "w", SubmitOptions::default()).unwrap();
        link.send(&submit, slot, 0);
        slot
    }

    fn echo(&mut self, text: &str) -> u32 {
        let link = self.link();
        assert!(link.poll_room(&mut None, Waker::noop()).is_ready());
        let slot = link.slots.open(false);
        link.send(&Echo(text), slot, 0);
        slot
    }

    /// What is written, as packets.
    fn written(&mut self) -> Vec<PacketType> {
        requests(&self.hand.takes_all()).iter().map(|packet| packet.packet_type).collect()
    }

    /// What goes out with a turn.
    fn goes_out(&mut self) -> Vec<PacketType> {
        self.turn();
        self.written()
    }

    fn comes(&mut self, packet_type: PacketType, arguments: &[&str]) {
        let mut wire = BytesMut::new();
        Packet::new(Magic::Response, packet_type, arguments).unwrap().encode(&mut wire);
        self.hand.comes(&wire);
    }

    fn item(&mut self, slot: u32) -> Option<InboxItem> {
        match self.link().slots.poll(slot, Waker::noop()) {
            Poll::Ready((_, item, _)) => Some(item),
            Poll::Pending => None,
        }
    }

    fn lost(&mut self, slot: u32) -> (ErrorKind, Fate) {
        match self.item(slot) {
            Some(InboxItem::Lost(error)) => (error.kind(), error.fate()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_that_leaves_a_caller_waiting_is_doubtful_until_it_answers() {
    let mut bench = Bench::open(options());
    bench.link().outwaited();
    assert!(!bench.link().is_doubtful(), "nothing was asked");
    let slot = bench.echo("one");
    bench.turn();
    bench.link().slots.leave(slot);
    assert!(!bench.link().is_doubtful(), "nobody has waited in vain");
    bench.link().outwaited();
    assert!(bench.link().is_doubtful());
    bench.comes(PacketType::EchoRes, &["one"]);
    bench.turn();
    assert!(!bench.link().is_doubtful());
}

#[test]
fn requests_of_all_callers_go_out_behind_the_greeting_in_one_write() {
    let mut bench = Bench::open(options());
    assert!(bench.written().is_empty(), "nobody asks for anything");
    let (one, two) = (bench.echo("one"), bench.echo("two"));
    assert!(bench.link().wakes_pump());
    assert_eq!(bench.turn(), Pulse::Go(Some(bench.hand.now + 5 * SECOND)));
    assert!(!bench.link().wakes_pump(), "it knows");
    assert_eq!(bench.written(), [PacketType::OptionReq, PacketType::EchoReq, PacketType::EchoReq]);
    bench.comes(PacketType::OptionRes, &["exceptions"]);
    bench.comes(PacketType::EchoRes, &["one"]);
    bench.comes(PacketType::EchoRes, &["two"]);
    assert_eq!(bench.turn(), Pulse::Rest(None));
    for (slot, text) in [(two, "two"), (one, "one")] {
        let item = bench.item(slot).unwrap();
        let origin = bench.link().origin().clone();
        assert_eq!(answer(&Echo(text), &origin, item).unwrap(), text);
    }
}

#[test]
fn a_caller_without_a_connection_hears_of_the_attempt_that_began_with_it() {
    let mut bench = Bench::new(options());
    assert_eq!(bench.turn(), Pulse::Close(None), "nobody wants a connection");
    let mut seen = None;
    assert!(bench.link().poll_room(&mut seen, Waker::noop()).is_pending());
    assert!(bench.link().wakes_pump());
    assert!(
        bench.link().life.claim() && !bench.link().life.claim(),
        "one of them has to see to it"
    );
    assert_eq!(
        bench.turn(),
        Pulse::Dial { server: 0, by: Some(bench.hand.now + 5 * SECOND), ask: None }
    );
    bench.hand.ends(End::NotConnected(Error::new(ErrorKind::Connect, Fate::NotSent, "refused")));
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.woken(), 1);
    let now = bench.hand.now;
    assert!(bench.link().life.quarantine(now).is_some());
    let Poll::Ready(Err(error)) = bench.link().poll_room(&mut seen, Waker::noop()) else {
        panic!()
    };
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    // A caller that arrives now tries it anyway, because it has no other.
    assert!(bench.link().poll_room(&mut None, Waker::noop()).is_pending());
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
}

/// Even a new connection is doubtful until a request is answered, which need not be a caller's.
#[test]
fn a_server_that_left_a_request_unanswered_is_doubtful_until_it_answers_a_probe() {
    let mut bench = Bench::open(options());
    let falls_silent = |bench: &mut Bench| {
        bench.hand.now += 10 * SECOND;
        assert_eq!(bench.turn(), Pulse::Look);
        bench.hand.looked();
        assert_eq!(bench.turn(), Pulse::Close(None));
        bench.hand.closes();
        assert!(bench.link().is_doubtful());
    };
    bench.link().probe();
    assert!(matches!(bench.turn(), Pulse::Rest(_)), "a server that is good is not asked");
    let slot = bench.echo("anybody?");
    bench.goes_out();
    bench.turn();
    falls_silent(&mut bench);
    assert_eq!(bench.lost(slot), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
    for answers in [false, true] {
        bench.connects();
        assert!(bench.link().is_doubtful());
        for _ in 0..2 {
            bench.link().probe();
        }
        let written = bench.goes_out();
        let probes = written.iter().filter(|packet| **packet == PacketType::GetStatus);
        assert_eq!(probes.count(), 1);
        bench.turn();
        match answers {
            false => falls_silent(&mut bench),
            true => {
                bench.comes(PacketType::StatusRes, &["H:nobody:0", "0", "0", "0", "0"]);
                bench.turn();
            }
        }
    }
    assert!(!bench.link().is_doubtful());
    assert_eq!(bench.link().slots.in_use(), 1, "only the first caller's, which it has not left");
}

#[test]
fn a_closing_connection_serves_no_caller_and_is_replaced() {
    let mut bench = Bench::open(options());
    let slot = bench.echo("one");
    bench.goes_out();
    let origin = bench.link().origin().clone();
    bench.link().disconnect(origin.epoch, &Error::protocol("out of step"));
    let mut seen = None;
    assert!(bench.link().poll_room(&mut seen, Waker::noop()).is_pending());
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.lost(slot), (ErrorKind::Protocol, Fate::Unknown));
    assert!(bench.link().poll_room(&mut seen, Waker::noop()).is_pending(), "not its connection");
    assert!(!bench.link().life.claim(), "its pump is still there");
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
    bench.hand.closes();
    bench.hand.opens();
    bench.turn();
    bench.link().disconnect(origin.epoch, &Error::protocol("out of step"));
    assert!(bench.link().is_open(), "another connection");
}

#[test]
fn while_many_are_on_their_way_the_next_ones_wait_for_company() {
    let mut bench = Bench::open(options());
    for n in 0..16 {
        bench.echo(&n.to_string());
    }
    assert_eq!(bench.goes_out().len(), 17);
    bench.echo("next");
    let Pulse::Go(Some(until)) = bench.turn() else { panic!() };
    assert!(bench.hand.io().is_drained() && until < bench.hand.now + SECOND);
    bench.echo("company");
    assert!(!bench.link().wakes_pump(), "the pump looks for itself");
    bench.hand.now = until;
    assert_eq!(bench.goes_out(), [PacketType::EchoReq; 2]);
    // They do not wait for more than are on their way.
    for n in 1..=18 {
        assert!(bench.hand.io().is_drained(), "{n}");
        bench.echo(&n.to_string());
        bench.turn();
    }
    assert_eq!(bench.written(), [PacketType::EchoReq; 18]);
}

#[test]
fn callers_wake_for_connections_events_and_room() {
    let mut bench = Bench::new(options().exceptions(false));
    bench.connects();
    assert_eq!(bench.woken(), 1, "it waited for the connection");
    let slot = bench.echo("one");
    assert!(bench.item(slot).is_none());
    bench.goes_out();
    assert_eq!(bench.woken(), 0);
    bench.comes(PacketType::EchoRes, &["one"]);
    bench.turn();
    assert_eq!(bench.woken(), 1, "it waited for its answer");
    bench.echo(&"x".repeat((1 << 20) - 12));
    assert!(!bench.link().has_room());
    assert!(bench.link().poll_room(&mut None, Waker::noop()).is_pending());
    bench.turn();
    assert_eq!(bench.woken(), 1, "it waited for room");
    assert!(bench.link().has_room());
}

#[test]
fn a_refusal_or_an_early_event_is_not_an_answer() {
    let origin = Bench::new(options()).link().origin().clone();
    let full = Packet::new(Magic::Response, PacketType::Error, &["QUEUE_ERROR", "full"]).unwrap();
    let refused = answer(&Echo("hi"), &origin, InboxItem::Answer(full)).unwrap_err();
    assert_eq!((refused.kind(), refused.command()), (ErrorKind::QueueFull, Some("ECHO_REQ")));
    let early = answer(&Echo("hi"), &origin, InboxItem::Event(JobEvent::Fail)).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Protocol);
}

#[test]
fn a_link_over_one_stream_ends_with_it() {
    let now = queue_core::now();
    let mut bench = Bench { hand: ByHand::new(Link::for_stream(options())) };
    assert!(!bench.link().life.claim(), "its pump is there");
    assert_eq!(bench.turn(), Pulse::Close(None), "it makes no connection");
    bench.hand.opens();
    assert_eq!(bench.turn(), Pulse::Rest(None));
    assert_eq!(bench.link().connection_state(now), ConnectionState::Ready);
    bench.loses();
    assert_eq!(bench.link().connection_state(now), ConnectionState::Closed);
    let Poll::Ready(Err(error)) = bench.link().poll_room(&mut None, Waker::noop()) else {
        panic!("there is no other")
    };
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
    assert!(error.to_string().contains("cannot reconnect"), "{error}");
}

#[test]
fn the_state_of_a_connection_is_reported() {
    let mut bench = Bench::new(options());
    let state = |bench: &mut Bench| {
        let now = bench.hand.now;
        bench.link().connection_state(now)
    };
    assert_eq!(state(&mut bench), ConnectionState::Idle);
    bench.is_refused();
    assert_eq!(state(&mut bench), ConnectionState::Backoff);
    bench.hand.now += SECOND;
    assert_eq!(state(&mut bench), ConnectionState::Idle);
    assert!(bench.link().poll_room(&mut None, Waker::noop()).is_pending());
    assert_eq!(state(&mut bench), ConnectionState::Connecting);
    bench.hand.opens();
    bench.turn();
    assert_eq!(state(&mut bench), ConnectionState::Ready);
    bench.loses();
    bench.link().close();
    assert_eq!(state(&mut bench), ConnectionState::Closed);
}

#[test]
fn a_server_is_doubtful_after_a_failure_and_while_it_takes_longer_than_a_caller_waits() {
    let mut bench = Bench::new(options());
    bench.link().outwaited();
    assert!(!bench.link().is_doubtful(), "nobody waits for it");
    assert!(bench.link().poll_room(&mut None, Waker::noop()).is_pending());
    assert!(!bench.link().is_doubtful());
    bench.link().outwaited();
    assert!(bench.link().is_doubtful());
    bench.hand.opens();
    bench.turn();
    assert!(!bench.link().is_doubtful());
    bench.link().outwaited();
    bench.loses();
    assert!(!bench.link().is_doubtful(), "one connection may be unlucky");
    bench.is_refused();
    bench.hand.now += SECOND;
    assert!(bench.link().is_doubtful() && !bench.is_away(), "it is still to be proven");
    bench.connects();
    assert!(!bench.link().is_doubtful());
}

/// A caller of the blocking face may do other things for long, while nothing is read.
#[test]
fn received_data_can_be_read_without_a_request() {
    let mut bench = Bench::new(options());
    assert!(!bench.link().is_looking());
    bench.connects();
    assert!(!bench.link().is_looking());
    bench.hand.now += SECOND;
    let now = bench.hand.now;
    bench.link().look(now);
    assert!(bench.link().is_looking());
    assert_eq!(bench.turn(), Pulse::Look);
    bench.hand.looked();
    assert_eq!(bench.turn(), Pulse::Rest(None));
    assert!(!bench.link().is_looking());
    bench.link().look(now + SECOND);
    bench.loses();
    assert!(!bench.link().is_looking(), "nothing more can arrive");
}

#[test]
fn queued_requests_are_news_for_the_pump_until_they_are_handed_over() {
    let mut bench = Bench::open(options());
    assert!(!bench.link().has_news());
    assert_eq!(bench.link().queued(), 0, "the greeting waits for a request");
    bench.echo("hello");
    assert!(bench.link().has_news());
    assert_eq!(bench.link().queued(), 22 + 17);
    bench.turn();
    assert_eq!((bench.link().queued(), bench.link().has_news()), (0, false));
    let epoch = bench.link().origin().epoch;
    bench.link().disconnect(epoch, &Error::protocol("out of step"));
    assert!(bench.link().has_news());
}

#[test]
fn a_new_reply_timeout_applies_from_then_on() {
    let mut bench = Bench::open(options().exceptions(false));
    bench.link().set_reply_timeout(3 * SECOND);
    for _ in 0..2 {
        let slot = bench.echo("hello");
        bench.goes_out();
        assert_eq!(bench.turn(), Pulse::Go(Some(bench.hand.now + 3 * SECOND)));
        bench.loses();
        assert_eq!(bench.lost(slot).1, Fate::Unknown);
        bench.connects();
    }
}

#[test]
fn a_job_has_events_until_its_end() {
    let mut bench = Bench::open(options().exceptions(false));
    let slot = bench.submit();
    bench.goes_out();
    bench.comes(PacketType::JobCreated, &["H:x:1"]);
    bench.comes(PacketType::WorkData, &["H:x:1", "piece"]);
    assert_eq!(bench.turn(), Pulse::Go(None), "the job may take any time");
    assert!(matches!(bench.item(slot), Some(InboxItem::Answer(_))));
    assert!(matches!(bench.item(slot), Some(InboxItem::Event(JobEvent::Data(_)))));
    assert!(!bench.link().slots.is_over(slot));
    bench.comes(PacketType::WorkComplete, &["H:x:1", "result"]);
    assert_eq!(bench.turn(), Pulse::Rest(None));
    assert_eq!((bench.link().slots.waiting(slot), bench.link().slots.is_over(slot)), (1, false));
    assert!(matches!(bench.item(slot), Some(InboxItem::Event(JobEvent::Complete(_)))));
    assert_eq!((bench.link().slots.waiting(slot), bench.link().slots.is_over(slot)), (0, true));
}

#[test]
fn observers_see_connections_and_each_kind_of_failure_once() {
    let mut bench = Bench::new(options().exceptions(false).on_event(|_| {}));
    let reported = |bench: &mut Bench| -> Vec<String> {
        let events = bench.link().take_events().unwrap_or_default();
        let kind = |event: &ClientEventKind| match event {
            ClientEventKind::Connected => "connected".to_owned(),
            ClientEventKind::Disconnected(error) => error.kind().name().to_owned(),
            ClientEventKind::BackingOff(time) => {
                assert!(*time <= SECOND);
                "backing off".to_owned()
            }
            other => panic!("{other}"),
        };
        events.iter().map(kind).collect()
    };
    assert!(bench.link().take_events().is_none());
    for _ in 0..2 {
        bench.is_refused();
        let refused = [ErrorKind::Connect.name(), "backing off"];
        assert_eq!(reported(&mut bench), refused);
        bench.is_refused();
        assert_eq!(reported(&mut bench), ["backing off"]);
        bench.connects();
        assert_eq!(reported(&mut bench), ["connected"]);
        bench.echo("hello");
        bench.goes_out();
        bench.comes(PacketType::EchoRes, &["hello"]);
        bench.turn();
        assert_eq!(reported(&mut bench), [""; 0]);
        bench.loses();
        assert_eq!(reported(&mut bench), [ErrorKind::ConnectionLost.name()]);
    }
    let mut unobserved = Bench::new(options());
    unobserved.is_refused();
    assert!(unobserved.link().take_events().is_none());
}

#[test]
fn an_unused_link_ends() {
    let mut bench = Bench::open(options());
    bench.echo("unread");
    bench.link().close();
    assert!(bench.link().wakes_pump());
    assert_eq!(bench.turn(), Pulse::Over);
    let mut idle = Bench::open(options());
    idle.hand.now += 2 * SECOND;
    idle.echo("unread");
    assert_eq!(idle.turn(), Pulse::Peek);
    idle.link().close();
    assert_eq!(idle.turn(), Pulse::Over, "nobody is left to look for");
    let mut never = Bench::new(options());
    never.link().close();
    assert!(never.link().wakes_pump());
    assert_eq!(never.turn(), Pulse::Over);
}

/// Answers echoes, and runs jobs, which end when the next packet arrives.
#[derive(Default)]
struct Server {
    bytes: Vec<u8>,
    jobs: u32,
    running: Vec<(String, Vec<u8>)>,
    /// How often each body was understood.
    heard: HashMap<Vec<u8>, u32>,
}

impl Peer for Server {
    fn connected(&mut self) {
        (self.bytes, self.running) = (Vec::new(), Vec::new());
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.bytes.extend_from_slice(bytes);
        while let Some(size) = self.bytes.get(8..12) {
            let end = 12 + u32::from_be_bytes(size.try_into().unwrap()) as usize;
            if self.bytes.len() < end {
                break;
            }
            let packet: Vec<u8> = self.bytes.drain(..end).collect();
            self.answer(packet[7], &packet[12..], out);
        }
        true
    }
}

impl Server {
    fn answer(&mut self, number: u8, body: &[u8], out: &mut Vec<u8>) {
        for (handle, result) in std::mem::take(&mut self.running) {
            say(out, 13, &[handle.as_bytes(), b"\0", &result]);
        }
        match number {
            26 => say(out, 27, &[body]),
            16 => {
                *self.heard.entry(body.to_vec()).or_default() += 1;
                say(out, 17, &[body]);
            }
            7 => {
                let workload = body.rsplit(|byte| *byte == 0).next().unwrap().to_vec();
                *self.heard.entry(workload.clone()).or_default() += 1;
                self.jobs += 1;
                let handle = format!("H:proof:{}", self.jobs);
                say(out, 8, &[handle.as_bytes()]);
                self.running.push((handle, workload));
            }
            other => panic!("packet {other}"),
        }
    }
}

fn say(out: &mut Vec<u8>, number: u8, parts: &[&[u8]]) {
    let body = parts.concat();
    out.extend_from_slice(b"\0RES\0\0\0");
    out.push(number);
    out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&body);
}

/// A caller of the proof: an echo or a job.
struct Caller {
    text: String,
    is_job: bool,
    seen: Option<u64>,
    slot: Option<u32>,
    /// Whether it got what it asked for; or the reported fate of that.
    outcome: Option<Result<(), Fate>>,
}

impl Caller {
    fn step(&mut self, link: &mut Link) {
        let Some(slot) = self.slot else {
            match link.poll_room(&mut self.seen, Waker::noop()) {
                Poll::Ready(Ok(())) => self.send(link),
                Poll::Ready(Err(error)) => self.outcome = Some(Err(error.fate())),
                Poll::Pending => {}
            }
            return;
        };
        while let Poll::Ready((_, item, _)) = link.slots.poll(slot, Waker::noop()) {
            assert!(self.outcome.is_none(), "nothing comes behind the end");
            match item {
                InboxItem::Answer(_) if self.is_job => {}
                InboxItem::Answer(packet) => {
                    assert_eq!(packet.body, self.text);
                    self.outcome = Some(Ok(()));
                }
                InboxItem::Event(JobEvent::Complete(result)) => {
                    assert_eq!(result, self.text);
                    self.outcome = Some(Ok(()));
                }
                InboxItem::Lost(error) => self.outcome = Some(Err(error.fate())),
                other => panic!("{other:?}"),
            }
        }
    }

    fn send(&mut self, link: &mut Link) {
        let slot = link.slots.open(false);
        self.slot = Some(slot);
        if self.is_job {
            let function = FunctionName::try_from("f").unwrap();
            let submit = Submit::foreground(function, &self.text, SubmitOptions::default());
            link.send(&submit.unwrap(), slot, 0);
        } else {
            link.send(&Echo(&self.text), slot, 0);
        }
    }
}

/// Every caller gets its own answer or learns of a loss, once; what was not sent was not received, and no slot is lost.
#[test]
fn each_caller_gets_one_outcome_on_any_schedule_and_network() {
    let (mut served, mut gone) = (0, 0);
    for seed in seeds(250) {
        let mut random = Random::new(seed);
        let refused = || Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        let mut proof = Proof::new(Link::new(options()), Server::default(), refused, seed);
        proof.faults = Faults { broken: 15, refused: 4, dropped: 6, late: 80 };
        let mut callers: Vec<Caller> = Vec::new();
        for turn in 0..300 {
            if turn % 4 == 0 {
                let text = format!("{seed}-{turn}");
                let is_job = random.one_in(3);
                callers.push(Caller { text, is_job, seen: None, slot: None, outcome: None });
            }
            let link = &mut proof.role.0;
            callers.iter_mut().filter(|one| one.outcome.is_none()).for_each(|one| one.step(link));
            if random.one_in(40) && !callers.is_empty() {
                let one = callers.swap_remove(random.below(callers.len()));
                one.slot.into_iter().for_each(|slot| link.slots.leave(slot));
                gone += 1;
            }
            proof.step();
        }
        proof.faults = Faults::default();
        let mut steps = 0;
        while callers.iter().any(|one| one.outcome.is_none()) {
            let link = &mut proof.role.0;
            callers.iter_mut().filter(|one| one.outcome.is_none()).for_each(|one| one.step(link));
            // A job ends with any next packet.
            if steps % 50 == 0 && link.poll_room(&mut None, Waker::noop()).is_ready() {
                let slot = link.slots.open(false);
                link.send(&Echo("go on"), slot, 0);
                link.slots.leave(slot);
            }
            proof.step();
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: somebody waits forever");
        }
        for one in &callers {
            served += u32::from(one.outcome == Some(Ok(())));
            let heard = proof.peer.heard.get(one.text.as_bytes()).copied().unwrap_or_default();
            let expected = match one.outcome {
                Some(Ok(())) => 1..=1,
                Some(Err(Fate::NotSent)) => 0..=0,
                _ => 0..=1,
            };
            assert!(
                expected.contains(&heard),
                "seed {seed}: {} {:?} {heard}",
                one.text,
                one.outcome
            );
            one.slot.into_iter().for_each(|slot| proof.role.0.slots.leave(slot));
        }
        // What was left is discarded, and the slots are free.
        while proof.role.0.slots.in_use() > 0 {
            proof.step();
            steps += 1;
            assert!(steps < 30_000, "seed {seed}: a slot is lost");
        }
    }
    assert!(served > 1_000 && gone > 1_000, "{served} of the callers that stayed, {gone} went");
}
