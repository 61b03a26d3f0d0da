//! Tests of the HTTP role, without sockets and clocks.

use std::{
    io::ErrorKind::{ConnectionReset, UnexpectedEof},
    time::Duration,
};

use queue_core::{
    Limit, Pulse, Random, RetryPolicy,
    proof::{ByHand, Faults, Peer, Proof, seeds},
};

use super::exchange::{Exchange, HttpRequest, Reply};
use crate::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, Metrics, Result,
    protocol::{Encoding, Request, Success},
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> ConnectOptions {
    let options: ConnectOptions = "http://server:1".parse().unwrap();
    options.retry(RetryPolicy::new(3).seed(7).backoff(SECOND / 100, SECOND))
}

fn ask(request: Request) -> HttpRequest {
    HttpRequest::action(Encoding::Json, request, "server:1").unwrap()
}

fn count() -> HttpRequest {
    ask(Request::count("h1".parse().unwrap(), "/j".parse().unwrap()))
}

fn push() -> HttpRequest {
    ask(Request::rpush("h2".parse().unwrap(), "/j".parse().unwrap(), "hi"))
}

fn pull() -> HttpRequest {
    ask(Request::pull("h3".parse().unwrap(), "/j".parse().unwrap()))
}

const HEAD: &str =
    "HTTP/1.1 200 OK\nContent-Type: application/json\nVia: vm\nTransfer-Encoding: chunked\n";

/// The server's answer, in one chunk.
fn answer(json: &str, connection: &str) -> String {
    format!("{HEAD}Connection: {connection}\n\n{:x}\r\n{json}\r\n0\r\n\r\n", json.len())
}

fn counted(count: u32) -> String {
    let json = format!(
        r#"{{"queue":"/j","count":{count},"result":"ok","action":"count","requestid":"h1"}}"#
    );
    answer(&json, "keep-alive")
}

fn pushed(id: u64) -> String {
    let json = format!(
        r#"{{"queue":"/j","result":"ok","action":"rpush","requestid":"h2","messageid":{id}}}"#
    );
    answer(&json, "close")
}

fn delivered() -> String {
    let json = r#"{"queue":"/j","result":"ok","body":"hi","action":"pull","requestid":"h3","duplications":1,"messageid":8}"#;
    answer(json, "keep-alive")
}

struct Bench {
    hand: ByHand<Exchange>,
}

impl Bench {
    fn new() -> Self {
        Bench { hand: ByHand::new(Exchange::new(options(), 0)) }
    }

    fn begin(&mut self, ask: HttpRequest) {
        self.hand.role.0.begin(ask, Limit::never(), self.hand.now);
    }

    fn begin_within(&mut self, ask: HttpRequest, time: Duration) {
        let limit = self.limit(time);
        self.hand.role.0.begin(ask, limit, self.hand.now);
    }

    /// Another caller waits for the pull that was given up.
    fn adopt_within(&mut self, time: Duration) {
        let limit = self.limit(time);
        self.hand.role.0.adopt(limit, self.hand.now);
    }

    fn limit(&self, time: Duration) -> Limit {
        Limit::until(Deadline::Total, Some(self.hand.now + time))
    }

    fn turn(&mut self) -> Pulse {
        self.hand.turn()
    }

    /// The connection that the role wants is made.
    fn dialed(&mut self) {
        let pulse = self.turn();
        assert!(matches!(pulse, Pulse::Dial { .. }), "{pulse:?}");
        self.hand.opens();
    }

    /// The request, written once it is clear that no input is waiting.
    fn written(&mut self) -> String {
        assert_eq!(self.turn(), Pulse::Peek);
        self.hand.looked();
        let pulse = self.turn();
        assert!(matches!(pulse, Pulse::Go(_)), "{pulse:?}");
        let sent = String::from_utf8(self.hand.takes_all()).unwrap();
        self.turn();
        sent
    }

