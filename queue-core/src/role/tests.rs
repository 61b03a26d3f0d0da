//! A small role under both pumps, and under one without sockets.
#![cfg(all(feature = "tokio", feature = "blocking"))]

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use bytes::BytesMut;

use crate::{
    Awaits, Deadlines, Driver, Duplex, End, Error, Expects, Io, Life, Loss, Need, Protocol, Pulse,
    Replace, RetryPolicy, Role, Shared, Wire,
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

#[test]
fn the_blocking_pump_writes_and_reads_while_the_peer_only_writes() {
    let (listener, address) = listener();
    let question = "q".repeat(64 << 10);
    writes_first(listener, question.clone(), 256);
    let (mut asker, mut wire) = (Asker::patient(), blocking_wire(address));
    for _ in 0..256 {
        asker.ask(&question);
    }
    assert_eq!(wire.call(&mut asker, answered(256)), Some(256));
}

/// Accepts, says nothing, and keeps the connection.
fn silent(listener: TcpListener) {
    thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().collect();
        drop(kept);
    });
}

#[tokio::test(start_paused = true)]
async fn the_roles_deadline_ends_an_async_wait() {
    let (listener, address) = listener();
    let (mut asker, mut wire) = (Asker::new(), async_wire(address));
    silent(listener);
    asker.ask("anybody?");
    let start = now();
    let answered = poll_fn(|cx| wire.poll(cx, &mut asker, answered(1))).await;
    assert_eq!((answered, asker.outcomes[0].1), (Some(0), Err(true)));
    assert!(start.elapsed() < Duration::from_secs(10), "by virtual time");
    assert!(!wire.io().is_open(), "it is closed before the outcome is reported");
}

/// A flood that answers nothing does not keep a deadline from passing, nor other tasks from their turn.
#[tokio::test]
async fn a_flood_holds_up_neither_deadlines_nor_other_tasks() {
    struct Bounded(Instant, bool);
    impl Role for Bounded {
        type Failure = Error;
        fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
            io.take(usize::MAX);
            self.1 |= self.0 <= now;
            match self.1 {
                true => Pulse::Close(None),
                false if io.is_open() => Pulse::Go(Some(self.0)),
                false => Pulse::Dial { server: 0, by: Some(self.0), ask: None },
            }
        }
    }
    let (listener, address) = listener();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[0; 64 << 10]).is_ok() {}
    });
    let (mut wire, end) = (async_wire(address), now() + Duration::from_millis(300));
    let turns = Arc::new(Mutex::new(0));
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            *counted.lock().unwrap() += 1;
            tokio::task::yield_now().await;
        }
    });
    let mut role = Bounded(end, false);
    let over = poll_fn(|cx| wire.poll(cx, &mut role, |role| role.1.then_some(()))).await;
    other.abort();
    assert_eq!(over, Some(()));
    assert!(*turns.lock().unwrap() > 5);

    let (listener, address) = self::listener();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&[0; 64 << 10]).is_ok() {}
    });
    let mut role = Bounded(now() + Duration::from_millis(300), false);
    let over = tokio::task::spawn_blocking(move || {
        blocking_wire(address).call(&mut role, |role| role.1.then_some(()))
    });
    assert_eq!(over.await.unwrap(), Some(()));
}

#[tokio::test]
async fn callers_of_a_shared_role_get_their_answers_over_one_connection() {
    let (listener, address) = listener();
    echo(listener);
    let shared = Shared::new(Asker::new());
    let driver = tokio::spawn(Driver::new(shared.clone(), async_wire(address)));
    let callers = (0..64).map(|n| {
        let shared = shared.clone();
        tokio::spawn(async move {
            let question = format!("caller {n}");
            shared.with(|asker| (asker.ask(&question), true));
            poll_fn(|cx| shared.with(|asker| (outcome(asker, &question, cx.waker()), false))).await
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        assert_eq!(caller.await.unwrap(), Ok(()));
    }
    shared.with(|asker| (asker.is_closing = true, true));
    driver.await.unwrap();
}

fn outcome(asker: &mut Asker, question: &str, waker: &Waker) -> Poll<Result<(), bool>> {
    match asker.outcomes.iter().find(|(asked, _)| asked == question) {
        Some((_, outcome)) => Poll::Ready(*outcome),
        None => {
            asker.callers.push(waker.clone());
            Poll::Pending
        }
    }
}

#[tokio::test]
async fn a_dropped_driver_fails_its_callers() {
    let (listener, address) = listener();
    let (heard, was_heard) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; "anybody?\n".len()]).unwrap();
        heard.send(()).unwrap();
        let _ = stream.read(&mut [0]);
    });
    let shared = Shared::new(Asker::new());
    let driver = tokio::spawn(Driver::new(shared.clone(), async_wire(address)));
    shared.with(|asker| (asker.ask("anybody?"), true));
    let waiting = shared.clone();
    let caller = tokio::spawn(async move {
        poll_fn(|cx| waiting.with(|asker| (outcome(asker, "anybody?", cx.waker()), false))).await
    });
    while was_heard.try_recv().is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    driver.abort();
    assert_eq!(caller.await.unwrap(), Err(true));
}

#[test]
fn the_peer_sees_a_half_close_after_the_data() {
    let (listener, address) = listener();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        all
    });
    struct Last(bool);
    impl Role for Last {
        type Failure = Error;
        fn exchange(&mut self, io: &mut Io<Error>, _: Instant) -> Pulse {
            if let Some(End::Lost(error)) = io.take_end() {
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                return Pulse::Over;
            }
            if io.is_open() && !self.0 {
                io.queue(&mut b"last words"[..].into());
                self.0 = true;
            }
            match self.0 {
                true if io.is_open() => Pulse::HalfClose(None),
                true => Pulse::Over,
                false => Pulse::Dial { server: 0, by: None, ask: None },
            }
        }
    }
    let drive = blocking_wire(address).drive(&mut Last(false), None, |_| None::<()>);
    assert_eq!(drive, Drive::Over);
    assert_eq!(peer.join().unwrap(), b"last words");
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

#[test]
fn writes_pushes_without_a_waiter() {
    let (listener, address) = listener();
    let question = "q".repeat(64 << 10);
    writes_first(listener, question.clone(), 64);
    let (mut asker, mut wire) = (Asker::new(), blocking_wire(address));
    assert_eq!(wire.drive(&mut asker, None, |_| None::<()>), Drive::Rest(None));
    asker.ask("first");
    wire.push(&mut asker);
    assert!(!asker.life.is_open() && !wire.io().is_open(), "it makes no connection");
    let mut wire = blocking_wire(address);
    let mut asker = Asker::new();
    asker.ask(&question);
    wire.drive(&mut asker, None, |asker| asker.life.is_open().then_some(()));
    for _ in 1..64 {
        asker.ask(&question);
    }
    wire.push(&mut asker);
    assert!(wire.io().is_drained(), "also while the peer only writes");
    assert_eq!(wire.drive(&mut asker, None, answered(64)), Drive::Done(64));
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
