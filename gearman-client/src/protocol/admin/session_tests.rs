//! Tests of the admin role, without sockets and clocks.

use std::{io, time::Duration};

use queue_core::{
    End, Pulse, Random,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::{AdminCommand, AdminReply, AdminSession};
use crate::{ConnectOptions, Deadline, Error, ErrorKind, Fate, Result, RetryPolicy};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> ConnectOptions {
    let options: ConnectOptions = "server:1".parse().unwrap();
    options.retry(RetryPolicy::new(3).seed(7).backoff(SECOND / 100, SECOND))
}

struct Bench {
    hand: ByHand<AdminSession>,
}

impl Bench {
    fn new(options: ConnectOptions) -> Self {
        Bench { hand: ByHand::new(AdminSession::new(options)) }
    }

    fn open() -> Self {
        let mut bench = Bench::new(options());
        bench.hand.opens();
        bench
    }

    fn begin(&mut self, command: &AdminCommand) {
        // It comes after the last look.
        self.hand.now += SECOND / 1000;
        self.hand.role.0.begin(command, self.hand.now).unwrap();
    }

    fn turn(&mut self) -> Pulse {
        self.hand.turn()
    }

    /// One whose command is under way.
    fn asking(command: &AdminCommand) -> Self {
        let mut bench = Bench::open();
        bench.begin(command);
        bench.written();
        bench
    }

    /// The command is written once it is clear that no input is waiting.
    fn written(&mut self) -> Vec<u8> {
        assert_eq!(self.turn(), Pulse::Peek);
        self.hand.looked();
        assert!(matches!(self.turn(), Pulse::Go(_)));
        self.hand.takes_all()
    }

    fn comes(&mut self, text: &str) {
        self.hand.comes(text.as_bytes());
    }

    fn outcome(&mut self) -> Result<AdminReply> {
        self.hand.role.0.outcome().unwrap()
    }

    /// It has written a command, of which this is read before the connection is lost.
    fn loses_behind(&mut self, read: usize, why: io::ErrorKind) -> Pulse {
        self.turn();
        self.hand.looked();
        self.turn();
        self.hand.takes(read);
        self.hand.loses(why);
        self.turn()
    }

    /// The kind and the fate of a failure.
    fn failure(&mut self) -> (ErrorKind, Fate) {
        let error = self.outcome().unwrap_err();
        (error.kind(), error.fate())
    }

    /// An attempt to connect fails.
    fn is_refused(&mut self) -> Pulse {
        assert!(matches!(self.turn(), Pulse::Dial { .. }));
        let refused = Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        self.hand.ends(End::NotConnected(refused));
        self.turn()
    }
}

#[test]
fn a_connection_that_is_out_of_step_is_not_used_again() {
    // Its caller has gone.
    let mut bench = Bench::asking(&AdminCommand::Version);
    bench.begin(&AdminCommand::GetPid);
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
    // Something arrived unsolicited.
    let mut bench = Bench::open();
    bench.turn();
    bench.comes("what?\r\n");
    assert_eq!(bench.turn(), Pulse::Close(None));
    // More than the reply arrived.
    let mut bench = Bench::asking(&AdminCommand::Version);
    bench.comes("OK 1\r\nOK 2\r\n");
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.outcome().unwrap(), AdminReply::Line("OK 1".into()));
}

#[test]
fn an_unreachable_server_is_retried_within_the_policy() {
    let mut bench = Bench::new(options());
    bench.begin(&AdminCommand::Version);
    for _ in 0..2 {
        let Pulse::Close(Some(until)) = bench.is_refused() else { panic!("it waits") };
        assert!(bench.hand.role.0.outcome().is_none() && until > bench.hand.now);
        bench.hand.now = until;
    }
    // A pump that reports nothing has taken too long.
    let Pulse::Dial { by: Some(by), .. } = bench.turn() else { panic!("it has no limit") };
    bench.hand.now = by + SECOND / 1000;
    let Pulse::Close(Some(until)) = bench.turn() else { panic!("it waits") };
    bench.hand.now = until;
    assert_eq!(bench.is_refused(), Pulse::Close(None));
    let error = bench.outcome().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert_eq!(error.command(), Some("version"));
}

