//! Tests that the WebSocket client role keeps its contract on an adversarial network.

use std::{
    task::{Poll, Waker},
    time::Instant,
};

use fixtures::{ConnectionId, adf_queue::Server, offline::Offline};
use queue_core::{
    Limit, Random,
    proof::{Faults, Peer, Proof, seeds},
};

use super::{
    Ask, AskAnswer, Link,
    link_tests::{SECOND, json, options, push, queue, refused, settle},
};
use crate::{
    Deadline, ErrorKind, Fate, Push, Result, RetryPolicy,
    protocol::{
        Action, Encoding,
        between::{FrameHead, Heading},
    },
};

/// The in-memory server on the other side of a proof.
pub(crate) struct Served {
    pub(crate) server: Offline,
    pub(crate) connection: Option<ConnectionId>,
    /// Refuse counts by a text that no known server sends.
    pub(crate) refuses_counts: bool,
    pub(crate) counts: usize,
}

impl Peer for Served {
    fn connected(&mut self) {
        if let Some(old) = self.connection.replace(self.server.connect()) {
            self.server.hang_up(old);
        }
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        let id = self.connection.unwrap();
        self.server.send(id, bytes);
        let mut received = self.server.receive(id);
        if self.refuses_counts {
            self.counts += refuse_counts(&mut received.bytes);
        }
        answer.extend(received.bytes);
        received.end.is_none()
    }
}

/// Makes refusals of the answers to counts in these whole frames, and returns their number.
fn refuse_counts(frames: &mut [u8]) -> usize {
    let (mut at, mut counts) = (0, 0);
    while let Some(head) = FrameHead::read(&frames[at..]).unwrap() {
        let start = at + head.len;
        at = start + usize::try_from(head.payload).unwrap();
        let heading = Heading::read(Encoding::Binary, &frames[start..at], true);
        if heading.action == Some(Action::Count) {
            frames[start + heading.len - 2..][..2].copy_from_slice(b"no");
            counts += 1;
        }
    }
    counts
}

impl Served {
    pub(crate) fn new(server: Offline) -> Self {
        Served { server, connection: None, refuses_counts: false, counts: 0 }
    }

    /// The bodies of ready messages in the queue, read over a separate connection once the client's is gone.
    pub(crate) fn left(mut self) -> Vec<String> {
        if let Some(connection) = self.connection.take() {
            self.server.hang_up(connection);
        }
        let mut bodies = Vec::new();
        for number in 0.. {
            let count = self.http("count", number);
            if count.contains("\"count\":0") {
                break;
            }
            let pulled = self.http("pull", number);
            let (_, rest) = pulled.split_once("\"body\":\"").unwrap();
            bodies.push(rest.split('"').next().unwrap().to_owned());
        }
        bodies
    }

    fn http(&mut self, action: &str, number: usize) -> String {
        let id = self.server.connect();
        let request =
            format!("GET /queue/{action}.json?queue=/q&requestid=left{number} HTTP/1.1\r\n\r\n");
        self.server.send(id, request.as_bytes());
        String::from_utf8(self.server.receive(id).bytes).unwrap()
    }
}

/// A caller of the proof.
struct Caller {
    what: What,
    number: u64,
}

enum What {
    Push(String),
    Pushes(Vec<String>),
    Pull,
    Delete(String),
}

#[derive(Default)]
struct Tally {
    pushed: Vec<String>,
    unknown: Vec<String>,
    not_sent: Vec<String>,
    deleted: Vec<String>,
    perhaps_deleted: Vec<String>,
    given_up: usize,
    lost: usize,
}

impl Tally {
    fn push<T>(&mut self, body: &str, outcome: Result<T>) {
        let bodies = match outcome {
            Ok(_) => &mut self.pushed,
            Err(error) if error.fate() == Fate::NotSent => &mut self.not_sent,
            Err(_) => &mut self.unknown,
        };
        bodies.push(body.to_owned());
    }
}

impl Caller {
    /// Takes one step; returns whether the caller continues. A received message is deleted by another caller.
    fn step(&mut self, link: &mut Link, now: Instant, tally: &mut Tally) -> bool {
        let Poll::Ready(outcome) = link.poll(self.number, Waker::noop()) else { return true };
        match (&self.what, outcome) {
            (What::Push(body), outcome) => {
                tally.push(body, outcome.map(|answer| answer.pushed().unwrap()));
            }
            (What::Pushes(bodies), outcome) => {
                let outcomes = outcome.unwrap().all_pushed().unwrap();
                assert_eq!(outcomes.len(), bodies.len());
                bodies.iter().zip(outcomes).for_each(|(body, outcome)| tally.push(body, outcome));
            }
            (What::Pull, Ok(AskAnswer::Nothing)) => {}
            (What::Pull, Ok(answer)) => {
                let delivery = answer.message().unwrap();
                let body = String::from_utf8(delivery.body().to_vec()).unwrap();
                match link.begin(settle(Action::Delete, &delivery), Limit::never(), now) {
                    Ok(number) => {
                        (self.what, self.number) = (What::Delete(body), number);
                        return true;
                    }
                    Err(error) => {
                        assert_eq!(*error.kind(), ErrorKind::JobLost);
                        tally.lost += 1;
                    }
                }
            }
            (What::Pull, Err(error)) => assert!(error.is_temporary(), "{error}"),
            (What::Delete(body), Ok(_)) => tally.deleted.push(body.clone()),
            (What::Delete(body), Err(error)) => match error.fate() {
                Fate::NotSent => tally.lost += 1,
                Fate::Unknown => tally.perhaps_deleted.push(body.clone()),
                Fate::Refused => panic!("{error}"),
            },
        }
        false
    }
}

