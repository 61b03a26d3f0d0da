//! A beanstalkd and the state machines of its workers in one thread, with a clock that is turned by hand.

use std::time::{Duration, Instant};

use beanstalk_client::{
    JobFate, Outcome, WorkerOptions,
    protocol::{Action, JobKey, Quota, WorkerSession},
};
use fixtures::{
    beanstalkd::{
        Version,
        broker::{Broker, ConnectionId, Settings},
        command::{self, Command, PutLine},
        decode::{Decoder, Input},
    },
    clock::Moment,
};

/// What stands in the way of one line: the answer to give instead of carrying it out; an empty one is silence, and
/// [`CLOSES`] the end of the connection.
type Fault = Box<dyn FnMut(&str) -> Option<&'static str>>;

pub(super) const CLOSES: &str = "closes";

pub(super) struct World {
    broker: Broker,
    began: Instant,
    now: Moment,
    lanes: Vec<Lane>,
    connections: Connections,
    /// Connections whose end the server has not noticed.
    unnoticed: Vec<ConnectionId>,
}

/// Gives every connection a number of its own.
struct Connections(u64);

impl Connections {
    fn next(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId(self.0)
    }
}

struct Lane {
    id: ConnectionId,
    /// When a lost connection is replaced; `None` while there is one, and for ever if it is to stay away.
    back_at: Option<Moment>,
    reconnects: bool,
    /// What every handler comes to at once.
    at_once: Option<Outcome>,
    machine: WorkerSession,
    decoder: Decoder,
    fault: Option<Fault>,
    /// Replies wait here for so long.
    latency: Duration,
    under_way: Vec<(Moment, Vec<u8>)>,
    half_closes: bool,
    is_open: bool,
    seen: Seen,
}

/// What one worker did and was told.
#[derive(Default)]
pub(super) struct Seen {
    /// Lines it sent, with their time since the start.
    pub(super) lines: Vec<(Duration, String)>,
    /// What it sent in one piece.
    pub(super) writes: Vec<String>,
    /// Jobs for its handler that have not ended.
    pub(super) running: Vec<(JobKey, u64)>,
    pub(super) actions: Vec<(Duration, String)>,
    pub(super) settled: Vec<(u64, JobFate)>,
    pub(super) closed: Option<Result<(), String>>,
    pub(super) connections: usize,
}

impl Seen {
    /// When lines of this verb were sent.
    pub(super) fn times(&self, verb: &str) -> Vec<Duration> {
        let of_verb = |(_, line): &&(Duration, String)| line.split(' ').next() == Some(verb);
        self.lines.iter().filter(of_verb).map(|(at, _)| *at).collect()
    }

    pub(super) fn count(&self, verb: &str) -> usize {
        self.times(verb).len()
    }

    pub(super) fn said(&self, what: &str) -> usize {
        self.actions.iter().filter(|(_, said)| said.starts_with(what)).count()
    }
}

const PRODUCER: ConnectionId = ConnectionId(1);

impl World {
    pub(super) fn new() -> Self {
        let mut broker = Broker::new(Settings::default());
        broker.connect(PRODUCER, Moment::START);
        World {
            broker,
            began: Instant::now(),
            now: Moment::START,
            lanes: Vec::new(),
            connections: Connections(1),
            unnoticed: Vec::new(),
        }
    }

    fn instant(&self) -> Instant {
        self.began + self.now.since(Moment::START)
    }

    /// Connects a worker; its number.
    pub(super) fn worker(&mut self, options: &WorkerOptions) -> usize {
        let id = self.connections.next();
        self.broker.connect(id, self.now);
        let machine = WorkerSession::new(options, 0, Quota::new(None), self.instant());
        self.lanes.push(Lane {
            id,
            back_at: None,
            reconnects: false,
            at_once: None,
            machine,
            decoder: Decoder::new(Version::default()),
            fault: None,
            latency: Duration::ZERO,
            under_way: Vec::new(),
            half_closes: false,
            is_open: true,
            seen: Seen { connections: 1, ..Seen::default() },
        });
        self.settle();
        self.lanes.len() - 1
    }

    pub(super) fn put(&mut self, ttr: u32) -> u64 {
        self.settle();
        let line = PutLine { priority: 77, delay: 0, ttr, bytes: 1, trailing_garbage: false };
        self.broker.put_line(PRODUCER, line, self.now);
        self.broker.put_body(PRODUCER, b"x", true, self.now);
        let replies = self.broker.take_replies();
        let mut id = 0;
        for (connection, reply) in replies {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            if connection == PRODUCER {
                let text = String::from_utf8(bytes).unwrap();
                id = text.trim().strip_prefix("INSERTED ").unwrap().parse().unwrap();
            } else {
                self.deliver(connection, bytes);
            }
        }
        self.settle();
        id
    }

