//! A small role under both pumps, and under one without sockets.
#![cfg(all(feature = "tokio", feature = "blocking"))]

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{
    Awaits, Deadlines, Duplex, Error, Expects, Io, Life, Loss, Need, Protocol, Pulse, Replace,
    RetryPolicy, Role, Wire,
    blocking::{self, Drive, TimedStream},
    now,
    proof::{Faults, Peer, Proof},
    pump::Dialing,
};

/// Asks questions of one line each, all of them at once, and is answered with the same lines.
struct Asker {
    life: Life<Error>,
    /// Not sent whole on any connection.
    queued: VecDeque<BytesMut>,
    /// Sent, or on their way: where each one ends among the bytes of the connection.
    asked: VecDeque<(BytesMut, u64)>,
    queued_up_to: u64,
    outcomes: Vec<(String, Result<(), bool>)>,
    is_closing: bool,
    callers: Vec<Waker>,
}

impl Asker {
    fn new() -> Self {
        Self::with(Deadlines::new(Some(Duration::from_secs(10)), Some(Duration::from_secs(5))))
    }

    /// As long as a busy machine may take to move much.
    fn patient() -> Self {
        let patience = Some(Duration::from_secs(120));
        Self::with(Deadlines::new(patience, patience))
    }

    fn with(deadlines: Deadlines) -> Self {
        let (base, cap) = (Duration::from_millis(10), Duration::from_secs(1));
        let retry = RetryPolicy::default().seed(3).backoff(base, cap);
        Asker {
            life: Life::new(retry, Some(Duration::from_secs(5)), deadlines, Replace::IfGood),
            queued: VecDeque::new(),
            asked: VecDeque::new(),
            queued_up_to: 0,
            outcomes: Vec::new(),
            is_closing: false,
            callers: Vec::new(),
        }
    }

    fn ask(&mut self, question: &str) {
        self.queued.push_back(format!("{question}\n").as_bytes().into());
    }

    fn settle(&mut self, question: &BytesMut, outcome: Result<(), bool>, io: &mut Io<Error>) {
        self.outcomes.push((String::from_utf8_lossy(question).trim_end().to_owned(), outcome));
        io.wake.append(&mut self.callers);
    }
}

crate::role!(Asker, Error);

impl Protocol for Asker {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, _: &mut Io<Error>, _: Instant) {
        self.queued_up_to = 0;
    }

    fn receive(&mut self, io: &mut Io<Error>, _: Instant) -> Result<(), Error> {
        while let Some(at) = io.data().iter().position(|byte| *byte == b'\n') {
            let line = io.take(at + 1);
            let Some((question, _)) = self.asked.pop_front() else { break };
            assert_eq!(line, question, "answers come in order, and none belongs to another");
            self.settle(&question, Ok(()), io);
            self.life.served();
            self.life.answered();
        }
        Ok(())
    }

    /// What was sent whole may have been understood; the rest is asked again.
    fn lost(&mut self, _: Loss<Error>, io: &mut Io<Error>, _: Instant) {
        while let Some((question, end)) = self.asked.pop_back() {
            if end <= io.sent() {
                self.asked.push_back((question, end));
                break;
            }
            let taken = io.take_back(question.len());
            assert_eq!(taken, question);
            self.queued.push_front(taken);
        }
        for (question, _) in std::mem::take(&mut self.asked) {
            self.settle(&question, Err(true), io);
        }
    }

    fn needs(&mut self, _: &mut Io<Error>, _: Instant) -> Need {
        let is_idle = self.queued.is_empty() && self.asked.is_empty();
        match self.is_closing {
            _ if !is_idle => Need::Use(None),
            true if self.life.is_open() => Need::Use(None),
            true => Need::Over,
            false => Need::Keep(None),
        }
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        for mut question in std::mem::take(&mut self.queued) {
            self.queued_up_to += question.len() as u64;
            self.asked.push_back((question.clone(), self.queued_up_to));
            io.queue(&mut question);
        }
        let (answer, expects) = match self.asked.front() {
            // Its question was sent whole.
            Some((_, end)) if *end <= io.sent() => (Some(Duration::ZERO), Expects::Data),
            Some(_) => (None, Expects::Data),
            None if self.is_closing => (None, Expects::End),
            None => (None, Expects::Nothing),
        };
        Awaits { answer, until: None, expects }
    }
}