    /// A new connection, and the request on it.
    fn asked(ask: HttpRequest) -> Self {
        let mut bench = Bench::new();
        bench.begin(ask);
        bench.dialed();
        bench.written();
        bench
    }

    /// A connection that has served.
    fn kept() -> Self {
        let mut bench = Bench::asked(count());
        bench.comes(counted(0).as_bytes());
        bench.outcome().unwrap();
        bench.hand.now += SECOND / 10;
        bench
    }

    fn comes(&mut self, bytes: &[u8]) {
        self.hand.comes(bytes);
        self.turn();
    }

    fn breaks(&mut self, why: std::io::ErrorKind) -> Pulse {
        self.hand.loses(why);
        self.turn()
    }

    fn outcome(&mut self) -> Result<Success> {
        match self.hand.role.0.outcome().expect("the request has an end")? {
            Reply::Success(_, success) => Ok(success),
            Reply::Page(page) => panic!("{page:?}"),
        }
    }

    fn error(&mut self) -> Error {
        self.outcome().unwrap_err()
    }
}

#[test]
fn a_connection_is_made_for_the_first_request_and_kept_for_the_next() {
    let mut bench = Bench::new();
    assert_eq!(bench.turn(), Pulse::Close(None));
    bench.begin(count());
    bench.dialed();
    let sent = bench.written();
    assert_eq!(
        sent,
        "GET /queue/count.json?queue=%2Fj&requestid=h1 HTTP/1.1\r\nHost: server:1\r\n\r\n"
    );
    bench.comes(counted(7).as_bytes());
    assert_eq!(bench.outcome().unwrap(), Success::Counted(7));
    assert_eq!(bench.turn(), Pulse::Rest(Some(bench.hand.now + 5 * SECOND)));
    bench.hand.now += 4 * SECOND;
    assert!(bench.hand.role.0.is_kept(bench.hand.now));
    bench.begin(count());
    bench.written();
    bench.comes(counted(8).as_bytes());
    assert_eq!((bench.outcome().unwrap(), bench.hand.io().epoch()), (Success::Counted(8), 1));
    let mut metrics = Metrics::default();
    for times in 1..=2 {
        metrics.add(&bench.hand.role.0.take_seen().0);
        assert_eq!(
            (metrics.connections, metrics.commands, metrics.replies),
            (1, times * 2, times * 2)
        );
        assert_eq!(metrics.bytes_out, times * 2 * sent.len() as u64);
        assert_eq!(metrics.bytes_in, times * 2 * counted(7).len() as u64);
        for ready in 7..=8 {
            bench.hand.now += SECOND / 10;
            bench.begin(count());
            bench.written();
            bench.comes(counted(ready).as_bytes());
        }
    }
}

/// Row 11: the server closes a connection that was idle for 10 seconds.
#[test]
fn a_connection_is_used_no_more_once_it_was_idle_for_5_seconds() {
    let mut bench = Bench::kept();
    bench.hand.now += 5 * SECOND;
    assert!(!bench.hand.role.0.is_kept(bench.hand.now));
    let mut unused = Bench::kept();
    unused.hand.now += 5 * SECOND;
    assert_eq!(unused.turn(), Pulse::Close(None));
    bench.begin(count());
    bench.dialed();
    bench.written();
    bench.comes(counted(1).as_bytes());
    assert_eq!((bench.outcome().unwrap(), bench.hand.io().epoch()), (Success::Counted(1), 2));
}

/// Row 11.
#[test]
fn a_push_ends_its_connection() {
    let mut bench = Bench::kept();
    bench.begin(push());
    assert!(bench.written().ends_with("Content-Length: 2\r\n\r\nhi"));
    bench.comes(pushed(3).as_bytes());
    assert_eq!(bench.outcome().unwrap(), Success::Pushed(3.into()));
    assert_eq!(bench.breaks(UnexpectedEof), Pulse::Close(None));
    assert_eq!(bench.hand.role.0.take_seen().1, Some(true), "nothing is lost");
}