    /// What the server says to a line of an outsider.
    pub(super) fn ask(&mut self, line: &str) -> String {
        let command = command::parse(line.as_bytes(), Version::default()).unwrap();
        self.broker.execute(PRODUCER, command, self.now);
        let mut said = Vec::new();
        for (connection, reply) in self.broker.take_replies() {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            if connection == PRODUCER {
                said = bytes;
            } else {
                self.deliver(connection, bytes);
            }
        }
        self.settle();
        String::from_utf8(said).unwrap()
    }

    /// A field of `stats-job`.
    pub(super) fn stat(&mut self, job: u64, key: &str) -> String {
        let text = self.ask(&format!("stats-job {job}"));
        let prefix = format!("{key}: ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("gone").to_owned()
    }

    pub(super) fn seen(&self, lane: usize) -> &Seen {
        &self.lanes[lane].seen
    }

    pub(super) fn fault(
        &mut self,
        lane: usize,
        fault: impl FnMut(&str) -> Option<&'static str> + 'static,
    ) {
        self.lanes[lane].fault = Some(Box::new(fault));
    }

    /// From now on lost connections are replaced when the worker says so.
    pub(super) fn reconnects(&mut self, lane: usize) {
        self.lanes[lane].reconnects = true;
    }

    /// From now on every handler ends at once.
    pub(super) fn finish_at_once(&mut self, lane: usize, outcome: Outcome) {
        self.lanes[lane].at_once = Some(outcome);
        self.settle();
    }

    /// The connection is lost, and is replaced at [`come_back`](Self::come_back).
    pub(super) fn cut(&mut self, lane: usize) {
        self.lanes[lane].machine.end_of_stream();
        self.settle();
    }

    /// The same, and the server does not notice before [`notice`](Self::notice).
    pub(super) fn cut_unnoticed(&mut self, lane: usize) {
        let id = self.lanes[lane].id;
        self.unnoticed.push(id);
        self.cut(lane);
    }

    pub(super) fn notice(&mut self) {
        for id in std::mem::take(&mut self.unnoticed) {
            self.broker.disconnect(id, self.now);
        }
        self.settle();
    }

    /// The lost connection is replaced now.
    pub(super) fn come_back(&mut self, lane: usize) {
        self.lanes[lane].back_at = Some(self.now);
        self.settle();
    }

    /// From now on replies take this time.
    pub(super) fn latency(&mut self, lane: usize, latency: Duration) {
        self.lanes[lane].latency = latency;
    }

    /// The first running job's handler ends.
    pub(super) fn finish(&mut self, lane: usize, outcome: Outcome) {
        let now = self.instant();
        let (key, _) = self.lanes[lane].seen.running.remove(0);
        self.lanes[lane].machine.finish(key, outcome, now);
        self.settle();
    }

    /// The first running job's handler does not end; the job.
    pub(super) fn hold_back(&mut self, lane: usize) -> u64 {
        self.lanes[lane].seen.running.remove(0).1
    }

    /// Something is done with the machine itself.
    pub(super) fn with(&mut self, lane: usize, act: impl FnOnce(&mut WorkerSession, Instant)) {
        let now = self.instant();
        act(&mut self.lanes[lane].machine, now);
        self.settle();
    }

    /// Everything that happens until so much time has passed.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut in_vain = 0;
        loop {
            self.settle();
            let began = self.began;
            let wakes = self.lanes.iter_mut().filter_map(|lane| {
                let wake = match lane.machine.poll(began + self.now.since(Moment::START)) {
                    Action::Wait(until) => until,
                    other => panic!("{other:?} was left"),
                };
                let wake = wake.map(|wake| Moment::START.after(wake - began));
                let reply = lane.under_way.first().map(|(at, _)| *at);
                [wake, reply, lane.back_at].into_iter().flatten().min()
            });
            let next = wakes.chain(self.broker.next_event()).min().unwrap_or(end).min(end);
            if next >= end {
                self.now = end;
                self.broker.tick(end);
                self.settle();
                return;
            }
            // A moment that was reached already makes no progress by itself.
            in_vain = if next > self.now { 0 } else { in_vain + 1 };
            assert!(in_vain < 1000, "a worker wants to be woken at a moment that has passed");
            self.now = next.max(self.now.after(Duration::from_nanos(1)));
            self.broker.tick(self.now);
        }
    }

    /// Time that nobody of this side notices: the process was stopped.
    pub(super) fn sleep_through(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(next) = self.broker.next_event().filter(|next| *next < end) {
            self.broker.tick(next);
        }
        self.now = end;
        self.broker.tick(end);
    }

