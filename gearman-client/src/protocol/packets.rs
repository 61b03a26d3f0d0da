//! Raw packets on one connection.

use std::{
    collections::VecDeque,
    io::ErrorKind::{NotConnected, UnexpectedEof},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{End, Health, Io, Overdue, Pace, Pulse, Role, earliest};

use super::{Framing, Magic, Packet, packet::HEADER};
use crate::{ConnectOptions, Deadline, Error, Fate, Result, error::lost};

/// A single caller that sends a packet or waits for one. There is one connection: once it is lost, it stays lost.
#[derive(Debug)]
pub(crate) struct PacketSession {
    options: ConnectOptions,
    framing: Framing,
    stage: Stage,
    wish: Option<Wish>,
    /// Bytes not yet handed to the pump.
    frame: BytesMut,
    /// Packets that arrived before the connection was lost during a send; no more than a pump reads ahead.
    left: VecDeque<Packet>,
    overdue: Overdue,
    outcome: Option<Result<Option<Packet>>>,
    health: Health,
    pace: Pace,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    New,
    Open,
    Lost,
}

/// The current goal of the caller.
#[derive(Clone, Copy, Debug)]
struct Wish {
    since: Instant,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A connection.
    Open,
    /// Its packet written. Holds the end offset on the connection, once it was handed to the pump.
    Written(Option<u64>),
    /// The next packet: for how long, and until when, once there is a connection.
    Next(Duration, Option<Instant>),
}

impl PacketSession {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        PacketSession {
            framing: Framing::new(Magic::Response, options.max_packet_size),
            stage: Stage::New,
            wish: None,
            frame: BytesMut::new(),
            left: VecDeque::new(),
            overdue: Overdue::default(),
            outcome: None,
            health: Health::new(options.retry, Some(options.connecting_timeout())),
            pace: Pace::new(None, Some(options.write_timeout)),
            options,
        }
    }

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// Asks for a connection.
    pub(crate) fn open(&mut self, now: Instant) {
        self.want(What::Open, now);
    }

    /// Asks for a packet to be written.
    pub(crate) fn send(&mut self, packet: &Packet, now: Instant) {
        self.want(What::Written(None), now);
        packet.encode(&mut self.frame);
    }

    /// Asks for the next packet.
    pub(crate) fn next(&mut self, timeout: Duration, now: Instant) {
        self.want(What::Next(timeout, None), now);
    }

    fn want(&mut self, what: What, now: Instant) {
        self.frame.clear();
        self.overdue.clear();
        self.outcome = None;
        self.wish = Some(Wish { since: now, what });
    }

    /// The outcome: a packet, if one was asked for and arrived in time.
    pub(crate) fn outcome(&mut self) -> Option<Result<Option<Packet>>> {
        self.outcome.take()
    }

    /// The error of a caller that waits for an outcome without a goal.
    pub(crate) fn over() -> Error {
        lost(NotConnected.into()).with_fate(Fate::NotSent)
    }
}

impl Role for PacketSession {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        if self.health.is_new(io) {
            self.stage = Stage::Open;
            io.limit(HEADER.saturating_add(self.options.max_packet_size));
        }
        self.serve(io);
        self.take_end(io, now);
        if self.wish.is_none() {
            return self.idle();
        }
        match self.stage {
            Stage::New => self.dial(now),
            Stage::Open => self.keep_pace(io, now),
            Stage::Lost => {
                self.settle(Err(Self::over()));
                self.idle()
            }
        }
    }
}

impl PacketSession {
    fn idle(&self) -> Pulse {
        match self.stage {
            Stage::Open => Pulse::Rest(None),
            Stage::New | Stage::Lost => Pulse::Close(None),
        }
    }

    fn settle(&mut self, outcome: Result<Option<Packet>>) {
        self.wish = None;
        self.outcome = Some(outcome);
    }