/// Whatever the network does and whichever callers leave, every message that the server accepted is deleted once or
/// still there, and unsent ones are not there.
#[test]
fn no_message_is_lost_or_doubled_on_any_schedule_and_network() {
    let mut all = Tally::default();
    for seed in seeds(25) {
        let tally = prove(seed);
        all.pushed.extend(tally.pushed);
        all.unknown.extend(tally.unknown);
        all.deleted.extend(tally.deleted);
        all.given_up += tally.given_up;
        all.lost += tally.lost;
    }
    let seen = [all.pushed.len(), all.deleted.len(), all.unknown.len(), all.given_up, all.lost];
    let enough = [175, 50, 125, 125, 25];
    assert!(seen.iter().zip(enough).all(|(seen, enough)| *seen > enough), "{seen:?}");
}

fn prove(seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let options =
        if seed.is_multiple_of(2) { options() } else { json().retry(RetryPolicy::new(2).seed(1)) };
    let server = Server::builder().queue("/q").offline();
    let peer = Served::new(server);
    let mut proof = Proof::new(Link::new(options.seed(seed)), peer, refused, seed);
    proof.faults = Faults { broken: 150, refused: 4, dropped: 6, late: 0 };
    let (mut callers, mut tally) = (Vec::<Caller>::new(), Tally::default());
    for turn in 0..600 {
        let (now, link) = (proof.now(), &mut proof.role.0);
        if turn % 5 == 0 {
            let (ask, what) = match random.below(5) {
                0 | 3 => (Ask::Pull(queue()), What::Pull),
                1 => (Ask::TryPull(queue()), What::Pull),
                2 if random.one_in(3) => {
                    let bodies: Vec<String> =
                        (0..random.below(9)).map(|n| format!("{seed}-{turn}-{n}")).collect();
                    let push = |body: &String| Push::right(queue(), body.clone());
                    (Ask::Pushes(bodies.iter().map(push).collect()), What::Pushes(bodies))
                }
                _ => {
                    let body = format!("{seed}-{turn}");
                    (push(&body), What::Push(body))
                }
            };
            let limit = match what {
                What::Pull if random.one_in(2) => Some(now + SECOND / 4),
                _ => None,
            };
            let limit = Limit::until(Deadline::Total, limit);
            let number = link.begin(ask, limit, now).unwrap();
            callers.push(Caller { what, number });
        }
        callers.retain_mut(|one| one.step(link, now, &mut tally));
        if random.one_in(30) && !callers.is_empty() {
            let one = callers.swap_remove(random.below(callers.len()));
            link.leave(one.number);
            match one.what {
                What::Push(body) => tally.unknown.push(body),
                What::Pushes(bodies) => tally.unknown.extend(bodies),
                What::Delete(body) => tally.perhaps_deleted.push(body),
                What::Pull => tally.given_up += 1,
            }
        }
        proof.step();
    }
    settle_all(&mut proof, callers, &mut tally, seed);
    let mut pulled = pull_all(&mut proof);
    let mut left = proof.peer.left();
    pulled.sort_unstable();
    left.sort_unstable();
    // A message whose delete was given up before it was sent stays with its connection.
    let comes = |body: &&String| pulled.contains(*body) || !tally.perhaps_deleted.contains(*body);
    let expected: Vec<String> = left.iter().filter(comes).cloned().collect();
    assert_eq!(pulled, expected, "seed {seed}: whatever is there comes over this connection");
    for body in &tally.pushed {
        let times = left.iter().chain(&tally.deleted).filter(|one| *one == body).count();
        let perhaps = tally.perhaps_deleted.iter().filter(|one| *one == body).count();
        assert!(times == 1 || (times == 0 && perhaps > 0), "seed {seed}: {body} {times} times");
    }
    for body in &tally.not_sent {
        assert!(!left.contains(body) && !tally.deleted.contains(body), "seed {seed}: {body}");
    }
    tally
}

/// The remaining messages, over the same connection.
fn pull_all(proof: &mut Proof<Link, Served>) -> Vec<String> {
    proof.leaps = false;
    let mut bodies = Vec::new();
    loop {
        let (now, link) = (proof.now(), &mut proof.role.0);
        let number = link.begin(Ask::TryPull(queue()), Limit::never(), now).unwrap();
        let outcome = loop {
            proof.step();
            if let Poll::Ready(outcome) = proof.role.0.poll(number, Waker::noop()) {
                break outcome;
            }
        };
        match outcome.and_then(AskAnswer::delivery) {
            Ok(Some(delivery)) => {
                let body = String::from_utf8(delivery.body().to_vec()).unwrap();
                bodies.push((delivery.epoch(), body));
            }
            Ok(None) => break,
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    }
    // Messages pulled over another connection went back with it.
    let epoch = proof.role.0.epoch;
    bodies.into_iter().filter(|(of, _)| *of == epoch).map(|(_, body)| body).collect()
}

/// On a good network every caller finishes, once there are messages for the pulls.
fn settle_all(
    proof: &mut Proof<Link, Served>,
    mut callers: Vec<Caller>,
    tally: &mut Tally,
    seed: u64,
) {
    proof.faults = Faults::default();
    let mut steps = 0;
    while !callers.is_empty() || proof.peer.connection.is_none() {
        let (now, link) = (proof.now(), &mut proof.role.0);
        let is_pulling = callers.iter().any(|one| matches!(one.what, What::Pull));
        if steps % 50 == 0 && (is_pulling || proof.peer.connection.is_none()) {
            let body = format!("{seed}-end-{steps}");
            let number = link.begin(push(&body), Limit::never(), now).unwrap();
            callers.push(Caller { what: What::Push(body), number });
        }
        callers.retain_mut(|one| one.step(link, now, tally));
        proof.step();
        steps += 1;
        assert!(steps < 20_000, "seed {seed}: somebody waits forever");
    }
}