/// The server's answer is always gzip if that was accepted.
#[test]
fn no_request_asks_for_more_than_it_needs() {
    for ask in [count(), push(), pull(), HttpRequest::page(None, "server:1").unwrap()] {
        let mut bench = Bench::new();
        bench.begin(ask);
        bench.dialed();
        let sent = bench.written();
        let names: Vec<_> =
            sent.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert!(
            names == ["Host"] || names == ["Host", "Content-Type", "Content-Length"],
            "{names:?}"
        );
    }
}

#[test]
fn an_answer_that_ends_early_leaves_the_fate_unknown_wherever_it_ends() {
    for (ask, text) in [(count(), counted(3)), (push(), pushed(4)), (pull(), delivered())] {
        for len in 0..text.len() {
            let mut bench = Bench::asked(ask.clone());
            bench.comes(&text.as_bytes()[..len]);
            assert_eq!(bench.breaks(UnexpectedEof), Pulse::Close(None));
            let error = bench.error();
            assert_eq!(
                (error.kind(), error.fate()),
                (&ErrorKind::ConnectionLost, Fate::Unknown),
                "after {len} bytes: {error}"
            );
            assert!(error.request_id().is_some(), "{error}");
        }
    }
}

#[test]
fn only_unsent_requests_are_resent() {
    let mut bench = Bench::new();
    bench.begin(push());
    bench.dialed();
    bench.turn();
    bench.hand.looked();
    bench.turn();
    let whole = bench.hand.unsent().len();
    bench.hand.takes(whole - 1);
    let Pulse::Close(Some(until)) = bench.breaks(ConnectionReset) else {
        panic!("a server that fails is waited for")
    };
    bench.hand.now = until;
    bench.dialed();
    assert_eq!(bench.written().len(), whole);
    assert_eq!(bench.breaks(ConnectionReset), Pulse::Close(None));
    assert_eq!(bench.error().fate(), Fate::Unknown);
}

#[test]
fn a_dead_kept_connection_is_replaced_for_repeatable_requests() {
    let mut bench = Bench::kept();
    bench.begin(count());
    bench.written();
    assert!(matches!(bench.breaks(UnexpectedEof), Pulse::Dial { .. }));
    bench.hand.opens();
    bench.written();
    bench.comes(counted(5).as_bytes());
    assert_eq!(bench.outcome().unwrap(), Success::Counted(5));
    for ask in [push(), pull()] {
        let mut bench = Bench::kept();
        bench.begin(ask);
        bench.written();
        bench.breaks(UnexpectedEof);
        assert_eq!(bench.error().fate(), Fate::Unknown);
    }
    // It has started to answer.
    let mut bench = Bench::kept();
    bench.begin(count());
    bench.written();
    bench.comes(b"H");
    bench.breaks(UnexpectedEof);
    assert_eq!(bench.error().fate(), Fate::Unknown);
}

#[test]
fn a_connection_on_which_something_came_unasked_is_not_used_again() {
    let mut bench = Bench::kept();
    bench.comes(b"what?");
    assert_eq!(bench.turn(), Pulse::Close(None));
    // After an answer.
    let mut bench = Bench::asked(count());
    bench.comes(format!("{}HTTP", counted(1)).as_bytes());
    assert_eq!(bench.outcome().unwrap(), Success::Counted(1));
    assert_eq!(bench.turn(), Pulse::Close(None));
}

#[test]
fn a_server_that_goes_silent_behind_the_head_meets_the_deadline() {
    let mut bench = Bench::asked(count());
    bench.comes(format!("{HEAD}\n").as_bytes());
    bench.hand.now += 10 * SECOND;
    assert_eq!(bench.turn(), Pulse::Close(None));
    let error = bench.error();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
}

