//! A beanstalkd and the slots of its workers in one thread, with a clock that is turned by hand: a pump without
//! sockets.

use std::time::{Duration, Instant};

use beanstalk_client::{
    Error, JobFate, Outcome, WorkerEventKind, WorkerOptions,
    protocol::{Action, JobKey, ReservationChange, WorkerSlot},
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
use queue_core::{End, Io, Pulse, Role, proof::Steady};

/// What replaces the execution of one line: the answer to give instead; an empty one is silence, and
/// [`CLOSES`] the end of the connection.
type Fault = Box<dyn FnMut(&str) -> Option<&'static str>>;

pub(super) const CLOSES: &str = "closes";

pub(super) struct World {
    broker: Broker,
    began: Instant,
    now: Moment,
    lanes: Vec<Lane>,
    connections: Connections,
}

/// Gives every connection its own number.
struct Connections(u64);

impl Connections {
    fn next(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId(self.0)
    }
}

struct Lane {
    id: ConnectionId,
    /// Number of connections that may be made when the worker asks for one.
    connections: usize,
    /// The immediate outcome of every handler.
    at_once: Option<Outcome>,
    machine: Steady<WorkerSlot>,
    io: Io<Error>,
    /// When to poll the worker again.
    wake: Option<Instant>,
    decoder: Decoder,
    fault: Option<Fault>,
    /// How long replies wait here.
    latency: Duration,
    under_way: Vec<(Moment, Vec<u8>)>,
    is_half_closed: bool,
    is_open: bool,
    seen: Seen,
}

/// What one worker did, and what was reported to it.
#[derive(Default)]
pub(super) struct Seen {
    /// Lines it sent, with their time since the start.
    pub(super) lines: Vec<(Duration, String)>,
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
        }
    }

    fn instant(&self) -> Instant {
        self.began + self.now.since(Moment::START)
    }

    /// Connects a worker; returns its number.
    pub(super) fn worker(&mut self, options: &WorkerOptions) -> usize {
        self.worker_of(options, &["default"])
    }

    /// The same, for these tubes.
    pub(super) fn worker_of(&mut self, options: &WorkerOptions, tubes: &[&str]) -> usize {
        let tubes = tubes.iter().map(|tube| tube.parse().unwrap()).collect();
        self.lanes.push(Lane {
            id: ConnectionId(0),
            connections: 1,
            at_once: None,
            machine: Steady(WorkerSlot::new(options, 0, 0, tubes)),
            io: Io::default(),
            wake: None,
            decoder: Decoder::new(Version::default()),
            fault: None,
            latency: Duration::ZERO,
            under_way: Vec::new(),
            is_half_closed: false,
            is_open: false,
            seen: Seen::default(),
        });
        self.settle();
        self.lanes.len() - 1
    }

    pub(super) fn put(&mut self, ttr: u32) -> u64 {
        self.put_at(77, ttr)
    }

    /// Puts a job of this priority.
    pub(super) fn put_at(&mut self, priority: u32, ttr: u32) -> u64 {
        self.settle();
        let line = PutLine { priority, delay: 0, ttr, bytes: 1, trailing_garbage: false };
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

    /// The server's reply to another client's line.
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

    /// From now on, lost connections are replaced when the worker says so.
    pub(super) fn reconnects(&mut self, lane: usize) {
        self.lanes[lane].connections = usize::MAX;
    }

    /// From now on, every handler ends at once.
    pub(super) fn finish_at_once(&mut self, lane: usize, outcome: Outcome) {
        self.lanes[lane].at_once = Some(outcome);
        self.settle();
    }

    /// The connection is lost.
    pub(super) fn cut(&mut self, lane: usize) {
        self.lanes[lane].lose_connection();
        self.settle();
    }

    /// From now on, replies take this time.
    pub(super) fn latency(&mut self, lane: usize, latency: Duration) {
        self.lanes[lane].latency = latency;
    }

    /// The first running job's handler ends.
    pub(super) fn finish(&mut self, lane: usize, outcome: Outcome) {
        let now = self.instant();
        let (key, _) = self.lanes[lane].seen.running.remove(0);
        self.lanes[lane].machine.0.finish(key, outcome, 0, now);
        self.settle();
    }

    /// The first running job, whose handler does not end.
    pub(super) fn hold_back(&mut self, lane: usize) -> u64 {
        self.lanes[lane].seen.running.remove(0).1
    }

    /// Everything that happens until this much time has passed.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut in_vain = 0;
        loop {
            self.settle();
            let began = self.began;
            let wakes = self.lanes.iter_mut().filter_map(|lane| {
                let wake = lane.wake.map(|wake| Moment::START.after(wake - began));
                let reply = lane.under_way.first().map(|(at, _)| *at);
                [wake, reply].into_iter().flatten().min()
            });
            let next = wakes.chain(self.broker.next_event()).min().unwrap_or(end).min(end);
            if next >= end {
                self.now = end;
                self.broker.tick(end);
                self.settle();
                return;
            }
            // A moment that was already reached makes no progress by itself.
            in_vain = if next > self.now { 0 } else { in_vain + 1 };
            assert!(in_vain < 1000, "a worker wants to be woken at a moment that has passed");
            self.now = next.max(self.now.after(Duration::from_nanos(1)));
            self.broker.tick(self.now);
        }
    }

    /// Time that passes unnoticed, because the process was stopped.
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

    /// Exchanges bytes and actions until there are none.
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
                let at = At { now: self.now, instant, elapsed };
                let pulse = lane.step(&mut self.broker, at, &mut has_moved);
                has_moved |= lane.is_open && lane.ends(&mut self.broker, at, pulse);
                if matches!(pulse, Pulse::Dial { .. }) && lane.connections > 0 {
                    lane.connect(&mut self.broker, &mut self.connections, self.now);
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
    }
}