    /// Queues the packet to write, and looks for a received one.
    fn serve(&mut self, io: &mut Io<Error>) {
        match self.wish.as_mut().map(|wish| &mut wish.what) {
            Some(What::Open) if io.is_open() => self.settle(Ok(None)),
            Some(What::Written(end @ None)) if io.is_open() => {
                let before = io.sent() + io.unwritten() as u64;
                *end = Some(before + self.frame.len() as u64);
                io.queue(&mut self.frame);
            }
            Some(What::Written(Some(end))) if *end <= io.sent() => self.settle(Ok(None)),
            Some(What::Next(..)) if !self.left.is_empty() => {
                let packet = self.left.pop_front();
                self.settle(Ok(packet));
            }
            Some(What::Next(..)) => match self.framing.take(io) {
                Ok(None) => {}
                Ok(packet) => self.settle(Ok(packet)),
                Err(error) => self.lose(error, io),
            },
            _ => {}
        }
    }

    fn take_end(&mut self, io: &mut Io<Error>, now: Instant) {
        // The next call gets the error, after the packets that arrived before it.
        let Some(Wish { since, what }) = self.wish else { return };
        if matches!(what, What::Written(_)) && !io.is_open() {
            while let Ok(Some(packet)) = self.framing.take(io) {
                self.left.push_back(packet);
            }
        }
        match io.take_end() {
            None => {}
            Some(End::NotConnected(_)) if self.health.is_dialing_since_before(since) => {
                // It was started for a call whose caller is gone, and may have ended long ago.
                self.health.lost();
            }
            Some(End::NotConnected(error)) => {
                self.health.failed(now);
                self.settle(Err(error));
            }
            Some(End::Lost(error)) => self.lose(lost(error), io),
            Some(End::Abandoned) => self.lose(lost(UnexpectedEof.into()), io),
        }
    }

    /// Gives the connection up.
    fn lose(&mut self, error: Error, io: &Io<Error>) {
        self.stage = Stage::Lost;
        let is_sent = match self.wish.map(|wish| wish.what) {
            Some(What::Written(end)) => end.is_some_and(|end| end <= io.sent()),
            Some(What::Open) => false,
            Some(What::Next(..)) | None => true,
        };
        self.settle(Err(if is_sent { error } else { error.with_fate(Fate::NotSent) }));
    }

    fn dial(&mut self, now: Instant) -> Pulse {
        if self.health.is_overdue(now) {
            self.health.failed(now);
            self.settle(Err(self.health.overdue().into()));
            return Pulse::Close(None);
        }
        self.health.attempt(0, now)
    }