/// The server sends status and headers before it has a message.
#[test]
fn a_pull_waits_as_long_as_it_takes() {
    let mut bench = Bench::asked(pull());
    assert_eq!(bench.turn(), Pulse::Go(None));
    bench.hand.now += 3600 * SECOND;
    bench.comes(format!("{HEAD}\n").as_bytes());
    bench.hand.now += 24 * 3600 * SECOND;
    assert_eq!(bench.turn(), Pulse::Go(None));
    bench.comes(delivered().split_once("\n\n").unwrap().1.as_bytes());
    assert!(matches!(bench.outcome().unwrap(), Success::Delivered(_)));
}

/// Row 2: the server would send a message into a closed connection.
#[test]
fn a_pull_that_is_given_up_waits_for_the_next_caller() {
    let mut bench = Bench::new();
    bench.begin_within(pull(), 3 * SECOND);
    bench.dialed();
    bench.written();
    bench.hand.now += 3 * SECOND;
    assert_eq!(bench.turn(), Pulse::Go(None));
    let error = bench.error();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Timeout(Deadline::Total), Fate::Unknown));
    assert_eq!(error.request_id().unwrap().as_str(), "h3");
    assert_eq!(bench.hand.role.0.given_up(bench.hand.io()).unwrap().queue().as_str(), "/j");
    bench.adopt_within(SECOND);
    assert_eq!(bench.turn(), Pulse::Look);
    bench.comes(delivered().as_bytes());
    let Reply::Success(request, Success::Delivered(message)) =
        bench.hand.role.0.outcome().unwrap().unwrap()
    else {
        panic!("a message")
    };
    assert_eq!((request.id().as_str(), &message.body[..]), ("h3", &b"hi"[..]));
    assert!(bench.hand.role.0.given_up(bench.hand.io()).is_none());
}

#[test]
fn an_abandoned_pulls_message_is_read_before_the_next_deadline() {
    for comes in [true, false] {
        let mut bench = Bench::new();
        bench.begin_within(pull(), 3 * SECOND);
        bench.dialed();
        bench.written();
        bench.hand.now += 3 * SECOND;
        bench.turn();
        bench.error();
        bench.adopt_within(Duration::ZERO);
        assert_eq!(bench.turn(), Pulse::Look);
        match comes {
            true => {
                bench.comes(delivered().as_bytes());
                assert!(matches!(bench.outcome().unwrap(), Success::Delivered(_)));
            }
            false => {
                bench.hand.looked();
                assert_eq!(bench.turn(), Pulse::Go(None));
                assert_eq!(bench.error().kind(), &ErrorKind::Timeout(Deadline::Total));
                let given_up = bench.hand.role.0.given_up(bench.hand.io());
                assert!(given_up.is_some(), "for the next but one");
            }
        }
    }
}

#[test]
fn an_unsent_pull_is_dropped() {
    let mut bench = Bench::new();
    bench.begin_within(pull(), 3 * SECOND);
    bench.dialed();
    bench.turn();
    bench.hand.looked();
    bench.turn();
    bench.hand.takes(20);
    assert!(bench.hand.role.0.given_up(bench.hand.io()).is_none());
    bench.hand.now += 3 * SECOND;
    assert_eq!(bench.turn(), Pulse::Close(None));
    assert_eq!(bench.error().fate(), Fate::NotSent);
    assert!(bench.hand.role.0.given_up(bench.hand.io()).is_none());
}

/// Rows 10, 12 and 17, as far as the server answers.
#[test]
fn a_non_result_is_an_error() {
    let page = "HTTP/1.1 200 OK\nContent-Type: text/html\nConnection: keep-alive\nContent-Length: 4\n\npage";
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n";
    let no_length = "HTTP/1.1 411 Length Required\nContent-Type: text/html\nConnection: close\nContent-Length: 22\n\nRequire Content-Length";
    let failed = "HTTP/1.1 500 Internal Server Error\nContent-Length: 4\n\noops";
    for (text, kind, fate, why) in [
        (page, ErrorKind::Protocol, Fate::Unknown, "a page instead of a result"),
        (moved, ErrorKind::Protocol, Fate::Unknown, "302 Found"),
        (no_length, ErrorKind::InvalidInput, Fate::Refused, "411 Length Required"),
        (failed, ErrorKind::Protocol, Fate::Unknown, "500 Internal Server Error"),
        ("SSH-2.0-OpenSSH\r\n", ErrorKind::Protocol, Fate::Unknown, "does not speak HTTP"),
        (&counted(1), ErrorKind::Protocol, Fate::Unknown, "was not requested"),
    ] {
        let mut bench = Bench::asked(push());
        bench.comes(text.as_bytes());
        let error = bench.error();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!((error.kind(), error.fate()), (&kind, fate), "{error}");
    }
}