/// Says every line again.
#[derive(Default)]
struct Echo {
    line: Vec<u8>,
    heard: Vec<String>,
}

impl Peer for Echo {
    fn connected(&mut self) {
        self.line.clear();
    }

    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' {
                answer.extend_from_slice(&self.line);
                self.heard.push(String::from_utf8(std::mem::take(&mut self.line)).unwrap());
            }
        }
        true
    }
}

/// Each question has one outcome; one that was answered was heard, and one that was sent at most once.
#[test]
fn each_question_gets_one_outcome_on_any_schedule_and_network() {
    for seed in 0..2_000 {
        let mut proof =
            Proof::new(Asker::new(), Echo::default(), || refused("nobody listens"), seed);
        proof.faults = Faults { broken: 12, refused: 4, dropped: 6, late: 60 };
        let mut asked = 0;
        for _ in 0..300 {
            if asked < 40 && proof.step() != Pulse::Over {
                proof.role.0.ask(&format!("question {asked}"));
                asked += 1;
            }
            proof.step();
        }
        // Whatever was bad ends, and then everything has to.
        proof.faults = Faults::default();
        let mut steps = 0;
        while proof.role.0.outcomes.len() < asked {
            proof.step();
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: {:?}", proof.role.0.outcomes);
        }
        let mut outcomes = proof.role.0.outcomes.clone();
        outcomes.sort();
        outcomes.dedup_by(|one, other| one.0 == other.0);
        assert_eq!(outcomes.len(), asked, "seed {seed}: one outcome for each");
        for (question, outcome) in outcomes {
            let line = format!("{question}\n");
            let heard = proof.peer.heard.iter().filter(|heard| **heard == line).count();
            let expected = if outcome.is_ok() { 1..=1 } else { 0..=1 };
            assert!(expected.contains(&heard), "seed {seed}: {question} was heard {heard} times");
        }
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::invalid(why.to_string())
}

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn async_wire(address: std::net::SocketAddr) -> Wire<Error> {
    Wire::new(move |_, _| -> Dialing<Error> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(address).await;
            Ok(Box::new(stream.map_err(refused)?) as Box<dyn Duplex>)
        })
    })
}

fn blocking_wire(address: std::net::SocketAddr) -> blocking::Wire<Error> {
    blocking::Wire::new(move |_, _| {
        let stream = TcpStream::connect(address).map_err(refused)?;
        TimedStream::new(Box::new(stream)).map_err(refused)
    })
}

fn answered(count: usize) -> impl FnMut(&mut Asker) -> Option<usize> {
    move |asker| {
        (asker.outcomes.len() >= count)
            .then(|| asker.outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count())
    }
}

/// Serves connections one after the other.
fn echo(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
        }
    });
}

/// Reads nothing before it has written more than any buffer holds.
fn writes_first(listener: TcpListener, question: String, count: usize) {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let line = format!("{question}\n");
        for _ in 0..count {
            stream.write_all(line.as_bytes()).unwrap();
        }
        let mut all = vec![0; line.len() * count];
        stream.read_exact(&mut all).unwrap();
        // Until the other side is done.
        let _ = stream.read(&mut [0]);
    });
}

#[tokio::test]
async fn the_async_pump_writes_and_reads_while_the_peer_only_writes() {
    let (listener, address) = listener();
    let question = "q".repeat(64 << 10);
    writes_first(listener, question.clone(), 256);
    let (mut asker, mut wire) = (Asker::patient(), async_wire(address));
    for _ in 0..256 {
        asker.ask(&question);
    }
    let answered = poll_fn(|cx| wire.poll(cx, &mut asker, answered(256))).await;
    assert_eq!(answered, Some(256));
}

/// Its words are its last: over once they are written.
#[derive(Default)]
struct Leaver {
    has_spoken: bool,
}

impl Role for Leaver {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, _: Instant) -> Pulse {
        if io.is_open() && !self.has_spoken {
            io.queue(&mut b"goodbye"[..].into());
            self.has_spoken = true;
            return Pulse::HalfClose(None);
        }
        if self.has_spoken && io.is_drained() {
            return Pulse::Over;
        }
        Pulse::Dial { server: 0, by: None, ask: None }
    }
}