/// Now, as the broker, a worker and a test count it.
#[derive(Clone, Copy)]
struct At {
    now: Moment,
    instant: Instant,
    elapsed: Duration,
}

impl Lane {
    fn connect(&mut self, broker: &mut Broker, connections: &mut Connections, now: Moment) {
        self.connections = self.connections.saturating_sub(1);
        self.id = connections.next();
        self.decoder = Decoder::new(Version::default());
        (self.is_open, self.is_half_closed) = (true, false);
        self.seen.closed = None;
        self.seen.connections += 1;
        broker.connect(self.id, now);
        self.io.opened();
    }

    fn lose_connection(&mut self) {
        self.io.ended(End::Lost(std::io::ErrorKind::UnexpectedEof.into()));
    }

    /// Whether the connection ends here: the worker wants it to, or it was lost.
    fn ends(&mut self, broker: &mut Broker, at: At, pulse: Pulse) -> bool {
        let is_wanted = !matches!(pulse, Pulse::Close(_) | Pulse::Over | Pulse::Dial { .. });
        if is_wanted && self.io.is_open() {
            return false;
        }
        self.io.closed();
        self.is_open = false;
        self.under_way.clear();
        broker.disconnect(self.id, at.now);
        true
    }

    /// The worker's wishes after processing everything that has arrived.
    fn step(&mut self, broker: &mut Broker, at: At, has_moved: &mut bool) -> Pulse {
        while self.is_open && self.under_way.first().is_some_and(|(due, _)| *due <= at.now) {
            let (_, bytes) = self.under_way.remove(0);
            for chunk in bytes.chunks(64) {
                self.io.space()[..chunk.len()].copy_from_slice(chunk);
                self.io.came(chunk.len());
            }
            *has_moved = true;
        }
        let pulse = self.machine.exchange(&mut self.io, at.instant);
        self.wake = pulse.until();
        while let Some(action) = self.machine.0.next_action() {
            self.note(action, at);
            *has_moved = true;
        }
        if let Some(outcome) = self.at_once {
            for (key, _) in std::mem::take(&mut self.seen.running) {
                self.machine.0.finish(key, outcome, 0, at.instant);
                *has_moved = true;
            }
        }
        match pulse {
            Pulse::Over => self.seen.closed = Some(Ok(())),
            Pulse::Look | Pulse::Peek => {
                self.io.looked(at.instant);
                *has_moved = true;
            }
            Pulse::Go(_) | Pulse::HalfClose(_) | Pulse::Rest(_) if self.io.is_open() => {
                let half_closes = matches!(pulse, Pulse::HalfClose(_));
                *has_moved |= self.serve(broker, at, half_closes);
            }
            _ => {}
        }
        pulse
    }

    fn serve(&mut self, broker: &mut Broker, at: At, half_closes: bool) -> bool {
        let mut has_moved = false;
        let outgoing = self.io.unsent().to_vec();
        if !outgoing.is_empty() {
            self.io.took(outgoing.len(), at.instant);
            self.decoder.feed(&outgoing);
            has_moved = true;
        }
        if half_closes && !self.is_half_closed {
            self.is_half_closed = true;
            broker.half_close(self.id, at.now);
            has_moved = true;
        }
        while !broker.is_waiting(self.id) {
            let Some(Input::Line(line)) = self.decoder.next_input() else { break };
            let text = String::from_utf8(line.to_vec()).unwrap();
            self.seen.lines.push((at.elapsed, text.clone()));
            has_moved = true;
            match self.fault.as_mut().and_then(|fault| fault(&text)) {
                Some("") => {}
                Some(CLOSES) => {
                    self.lose_connection();
                    return true;
                }
                Some(answer) => {
                    self.under_way
                        .push((at.now.after(self.latency), format!("{answer}\r\n").into()));
                }
                None => match command::parse(text.as_bytes(), Version::default()).unwrap() {
                    Command::Quit => panic!("a worker does not quit"),
                    command => broker.execute(self.id, command, at.now),
                },
            }
            // The replies of one connection stay in their order.
            for (connection, reply) in broker.take_replies() {
                assert_eq!(connection, self.id, "one worker's command answers another");
                let mut bytes = Vec::new();
                reply.encode(&mut bytes);
                self.under_way.push((at.now.after(self.latency), bytes));
            }
        }
        has_moved
    }

    fn note(&mut self, action: Action, at: At) {
        let said = match action {
            Action::Run(taken) => {
                let id = taken.job.id.get();
                self.seen.running.push((taken.key, id));
                format!("run {id}")
            }
            Action::Update(_, ReservationChange::Lost(reason)) => format!("lost: {reason}"),
            Action::Update(_, ReservationChange::Touched(_)) => "touched".into(),
            Action::Update(_, ReservationChange::TouchRefused(kind)) => {
                format!("touch refused: {kind:?}")
            }
            Action::Tell(what) => self.note_event(what),
            other => format!("{other:?}").to_lowercase(),
        };
        self.seen.actions.push((at.elapsed, said));
    }

    fn note_event(&mut self, what: WorkerEventKind) -> String {
        match what {
            WorkerEventKind::Settled { job, fate } => {
                self.seen.settled.push((job.get(), fate));
                format!("{} {job}", fate.word())
            }
            WorkerEventKind::Disconnected(error) => {
                self.seen.closed = Some(Err(error.to_string()));
                format!("disconnected: {error}")
            }
            WorkerEventKind::Refused { command, reply, in_a_row, .. } => {
                format!("refused {in_a_row}: {reply} to {command}")
            }
            other => format!("{other:?}").to_lowercase(),
        }
    }
}