    fn keep_pace(&mut self, io: &Io<Error>, now: Instant) -> Pulse {
        let Ok(paced) = self.pace.check(io, None, false, now) else {
            self.lose(self.pace.error(Deadline::Write).into(), io);
            return self.idle();
        };
        let Some(Wish { what: What::Next(timeout, until), .. }) = &mut self.wish else {
            return Pulse::Go(paced);
        };
        if until.is_none() {
            *until = now.checked_add(*timeout);
        }
        match *until {
            Some(at) if at <= now && self.overdue.may_be_here(io, now) => Pulse::Look,
            Some(at) if at <= now => {
                self.settle(Ok(None));
                self.idle()
            }
            at => Pulse::Go(earliest([paced, at])),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::ConnectionReset;

    use queue_core::proof::ByHand;

    use super::*;
    use crate::{ErrorKind, protocol::PacketType};

    const SECOND: Duration = Duration::from_secs(1);

    struct Bench(ByHand<PacketSession>);

    impl Bench {
        fn new() -> Self {
            let options: ConnectOptions = "server:1".parse().unwrap();
            Bench(ByHand::new(PacketSession::new(options.write_timeout(SECOND))))
        }

        fn open() -> Self {
            let mut bench = Bench::new();
            bench.0.role.0.open(bench.0.now);
            assert!(matches!(bench.0.turn(), Pulse::Dial { server: 0, by: Some(_), .. }));
            bench.0.opens();
            assert_eq!(bench.0.turn(), Pulse::Rest(None));
            assert_eq!(bench.outcome().unwrap().unwrap(), None);
            bench
        }

        fn send(&mut self) -> Pulse {
            self.0.role.0.send(&packet(Magic::Request, "hi"), self.0.now);
            self.0.turn()
        }

        fn next(&mut self, timeout: Duration) -> Pulse {
            self.0.role.0.next(timeout, self.0.now);
            self.0.turn()
        }

        fn comes(&mut self, body: &str) {
            self.0.comes(&encoded(&packet(Magic::Response, body)));
        }

        fn outcome(&mut self) -> Option<Result<Option<Packet>>> {
            self.0.role.0.outcome()
        }
    }

    fn packet(magic: Magic, body: &str) -> Packet {
        let packet_type = match magic {
            Magic::Request => PacketType::EchoReq,
            _ => PacketType::EchoRes,
        };
        Packet::new(magic, packet_type, &[body]).unwrap()
    }

    fn encoded(packet: &Packet) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        packet.encode(&mut bytes);
        bytes.to_vec()
    }

    #[test]
    fn a_packet_is_sent_once_the_last_of_it_was_taken() {
        let mut bench = Bench::open();
        assert!(matches!(bench.send(), Pulse::Go(Some(_))));
        bench.0.takes(5);
        bench.0.turn();
        assert!(bench.outcome().is_none());
        bench.0.takes_all();
        assert_eq!(bench.0.turn(), Pulse::Rest(None));
        assert_eq!(bench.outcome().unwrap().unwrap(), None);
    }

    /// It is still written, so that the next packet begins where it ends.
    #[test]
    fn a_packet_behind_one_whose_caller_has_gone_is_sent_after_it() {
        let mut bench = Bench::open();
        bench.send();
        bench.0.takes(5);
        bench.send();
        let whole = encoded(&packet(Magic::Request, "hi"));
        assert_eq!(bench.0.unsent(), [&whole[5..], &whole].concat());
        bench.0.takes(2 * whole.len() - 6);
        bench.0.turn();
        assert!(bench.outcome().is_none(), "its last byte is missing");
        bench.0.takes(1);
        bench.0.turn();
        assert_eq!(bench.outcome().unwrap().unwrap(), None);
    }

    #[test]
    fn each_wait_for_a_packet_looks_for_it_at_its_end() {
        let mut bench = Bench::open();
        for body in ["one", "two"] {
            bench.next(SECOND);
            bench.0.now += SECOND;
            assert_eq!(bench.0.turn(), Pulse::Look);
            bench.0.looked();
            bench.0.turn();
            assert_eq!(bench.outcome().unwrap().unwrap(), None);
            bench.next(SECOND);
            bench.0.now += SECOND;
            assert_eq!(bench.0.turn(), Pulse::Look, "it may be here by now");
            bench.comes(body);
            bench.0.turn();
            assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, body);
        }
    }

    #[test]
    fn the_outcome_of_a_call_that_was_dropped_is_not_that_of_the_next() {
        let mut bench = Bench::open();
        bench.send();
        bench.0.takes_all();
        bench.0.turn();
        bench.next(SECOND);
        assert!(bench.outcome().is_none());
    }