    fn deliver(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == connection) {
            lane.under_way.push((self.now.after(lane.latency), bytes));
        }
    }

    /// Lets bytes and actions go to and fro until there are none.
    fn settle(&mut self) {
        loop {
            let mut has_moved = false;
            for (connection, reply) in self.broker.take_replies() {
                let mut bytes = Vec::new();
                reply.encode(&mut bytes);
                self.deliver(connection, bytes);
                has_moved = true;
            }
            let instant = self.instant();
            let elapsed = self.now.since(Moment::START);
            for lane in &mut self.lanes {
                has_moved |=
                    lane.reconnect(&mut self.broker, &mut self.connections, self.now, instant);
                let id = lane.id;
                has_moved |= lane.step(&mut self.broker, self.now, instant, elapsed);
                if lane.ended(&mut self.broker, self.now, instant, &self.unnoticed) {
                    assert_eq!(lane.id, id);
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
    }
}

impl Lane {
    fn reconnect(
        &mut self,
        broker: &mut Broker,
        connections: &mut Connections,
        now: Moment,
        instant: Instant,
    ) -> bool {
        let is_due = self.back_at.is_some_and(|at| at <= now);
        if is_due {
            self.back_at = None;
            self.id = connections.next();
            self.decoder = Decoder::new(Version::default());
            self.is_open = true;
            self.seen.closed = None;
            self.seen.connections += 1;
            broker.connect(self.id, now);
            self.machine.connected(instant);
        }
        is_due
    }

    /// Whether the connection has just ended.
    fn ended(
        &mut self,
        broker: &mut Broker,
        now: Moment,
        instant: Instant,
        unnoticed: &[ConnectionId],
    ) -> bool {
        if !self.is_open || self.seen.closed.is_none() {
            return false;
        }
        self.is_open = false;
        self.half_closes = false;
        self.under_way.clear();
        if !unnoticed.contains(&self.id) {
            broker.disconnect(self.id, now);
        }
        if self.reconnects {
            self.back_at = Some(now.after(self.machine.rest(instant)));
        }
        true
    }

    fn step(
        &mut self,
        broker: &mut Broker,
        now: Moment,
        instant: Instant,
        elapsed: Duration,
    ) -> bool {
        let mut has_moved = false;
        while self.under_way.first().is_some_and(|(at, _)| *at <= now) {
            let (_, bytes) = self.under_way.remove(0);
            for chunk in bytes.chunks(64) {
                self.machine.space()[..chunk.len()].copy_from_slice(chunk);
                self.machine.received(chunk.len());
            }
            has_moved = true;
        }
        loop {
            match self.machine.poll(instant) {
                Action::Wait(_) => break,
                Action::Close(outcome) => {
                    self.seen.closed = Some(outcome.map_err(|error| error.to_string()));
                    return true;
                }
                action => self.note(action, elapsed),
            }
            has_moved = true;
        }
        if let Some(outcome) = self.at_once {
            for (key, _) in std::mem::take(&mut self.seen.running) {
                self.machine.finish(key, outcome, instant);
                has_moved = true;
            }
        }
        if !self.is_open {
            return has_moved;
        }
        let outgoing = self.machine.outgoing().to_vec();
        if !outgoing.is_empty() {
            self.machine.sent(outgoing.len());
            self.decoder.feed(&outgoing);
            self.seen.writes.push(String::from_utf8(outgoing).unwrap());
            has_moved = true;
        }
        if self.half_closes {
            self.half_closes = false;
            broker.half_close(self.id, now);
            has_moved = true;
        }
        while !broker.is_waiting(self.id) {
            let Some(Input::Line(line)) = self.decoder.next_input() else { break };
            let text = String::from_utf8(line.to_vec()).unwrap();
            self.seen.lines.push((elapsed, text.clone()));
            has_moved = true;
            match self.fault.as_mut().and_then(|fault| fault(&text)) {
                Some("") => {}
                Some(CLOSES) => {
                    self.machine.end_of_stream();
                    return true;
                }
                Some(answer) => {
                    self.under_way.push((now.after(self.latency), format!("{answer}\r\n").into()));
                }
                None => match command::parse(text.as_bytes(), Version::default()).unwrap() {
                    Command::Quit => panic!("a worker does not quit"),
                    command => broker.execute(self.id, command, now),
                },
            }
            // The replies of one connection stay in their order.
            for (connection, reply) in broker.take_replies() {
                assert_eq!(connection, self.id, "one worker's command answers another");
                let mut bytes = Vec::new();
                reply.encode(&mut bytes);
                self.under_way.push((now.after(self.latency), bytes));
            }
        }
        has_moved
    }

    fn note(&mut self, action: Action, elapsed: Duration) {
        let said = match action {
            Action::Run(taken) => {
                let id = taken.job.id.get();
                self.seen.running.push((taken.key, id));
                format!("run {id}")
            }
            Action::Settled(job, fate) => {
                self.seen.settled.push((job.get(), fate));
                format!("{} {job}", fate.word())
            }
            Action::HalfClose => {
                self.half_closes = true;
                "half-close".into()
            }
            Action::Lost(_, reason) => format!("lost: {reason}"),
            Action::Reclaimed(_, job, _) => format!("reclaimed {job}"),
            Action::Refused { command, reply, in_a_row, .. } => {
                format!("refused {in_a_row}: {reply} to {command}")
            }
            Action::Touched(..) => "touched".into(),
            Action::TouchRefused(_, kind) => format!("touch refused: {kind:?}"),
            other => format!("{other:?}").to_lowercase(),
        };
        self.seen.actions.push((elapsed, said));
    }
}
