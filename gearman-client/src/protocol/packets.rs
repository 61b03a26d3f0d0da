//! Raw packets on one connection.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind::NotConnected},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use queue_core::{
    Awaits, Cause, ConnectionError, Deadlines, Io, LateCheck, Life, Loss, Need, Protocol, Pulse,
    Replace,
};

use super::{Framing, Magic, Packet, packet::HEADER};
use crate::{ConnectOptions, Error, Fate, Result};

/// A single caller that sends a packet or waits for one. There is one connection: once it is lost, it stays lost.
#[derive(Debug)]
pub(crate) struct PacketSession {
    pub(crate) options: ConnectOptions,
    life: Life<Error>,
    framing: Framing,
    wish: Option<CallerGoal>,
    /// Bytes not yet handed to the pump.
    frame: BytesMut,
    /// Why the connection was lost, for the next call that needs it.
    end: Option<Error>,
    /// Packets that arrived before the connection was lost; no more than a pump reads ahead.
    left: VecDeque<Packet>,
    late_check: LateCheck,
    outcome: Option<Result<Option<Packet>>>,
}

/// The current goal of the caller.
#[derive(Clone, Copy, Debug)]
enum CallerGoal {
    /// A connection.
    Open,
    /// Its packet written. Holds the end offset on the connection, once it was handed to the pump.
    Written(Option<u64>),
    /// The next packet: for how long, and until when, once there is a connection.
    Next(Duration, Option<Instant>),
}

impl PacketSession {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        let deadlines = Deadlines::new(None, Some(options.write_timeout));
        let connect = Some(options.connecting_timeout());
        PacketSession {
            life: Life::new(options.retry, connect, deadlines, Replace::Later),
            framing: Framing::new(Magic::Response, options.max_packet_size),
            wish: None,
            frame: BytesMut::new(),
            end: None,
            left: VecDeque::new(),
            late_check: LateCheck::default(),
            outcome: None,
            options,
        }
    }

    /// Asks for a connection.
    pub(crate) fn open(&mut self, now: Instant) {
        self.want(CallerGoal::Open, now);
    }

    /// Asks for a packet to be written.
    pub(crate) fn send(&mut self, packet: &Packet, now: Instant) {
        self.want(CallerGoal::Written(None), now);
        packet.encode(&mut self.frame);
    }

    /// Asks for the next packet.
    pub(crate) fn next(&mut self, timeout: Duration, now: Instant) {
        self.want(CallerGoal::Next(timeout, None), now);
    }

    fn want(&mut self, wish: CallerGoal, now: Instant) {
        self.frame.clear();
        self.late_check.clear();
        self.outcome = None;
        self.wish = Some(wish);
        self.life.asked(now);
    }

    /// The outcome: a packet, if one was asked for and arrived in time.
    pub(crate) fn outcome(&mut self) -> Option<Result<Option<Packet>>> {
        self.outcome.take()
    }

    /// The error of a caller that waits for an outcome without a goal.
    pub(crate) fn over() -> Error {
        Error::lost(NotConnected.into()).with_fate(Fate::NotSent)
    }

    fn settle(&mut self, outcome: Result<Option<Packet>>) {
        if self.wish.take().is_some() {
            self.outcome = Some(outcome);
        }
    }

    /// The outcome of a goal behind the end of the connection.
    fn after(&mut self, end: Error, wish: CallerGoal, io: &Io<Error>) -> Result<Option<Packet>> {
        let is_sent = match wish {
            CallerGoal::Open => false,
            CallerGoal::Written(end) => end.is_some_and(|end| end <= io.sent()),
            CallerGoal::Next(..) => match self.left.pop_front() {
                Some(packet) => {
                    self.end = Some(end);
                    return Ok(Some(packet));
                }
                None => true,
            },
        };
        self.end = Some(Self::over());
        Err(if is_sent { end } else { end.with_fate(Fate::NotSent) })
    }
}

queue_core::role!(PacketSession, Error);