    #[test]
    fn what_comes_during_a_send_waits_and_is_bounded() {
        let options: ConnectOptions = "server:1".parse().unwrap();
        let mut bench = Bench(ByHand::new(PacketSession::new(options.max_packet_size(20))));
        bench.send();
        bench.0.opens();
        bench.0.turn();
        bench.comes("one");
        bench.0.turn();
        assert!(!bench.0.io().is_full());
        bench.comes("two, which is longer");
        bench.0.turn();
        assert!(bench.0.io().is_full(), "the rest waits at the server");
        for body in ["one", "two, which is longer"] {
            bench.next(SECOND);
            assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, body);
        }
    }

    #[test]
    fn packets_come_in_order_and_a_part_of_one_is_kept() {
        let mut bench = Bench::open();
        bench.comes("one");
        let two = encoded(&packet(Magic::Response, "two"));
        bench.0.comes(&two[..7]);
        bench.next(SECOND);
        assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, "one");
        assert_eq!(bench.next(SECOND), Pulse::Go(Some(bench.0.now + SECOND)));
        bench.0.now += SECOND;
        assert_eq!(bench.0.turn(), Pulse::Look, "it may be here");
        bench.0.looked();
        assert_eq!(bench.0.turn(), Pulse::Rest(None));
        assert_eq!(bench.outcome().unwrap().unwrap(), None);
        bench.0.comes(&two[7..]);
        bench.next(Duration::ZERO);
        assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, "two");
    }

    #[test]
    fn a_lost_connection_stays_lost_and_what_came_before_its_end_is_given() {
        let mut bench = Bench::open();
        bench.send();
        bench.0.takes(5);
        bench.comes("what");
        bench.comes("why");
        bench.0.loses(ConnectionReset);
        assert_eq!(bench.0.turn(), Pulse::Close(None));
        let error = bench.outcome().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::NotSent));
        for body in ["what", "why"] {
            bench.next(SECOND);
            assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, body);
        }
        assert_eq!(bench.next(SECOND), Pulse::Close(None));
        assert_eq!(bench.outcome().unwrap().unwrap_err().kind(), ErrorKind::ConnectionLost);
        assert_eq!(bench.send(), Pulse::Close(None));
        assert_eq!(bench.outcome().unwrap().unwrap_err().fate(), Fate::NotSent);
    }

    #[test]
    fn only_what_was_sent_whole_may_have_been_carried_out() {
        for (call, fate) in [(0, Fate::NotSent), (1, Fate::NotSent), (2, Fate::Unknown)] {
            let mut bench = Bench::open();
            bench.0.loses(ConnectionReset);
            let now = bench.0.now;
            match call {
                0 => bench.0.role.0.open(now),
                1 => bench.0.role.0.send(&packet(Magic::Request, "hi"), now),
                _ => bench.0.role.0.next(SECOND, now),
            }
            assert_eq!(bench.0.turn(), Pulse::Close(None));
            assert_eq!(bench.outcome().unwrap().unwrap_err().fate(), fate, "{call}");
        }
    }

    #[test]
    fn a_peer_that_reads_nothing_ends_the_connection() {
        let mut bench = Bench::open();
        let Pulse::Go(Some(until)) = bench.send() else { panic!("it has no deadline") };
        bench.0.now = until;
        assert_eq!(bench.0.turn(), Pulse::Close(None));
        let error = bench.outcome().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Write));
    }

    #[test]
    fn the_first_call_connects_and_the_next_one_may_try_again() {
        let mut bench = Bench::new();
        for reports in [true, true, false, true] {
            let Pulse::Dial { by: Some(by), .. } = bench.send() else { panic!("it has no limit") };
            assert!(by > bench.0.now + SECOND);
            bench.0.now += SECOND;
            match reports {
                true => bench.0.ends(End::NotConnected(Error::timed_out(Deadline::Connect))),
                // A pump that reports nothing has taken too long.
                false => bench.0.now = by + SECOND,
            }
            assert!(!matches!(bench.0.turn(), Pulse::Dial { .. }));
            let error = bench.outcome().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Connect));
        }
        assert!(matches!(bench.next(SECOND), Pulse::Dial { .. }));
        bench.0.now += SECOND;
        bench.0.opens();
        assert_eq!(
            bench.0.turn(),
            Pulse::Go(Some(bench.0.now + SECOND)),
            "connecting is not counted"
        );
    }

    /// The failure of an attempt made for a dropped call does not belong to the next call.
    #[test]
    fn a_call_that_was_dropped_while_it_connected_fails_nobody() {
        let mut bench = Bench::new();
        let start = bench.0.now;
        let Pulse::Dial { by: Some(by_first), .. } = bench.send() else { panic!("no limit") };
        bench.0.now += SECOND;
        bench.send();
        bench.0.ends(End::NotConnected(Error::timed_out(Deadline::Connect)));
        let Pulse::Dial { by: Some(by), .. } = bench.0.turn() else { panic!("it has no limit") };
        assert_eq!(by - bench.0.now, by_first - start, "its attempt has the whole time");
        bench.0.opens();
        bench.0.turn();
        assert_eq!(bench.0.takes_all(), encoded(&packet(Magic::Request, "hi")));
    }

    #[test]
    fn what_is_no_packet_ends_the_connection() {
        let mut bench = Bench::open();
        bench.0.comes(b"HTTP/1.1 400 Bad Request\r\n");
        assert_eq!(bench.next(SECOND), Pulse::Close(None));
        assert_eq!(bench.outcome().unwrap().unwrap_err().kind(), ErrorKind::Protocol);
    }
}