#[test]
fn a_total_timeout_ends_a_command_wherever_it_is() {
    let total = ErrorKind::Timeout(Deadline::Total);
    let mut bench = Bench::open();
    bench.hand.role.0.set_total_timeout(Some(SECOND));
    bench.begin(&AdminCommand::Version);
    assert_eq!(bench.turn(), Pulse::Peek);
    bench.hand.now += SECOND;
    assert_eq!(bench.turn(), Pulse::Rest(None), "nothing was written on it");
    assert_eq!(bench.failure(), (total, Fate::NotSent));
    bench.begin(&AdminCommand::Version);
    bench.written();
    bench.turn();
    bench.hand.now += SECOND;
    assert_eq!(bench.turn(), Pulse::Close(None), "its reply may still come");
    assert_eq!(bench.failure(), (total, Fate::Unknown));
    bench.hand.closes();
    bench.begin(&AdminCommand::Version);
    let by = bench.hand.now + SECOND;
    assert_eq!(bench.turn(), Pulse::Dial { server: 0, by: Some(by), ask: None });
    assert!(matches!(bench.is_refused(), Pulse::Close(Some(_))), "there is time left");
    assert!(bench.hand.role.0.outcome().is_none());
    bench.hand.now = by;
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.failure(), (total, Fate::NotSent));
    // The last attempt may use up the time.
    bench.begin(&AdminCommand::Version);
    bench.turn();
    bench.hand.now += SECOND;
    bench.hand.ends(End::NotConnected(Error::timed_out(Deadline::Connect)));
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.failure(), (total, Fate::NotSent));
}

#[test]
fn only_shutdown_may_end_without_a_reply() {
    let shutdown = AdminCommand::Shutdown { graceful: false };
    let (end, reset) = (io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset);
    for (command, why, is_done) in
        [(&shutdown, end, true), (&shutdown, reset, false), (&AdminCommand::Version, end, false)]
    {
        let mut bench = Bench::asking(command);
        bench.hand.loses(why);
        assert_eq!(bench.turn(), Pulse::Close(None));
        match bench.outcome() {
            Ok(reply) => assert_eq!((reply, is_done), (AdminReply::Line("OK".into()), true)),
            Err(error) => assert_eq!((error.fate(), is_done), (Fate::Unknown, false)),
        }
    }
    // It was not told.
    let mut bench = Bench::open();
    bench.begin(&shutdown);
    assert!(matches!(bench.loses_behind(3, end), Pulse::Close(Some(_))));
    assert!(bench.hand.role.0.outcome().is_none());
}

#[test]
fn a_connection_survives_a_refusal() {
    let mut bench = Bench::asking(&AdminCommand::Version);
    bench.comes("ERR UNKNOWN_COMMAND Unknown+server+command\r\n");
    assert_eq!(bench.turn(), Pulse::Rest(None));
    assert_eq!(bench.failure(), (ErrorKind::Unsupported, Fate::Refused));
    bench.begin(&AdminCommand::GetPid);
    assert_eq!(bench.written(), b"getpid\r\n");
}

#[test]
fn only_unsent_requests_are_resent() {
    let mut bench = Bench::open();
    bench.begin(&AdminCommand::Version);
    let reset = io::ErrorKind::ConnectionReset;
    let Pulse::Close(Some(until)) = bench.loses_behind(3, reset) else {
        panic!("a server that fails is waited for")
    };
    bench.hand.now = until;
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
    bench.hand.opens();
    assert_eq!(bench.loses_behind("version\r\n".len(), reset), Pulse::Close(None));
    let error = bench.outcome().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    assert_eq!(error.command(), Some("version"));
}

#[test]
fn a_silent_server_meets_the_deadline() {
    let mut bench = Bench::asking(&AdminCommand::Version);
    bench.turn();
    bench.hand.now += 10 * SECOND;
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.failure(), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
}

/// Answers `version` with the number of the question.
#[derive(Default)]
struct Server {
    line: Vec<u8>,
    asked: u32,
}

impl Peer for Server {
    fn connected(&mut self) {
        self.line.clear();
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' {
                assert_eq!(self.line, b"version\r\n");
                self.line.clear();
                self.asked += 1;
                out.extend_from_slice(format!("OK {}\r\n", self.asked).as_bytes());
            }
        }
        true
    }
}

#[test]
fn each_command_gets_its_reply_or_an_error_on_any_schedule_and_network() {
    let mut answered = 0;
    for seed in seeds(400) {
        let mut random = Random::new(seed);
        let refused = || Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        let mut proof = Proof::new(AdminSession::new(options()), Server::default(), refused, seed);
        proof.faults = Faults { broken: 25, refused: 4, dropped: 6, late: 100 };
        for turn in 0..20 {
            if turn == 19 {
                proof.faults = Faults::default();
            }
            let (before, now) = (proof.peer.asked, proof.now());
            proof.role.0.begin(&AdminCommand::Version, now).unwrap();
            let mut steps = 0;
            let outcome = loop {
                proof.step();
                if let Some(outcome) = proof.role.0.outcome() {
                    break Some(outcome);
                }
                // Its caller leaves.
                if turn < 19 && random.one_in(40) {
                    break None;
                }
                steps += 1;
                assert!(steps < 10_000, "seed {seed}: a caller waits forever");
            };
            let asked = proof.peer.asked;
            match outcome {
                Some(Ok(AdminReply::Line(line))) => {
                    answered += 1;
                    assert_eq!((line, asked), (format!("OK {asked}").into(), before + 1));
                }
                Some(Err(error)) if error.fate() == Fate::NotSent => assert_eq!(asked, before),
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => assert!(asked - before <= 1, "seed {seed}"),
            }
        }
    }
    assert!(answered > 1_000, "{answered}");
}