impl Protocol for PacketSession {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, io: &mut Io<Error>, _: Instant) {
        io.limit(HEADER.saturating_add(self.options.max_packet_size));
    }

    fn receive(&mut self, io: &mut Io<Error>, _: Instant) -> Result<()> {
        match self.wish {
            Some(CallerGoal::Open) if io.is_open() => self.settle(Ok(None)),
            Some(CallerGoal::Written(Some(end))) if end <= io.sent() => self.settle(Ok(None)),
            Some(CallerGoal::Next(..)) => {
                if let Some(packet) = self.framing.take(io)? {
                    self.settle(Ok(Some(packet)));
                }
            }
            Some(CallerGoal::Open | CallerGoal::Written(_)) | None => {}
        }
        Ok(())
    }

    fn ended(&mut self, why: io::Error, io: &mut Io<Error>, _: Instant) -> Result<()> {
        while let Ok(Some(packet)) = self.framing.take(io) {
            self.left.push_back(packet);
        }
        Err(Error::lost(why))
    }

    fn lost(&mut self, loss: Loss<Error>, _: &mut Io<Error>, _: Instant) {
        match loss.cause {
            Cause::NotConnected => self.settle(Err(loss.error)),
            _ => self.end = Some(loss.error),
        }
    }

    fn needs(&mut self, io: &mut Io<Error>, now: Instant) -> Need {
        let Some(wish) = self.wish else { return Need::Keep(None) };
        if let Some(end) = self.end.take() {
            let outcome = self.after(end, wish, io);
            self.settle(outcome);
            return Need::Keep(None);
        }
        let Some(CallerGoal::Next(timeout, until)) =
            self.wish.as_mut().filter(|_| self.life.is_connected())
        else {
            return Need::Use(None);
        };
        if until.is_none() {
            *until = now.checked_add(*timeout);
        }
        match *until {
            Some(at) if at <= now && self.late_check.may_be_here(io, now) => Need::Look,
            Some(at) if at <= now => {
                self.settle(Ok(None));
                Need::Keep(None)
            }
            at => Need::Use(at),
        }
    }

    /// A caller has no other server.
    fn dial(&mut self, now: Instant) -> Pulse {
        self.life.attempt(0, now)
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        if let Some(CallerGoal::Written(end @ None)) = &mut self.wish {
            *end = Some(io.sent() + (io.unwritten() + self.frame.len()) as u64);
            io.queue(&mut self.frame);
        }
        Awaits::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::ConnectionReset;

    use queue_core::{End, proof::ByHand};

    use super::*;
    use crate::{Deadline, ErrorKind, protocol::PacketType};

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
    fn a_server_that_takes_nothing_is_left_once_the_limit_of_writing_has_passed() {
        let mut bench = Bench::open();
        assert_eq!(bench.send(), Pulse::Go(Some(bench.0.now + SECOND)));
        bench.0.takes(5);
        bench.0.now += SECOND / 2;
        assert_eq!(bench.0.turn(), Pulse::Go(Some(bench.0.now + SECOND / 2)));
        bench.0.now += SECOND / 2;
        assert_eq!(bench.0.turn(), Pulse::Close(None));
        let error = bench.outcome().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Write));
        assert_eq!(error.fate(), Fate::NotSent);
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
    fn each_wait_for_a_packet_reads_once_more_at_its_end() {
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
    fn packets_received_during_a_send_wait_within_a_bound() {
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
    fn a_lost_connection_yields_earlier_packets_and_stays_lost() {
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

    /// Its caller may do other things for long. A pump that sees the end closes the connection.
    #[test]
    fn the_end_of_an_idle_connection_is_reported_after_earlier_packets() {
        let mut bench = Bench::open();
        bench.comes("one");
        bench.0.loses(ConnectionReset);
        assert_eq!(bench.0.turn(), Pulse::Close(None));
        assert!(bench.outcome().is_none(), "nobody has asked");
        bench.0.closes();
        bench.next(SECOND);
        assert_eq!(bench.outcome().unwrap().unwrap().unwrap().body, "one");
        bench.next(SECOND);
        let error = bench.outcome().unwrap().unwrap_err();
        assert_eq!(error.io_error().unwrap().kind(), ConnectionReset);
    }

    #[test]
    fn only_fully_sent_packets_may_have_executed() {
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
    fn a_call_dropped_while_connecting_fails_no_other() {
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
}