/// The server may refuse a body before it has read it.
#[test]
fn an_answer_before_the_end_of_the_request_counts() {
    let mut bench = Bench::new();
    bench.begin(push());
    bench.dialed();
    bench.turn();
    bench.hand.looked();
    bench.turn();
    bench.hand.takes(10);
    bench.comes(
        b"HTTP/1.1 413 Request Entity Too Large\nConnection: keep-alive\nContent-Length: 1\n\nx",
    );
    assert_eq!(bench.error().kind(), &ErrorKind::InvalidInput);
    assert_eq!(bench.turn(), Pulse::Close(None), "the rest of the request would be taken for one");
}

/// Counts and numbers pushes, and closes after a push.
#[derive(Default)]
struct Server {
    bytes: Vec<u8>,
    asked: u64,
    pushed: u64,
}

impl Peer for Server {
    fn connected(&mut self) {
        self.bytes.clear();
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.bytes.extend_from_slice(bytes);
        let text = String::from_utf8(self.bytes.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return true };
        let is_push = head.starts_with("POST /queue/rpush.json?queue=%2Fj&requestid=h2 ");
        if is_push && body.len() < 2 {
            return true;
        }
        assert_eq!(body, if is_push { "hi" } else { "" }, "one request at a time");
        self.bytes.clear();
        self.asked += 1;
        if is_push {
            self.pushed += 1;
            out.extend_from_slice(pushed(self.pushed).as_bytes());
        } else {
            assert!(head.starts_with("GET /queue/count.json?"), "{head}");
            out.extend_from_slice(counted(self.pushed as u32).as_bytes());
        }
        !is_push
    }
}

#[test]
fn each_request_gets_its_answer_or_an_error_on_any_schedule_and_network() {
    let mut answered = 0;
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let refused = || Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
        let mut proof = Proof::new(Exchange::new(options(), 0), Server::default(), refused, seed);
        proof.faults = Faults { broken: 80, refused: 4, dropped: 6, late: 100 };
        for turn in 0..20 {
            if turn == 19 {
                proof.faults = Faults::default();
            }
            let (before, now, pushes) = (proof.peer.pushed, proof.now(), random.one_in(2));
            let ask = if pushes { push() } else { count() };
            let total =
                random.one_in(4).then(|| now + Duration::from_millis(random.below(40) as u64));
            proof.role.0.begin(ask, Limit::until(Deadline::Total, total), now);
            let mut steps = 0;
            let outcome = loop {
                proof.step();
                if let Some(outcome) = proof.role.0.outcome() {
                    break outcome;
                }
                steps += 1;
                assert!(steps < 10_000, "seed {seed}: a caller waits forever");
            };
            let after = proof.peer.pushed;
            match outcome {
                Ok(Reply::Success(_, Success::Pushed(id))) => {
                    answered += 1;
                    assert!(pushes && (id.get(), after) == (before + 1, before + 1));
                }
                Ok(Reply::Success(_, Success::Counted(n))) => {
                    answered += 1;
                    assert!(!pushes && u64::from(n) == before && after == before);
                }
                Err(error) if error.fate() == Fate::NotSent => assert_eq!(after, before),
                Err(_) => assert!(after - before <= u64::from(pushes), "seed {seed}"),
                Ok(other) => panic!("{other:?}"),
            }
        }
    }
    assert!(answered > 250, "{answered}");
}
