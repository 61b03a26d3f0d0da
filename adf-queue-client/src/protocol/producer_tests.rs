//! Tests of the producer's pushes over several servers and links, on adversarial networks.

use std::{
    mem,
    sync::Arc,
    task::{Poll, Waker},
    time::Instant,
};

use fixtures::adf_queue::Server;
use queue_core::{
    Limit, Random, RetryPolicy, Signal,
    proof::{Faults, Proof, seeds},
};

use super::{
    client::{
        AskAnswer, Link,
        link_network_tests::Served,
        link_tests::{SECOND, queue, refused},
    },
    producer::{
        ProducerServers,
        attempts::{PushAttempts, PushStep, PushTerms},
    },
};
use crate::{
    ConnectOptions, Deadline, ErrorKind, Fate, MessageId, ProducerOptions, ProducerReport, Push,
    Result, Selection, Servers,
};

/// A producer like those of the faces, with a proof instead of each wire. It is not a role itself: it selects among the
/// links, which are.
struct Face {
    links: Vec<Proof<Link, Served>>,
    router: ProducerServers,
    terms: PushTerms,
    report: ProducerReport,
}

/// A push of the proof.
struct Pushing {
    body: String,
    attempts: PushAttempts,
    at: At,
}

enum At {
    Start,
    /// A server was asked.
    Asks {
        server: usize,
        number: u64,
    },
    /// The answer of a server.
    Hears(Result<AskAnswer>),
    Waits(Instant, Arc<Signal>),
}

impl Face {
    /// Servers with or without the queue.
    fn new(
        seed: u64,
        has_queue: &[bool],
        options: impl Fn(ConnectOptions) -> ConnectOptions,
        terms: PushTerms,
        selection: Selection,
    ) -> Self {
        let each = (0..has_queue.len()).map(|number| {
            let scheme = if (seed + number as u64).is_multiple_of(2) { "adf" } else { "adf+json" };
            let server: ConnectOptions = format!("{scheme}://server{number}:1").parse().unwrap();
            options(server.seed(seed).ping_interval(None))
        });
        let servers = Servers::new(each).unwrap().selection(selection);
        let servers = ProducerOptions::from(servers).checked().unwrap().servers;
        let links = servers.options().iter().zip(has_queue).zip(seed..).map(
            |((options, has_queue), seed)| {
                let server =
                    if *has_queue { Server::builder().queue("/q") } else { Server::builder() };
                let peer = Served::new(server.offline());
                Proof::new(Link::new(options.clone()), peer, refused, seed)
            },
        );
        Face {
            links: links.collect(),
            router: ProducerServers::new(&servers),
            terms,
            report: ProducerReport::default(),
        }
    }

    /// The links have their own clocks; time never runs backwards for a push.
    fn now(&self) -> Instant {
        self.links.iter().map(Proof::now).max().unwrap()
    }

    fn set_faults(&mut self, faults: Faults) {
        self.links.iter_mut().for_each(|link| link.faults = faults);
    }

    fn step(&mut self) {
        for link in &mut self.links {
            link.step();
        }
    }

    fn push(&self, body: String, until: Option<Instant>) -> Pushing {
        let limit = Limit::until(Deadline::Total, until);
        let terms = PushTerms { limit, ..self.terms };
        let attempts = PushAttempts::new(Push::right(queue(), body.clone()), None, terms);
        Pushing { body, attempts, at: At::Start }
    }

    /// The outcome of a push, once known.
    fn drive(&mut self, push: &mut Pushing) -> Option<Result<MessageId>> {
        let now = self.now();
        loop {
            let answer = match mem::replace(&mut push.at, At::Start) {
                At::Start => None,
                At::Hears(answer) => Some(answer),
                At::Waits(at, back) if now < at && !back.is_set() => {
                    push.at = At::Waits(at, back);
                    return None;
                }
                At::Waits(..) => None,
                At::Asks { server, number } => {
                    let link = &mut self.links[server].role.0;
                    let Poll::Ready(answer) = link.poll(number, Waker::noop()) else {
                        push.at = At::Asks { server, number };
                        return None;
                    };
                    Some(answer)
                }
            };
            let step = push.attempts.next(answer, &mut self.router, now);
            self.router.take_later().run();
            push.at = match step {
                PushStep::Ask { server, .. } => {
                    let (link, ask) = (&mut self.links[server], push.attempts.request());
                    let now = link.now();
                    match link.role.0.begin(ask, push.attempts.limit(), now) {
                        Ok(number) => At::Asks { server, number },
                        Err(error) => At::Hears(Err(error)),
                    }
                }
                PushStep::Wait(at, back) => At::Waits(at, back),
                PushStep::Done(outcome) => {
                    self.report.count(&outcome, push.attempts.counts);
                    return Some(outcome);
                }
            };
        }
    }

    /// The caller of the push is gone.
    fn leave(&mut self, push: &Pushing) {
        if let At::Asks { server, number } = push.at {
            self.links[server].role.0.leave(number);
        }
    }
}

/// The outcomes of pushes.
#[derive(Default)]
struct Tally {
    pushed: Vec<String>,
    unknown: Vec<String>,
    not_sent: Vec<String>,
}

impl Tally {
    fn add(&mut self, body: String, outcome: &Result<MessageId>) {
        match outcome.as_ref().map_err(crate::Error::fate) {
            Ok(_) => self.pushed.push(body),
            Err(Fate::Unknown) => self.unknown.push(body),
            Err(Fate::NotSent | Fate::Refused) => self.not_sent.push(body),
        }
    }
}