#[tokio::test]
async fn a_goodbye_does_not_wait_for_a_silent_peer() {
    let (listener, address) = listener();
    let mut wire = async_wire(address);
    let over = poll_fn(|cx| wire.poll(cx, &mut Leaver::default(), |_| None::<()>)).await;
    assert_eq!(over, None);
    let mut blocking_wire = blocking_wire(address);
    let drive = blocking_wire.drive(&mut Leaver::default(), None, |_| None::<()>);
    assert_eq!(drive, Drive::Over);
    for _ in 0..2 {
        let mut heard = String::new();
        listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "goodbye");
    }
}

/// Takes the answer only once the question is written, however early it comes.
#[derive(Default)]
struct Patient {
    has_asked: bool,
    answer: Option<usize>,
}

impl Role for Patient {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, _: Instant) -> Pulse {
        if io.is_open() && !self.has_asked {
            io.queue(&mut vec![b'q'; 8 << 20][..].into());
            self.has_asked = true;
        } else if self.has_asked && io.is_drained() && !io.data().is_empty() {
            self.answer = Some(io.take(usize::MAX).len());
        }
        if io.is_open() { Pulse::Go(None) } else { Pulse::Dial { server: 0, by: None, ask: None } }
    }
}

/// Answers before it reads the question.
fn answers_first() -> std::net::SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"yes").unwrap();
        // The answer is there long before there is room for the rest of the question.
        thread::sleep(Duration::from_millis(50));
        let mut buffer = vec![0; 1 << 20];
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    address
}

#[tokio::test]
async fn takes_an_answer_deferred_until_all_is_written() {
    let (mut role, mut wire) = (Patient::default(), async_wire(answers_first()));
    let answer = poll_fn(|cx| wire.poll(cx, &mut role, |role| role.answer)).await;
    assert_eq!(answer, Some(3));
    let address = answers_first();
    let answer = tokio::task::spawn_blocking(move || {
        blocking_wire(address).call(&mut Patient::default(), |role| role.answer)
    });
    assert_eq!(answer.await.unwrap(), Some(3));
}

#[test]
fn the_wire_is_returned_when_idle() {
    let (listener, address) = listener();
    echo(listener);
    let (mut asker, mut wire) = (Asker::new(), blocking_wire(address));
    assert_eq!(wire.drive(&mut asker, None, |_| None::<()>), Drive::Rest(None));
    asker.ask("once");
    assert_eq!(wire.drive(&mut asker, None, answered(1)), Drive::Done(1));
    assert_eq!(wire.drive(&mut asker, None, answered(2)), Drive::Rest(None));
    asker.ask("late");
    let at_most = Some(now());
    assert_eq!(wire.drive(&mut asker, at_most, answered(2)), Drive::Late);
    assert_eq!(wire.drive(&mut asker, None, answered(2)), Drive::Done(2));
}

/// Wants one attempt to connect, and is to be asked for another reason before that can have ended.
struct Distracted {
    by: Instant,
    ask: Instant,
    has_failed: bool,
}

impl Role for Distracted {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, _: Instant) -> Pulse {
        self.has_failed |= io.take_end().is_some();
        match self.has_failed {
            true => Pulse::Over,
            false => Pulse::Dial { server: 0, by: Some(self.by), ask: Some(self.ask) },
        }
    }
}

#[tokio::test]
async fn other_deadlines_do_not_end_a_connection_attempt() {
    let (by, ask) = (now() + Duration::from_secs(60), now() + Duration::from_millis(1));
    let role = || Distracted { by, ask, has_failed: false };
    let given = Arc::new(Mutex::new(Vec::new()));
    let noted = given.clone();
    let mut wire = Wire::new(move |_, by| -> Dialing<Error> {
        noted.lock().unwrap().push(by);
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(refused("nobody listens"))
        })
    });
    let mut async_role = role();
    assert_eq!(poll_fn(|cx| wire.poll(cx, &mut async_role, |_| None::<()>)).await, None);
    let noted = given.clone();
    let mut wire = blocking::Wire::new(move |_, by| {
        noted.lock().unwrap().push(by);
        Err(refused("nobody listens"))
    });
    assert_eq!(wire.drive(&mut role(), None, |_| None::<()>), Drive::Over);
    assert_eq!(*given.lock().unwrap(), [Some(by), Some(by)], "one attempt each, with all its time");
}