/// Whichever callers leave, and whatever the network does: acknowledged messages exist, unsent ones do not, none exists
/// twice unless that was chosen, and every push ends.
#[test]
fn every_push_gets_its_fate_on_any_schedule_and_network() {
    let mut seen = ProducerReport::default();
    for seed in seeds(30) {
        let report = prove(seed);
        seen.pushed += report.pushed;
        seen.unknown += report.unknown;
        seen.not_sent += report.not_sent;
        seen.refused += report.refused;
        seen.resent += report.resent;
        seen.moved += report.moved;
        seen.created += report.created;
    }
    let all = [
        seen.pushed,
        seen.unknown,
        seen.not_sent,
        seen.refused,
        seen.resent,
        seen.moved,
        seen.created,
    ];
    let enough = [375, 125, 750, 50, 50, 1250, 2];
    assert!(all.iter().zip(enough).all(|(seen, enough)| *seen > enough), "{all:?}");
}

fn prove(seed: u64) -> ProducerReport {
    let mut random = Random::new(seed);
    let limit = Limit::never();
    let (at_least_once, create_queues) = (random.one_in(2), random.one_in(2));
    let terms = PushTerms { limit, at_least_once, create_queues };
    let has_queue: Vec<bool> = (0..=random.below(3)).map(|_| !random.one_in(3)).collect();
    let selection = [Selection::InOrder, Selection::RoundRobin, Selection::Random][random.below(3)];
    let retry = RetryPolicy::default().seed(seed).backoff(SECOND / 100, SECOND);
    let options = |server: ConnectOptions| {
        server.retry(retry).reply_timeout(10 * SECOND).write_timeout(5 * SECOND)
    };
    let mut face = Face::new(seed, &has_queue, options, terms, selection);
    face.set_faults(Faults { broken: 120, refused: 3, dropped: 6, late: 0 });
    let (mut pushes, mut tally, mut begun) = (Vec::<Pushing>::new(), Tally::default(), 0);
    let go = |face: &mut Face, pushes: &mut Vec<Pushing>, tally: &mut Tally| {
        face.step();
        pushes.retain_mut(|push| match face.drive(push) {
            Some(outcome) => {
                let refusal = outcome.as_ref().err().map(crate::Error::kind);
                let is_refused = matches!(refusal, Some(ErrorKind::Refused(_)));
                assert!(!is_refused || !terms.create_queues, "seed {seed}: {outcome:?}");
                tally.add(push.body.clone(), &outcome);
                false
            }
            None => true,
        });
    };
    for turn in 0..600 {
        if turn % 5 == 0 {
            let until = face.now() + SECOND * (1 + random.below(20) as u32);
            pushes.push(face.push(format!("{seed}-{turn}"), Some(until)));
            begun += 1;
        }
        if random.one_in(50) && !pushes.is_empty() {
            let push = pushes.swap_remove(random.below(pushes.len()));
            face.leave(&push);
            tally.unknown.push(push.body);
        }
        go(&mut face, &mut pushes, &mut tally);
    }
    face.set_faults(Faults::default());
    let mut steps = 0;
    while !pushes.is_empty() {
        go(&mut face, &mut pushes, &mut tally);
        steps += 1;
        assert!(steps < 20_000, "seed {seed}: a push waits forever");
    }
    check(seed, face, &tally, begun)
}

fn check(seed: u64, face: Face, tally: &Tally, begun: usize) -> ProducerReport {
    let Face { links, terms, report, .. } = face;
    let total = tally.pushed.len() + tally.unknown.len() + tally.not_sent.len();
    assert_eq!(total, begun, "seed {seed}: each has one outcome");
    let left: Vec<String> = links.into_iter().flat_map(|link| link.peer.left()).collect();
    let times = |body: &String| left.iter().filter(|one| *one == body).count();
    for body in &tally.pushed {
        let times = times(body);
        assert!(
            times == 1 || (times > 1 && terms.at_least_once),
            "seed {seed}: {body} {times} times"
        );
    }
    for body in &tally.unknown {
        assert!(times(body) <= 1 || terms.at_least_once, "seed {seed}: {body} is there twice");
    }
    for body in &tally.not_sent {
        assert_eq!(times(body), 0, "seed {seed}: {body} was not sent");
    }
    report
}

/// However long the server was away, both the new push and the one that waits for it go out then.
#[test]
fn a_push_that_comes_ends_the_wait_for_a_server_that_is_back() {
    for seed in 0..20 {
        let terms = PushTerms { limit: Limit::never(), at_least_once: false, create_queues: false };
        let retry = RetryPolicy::default().seed(seed).backoff(SECOND / 10, 100_000 * SECOND);
        let long = std::time::Duration::MAX;
        let options = |server: ConnectOptions| {
            server.retry(retry).reply_timeout(long).write_timeout(long).connect_timeout(long)
        };
        let mut face = Face::new(seed, &[true], options, terms, Selection::InOrder);
        // The server is unreachable, and an hour passes with each step.
        face.set_faults(Faults { refused: 1, late: 1, ..Faults::default() });
        let mut waits = face.push("first".into(), None);
        let mut steps = 0;
        loop {
            assert!(face.drive(&mut waits).is_none());
            if matches!(waits.at, At::Waits(at, _) if at > face.now() + 600 * SECOND) {
                break;
            }
            face.step();
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: the delays do not grow");
        }
        face.set_faults(Faults::default());
        let (came, mut comes) = (face.now(), face.push("second".into(), None));
        let (mut first, mut second) = (None, None);
        while first.is_none() || second.is_none() {
            first = first.or_else(|| face.drive(&mut waits));
            second = second.or_else(|| face.drive(&mut comes));
            face.step();
            assert!(face.now() < came + 60 * SECOND, "seed {seed}: a push waits for its old delay");
        }
        assert!(first.unwrap().is_ok() && second.unwrap().is_ok());
    }
}
