//! The in-memory beanstalkd and the slots of its workers in one thread, with a clock that is turned by hand: a pump without
//! sockets.

use std::{
    io::ErrorKind::UnexpectedEof,
    time::{Duration, Instant},
};

use beanstalk_client::{
    JobFate, Outcome, WorkerEventKind, WorkerOptions,
    protocol::{Action, JobKey, ReservationChange, WorkerSlot},
};
use fixtures::{ConnectionId, beanstalkd::Server, offline::Offline};
use queue_core::{Pulse, proof::ByHand};

/// What replaces the execution of one line: the answer to give instead; an empty one is silence, and
/// [`CLOSES`] the end of the connection.
type Fault = Box<dyn FnMut(&str) -> Option<&'static str>>;

pub(super) const CLOSES: &str = "closes";

pub(super) struct World {
    server: Offline,
    producer: ConnectionId,
    began: Instant,
    /// Time since then.
    elapsed: Duration,
    lanes: Vec<Lane>,
}

struct Lane {
    id: Option<ConnectionId>,
    /// Number of connections that may be made when the worker asks for one.
    connections: usize,
    /// The immediate outcome of every handler.
    at_once: Option<Outcome>,
    hand: ByHand<WorkerSlot>,
    /// When to poll the worker again.
    wake: Option<Instant>,
    fault: Option<Fault>,
    /// How long replies wait here.
    latency: Duration,
    under_way: Vec<(Duration, Vec<u8>)>,
    is_half_closed: bool,
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

impl World {
    pub(super) fn new() -> Self {
        let mut server = Server::builder().offline();
        World {
            producer: server.connect(),
            server,
            began: Instant::now(),
            elapsed: Duration::ZERO,
            lanes: Vec::new(),
        }
    }

    fn instant(&self) -> Instant {
        self.began + self.elapsed
    }

    /// Connects a worker; returns its number.
    pub(super) fn worker(&mut self, options: &WorkerOptions) -> usize {
        self.worker_of(options, &["default"])
    }

    /// The same, for these tubes.
    pub(super) fn worker_of(&mut self, options: &WorkerOptions, tubes: &[&str]) -> usize {
        let tubes = tubes.iter().map(|tube| tube.parse().unwrap()).collect();
        self.lanes.push(Lane {
            id: None,
            connections: 1,
            at_once: None,
            hand: ByHand::new(WorkerSlot::new(options, 0, 0, tubes)),
            wake: None,
            fault: None,
            latency: Duration::ZERO,
            under_way: Vec::new(),
            is_half_closed: false,
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
        let inserted = self.ask(&format!("put {priority} 0 {ttr} 1\r\nx"));
        inserted.trim().strip_prefix("INSERTED ").unwrap().parse().unwrap()
    }

    /// The server's reply to another client's line.
    pub(super) fn ask(&mut self, line: &str) -> String {
        self.server.send(self.producer, format!("{line}\r\n").as_bytes());
        let said = self.server.receive(self.producer).bytes;
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
        self.lanes[lane].hand.loses(UnexpectedEof);
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
        self.lanes[lane].hand.role.0.finish(key, outcome, 0, now);
        self.settle();
    }

    /// The first running job, whose handler does not end.
    pub(super) fn hold_back(&mut self, lane: usize) -> u64 {
        self.lanes[lane].seen.running.remove(0).1
    }

    /// Everything that happens until this much time has passed.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.elapsed + time;
        let mut in_vain = 0;
        while self.elapsed < end {
            self.settle();
            let wakes = self.lanes.iter().filter_map(|lane| {
                let wake = lane.wake.map(|wake| wake.saturating_duration_since(self.began));
                let reply = lane.under_way.first().map(|(at, _)| *at);
                [wake, reply].into_iter().flatten().min()
            });
            let event = self.server.idle_for().map(|time| self.elapsed + time);
            let next = wakes.chain(event).min().unwrap_or(end).min(end);
            // A moment that was already reached makes no progress by itself.
            in_vain = if next > self.elapsed { 0 } else { in_vain + 1 };
            assert!(in_vain < 1000, "a worker wants to be woken at a moment that has passed");
            self.sleep_through(next.saturating_sub(self.elapsed).max(Duration::from_nanos(1)));
        }
        self.settle();
    }

    /// Time that passes unnoticed, because the process was stopped.
    pub(super) fn sleep_through(&mut self, time: Duration) {
        self.elapsed += time;
        self.server.advance(time);
    }

    /// Exchanges bytes and actions until there are none.
    fn settle(&mut self) {
        loop {
            let mut has_moved = false;
            for lane in &mut self.lanes {
                lane.hand.now = self.began + self.elapsed;
                has_moved |= lane.step(&mut self.server, self.elapsed);
            }
            if !has_moved {
                return;
            }
        }
    }
}

impl Lane {
    /// Lets the worker process everything that has arrived, and does what it wants; returns whether anything happened.
    fn step(&mut self, server: &mut Offline, now: Duration) -> bool {
        let mut has_moved = self.receive(server, now);
        while self.under_way.first().is_some_and(|(due, _)| *due <= now) {
            self.hand.comes(&self.under_way.remove(0).1);
            has_moved = true;
        }
        let pulse = self.hand.turn();
        self.wake = pulse.until();
        while let Some(action) = self.hand.role.0.next_action() {
            self.note(action, now);
            has_moved = true;
        }
        if let Some(outcome) = self.at_once {
            for (key, _) in std::mem::take(&mut self.seen.running) {
                self.hand.role.0.finish(key, outcome, 0, self.hand.now);
                has_moved = true;
            }
        }
        match pulse {
            Pulse::Over => self.seen.closed = Some(Ok(())),
            Pulse::Look | Pulse::Peek => {
                self.hand.looked();
                has_moved = true;
            }
            Pulse::Go(_) | Pulse::HalfClose(_) | Pulse::Rest(_) if self.hand.io().is_open() => {
                has_moved |= self.serve(server, now, matches!(pulse, Pulse::HalfClose(_)));
            }
            _ => {}
        }
        let is_wanted = !matches!(pulse, Pulse::Close(_) | Pulse::Over | Pulse::Dial { .. });
        if let Some(id) = self.id.take_if(|_| !is_wanted || !self.hand.io().is_open()) {
            self.hand.closes();
            self.under_way.clear();
            server.hang_up(id);
            has_moved = true;
        }
        if matches!(pulse, Pulse::Dial { .. }) && self.connections > 0 {
            self.connections = self.connections.saturating_sub(1);
            (self.id, self.is_half_closed) = (Some(server.connect()), false);
            self.seen.closed = None;
            self.seen.connections += 1;
            self.hand.opens();
            has_moved = true;
        }
        has_moved
    }

    /// What the server says is under way.
    fn receive(&mut self, server: &mut Offline, now: Duration) -> bool {
        let said = self.id.map_or(Vec::new(), |id| server.receive(id).bytes);
        let is_something = !said.is_empty();
        self.under_way.extend(is_something.then(|| (now + self.latency, said)));
        is_something
    }

    fn serve(&mut self, server: &mut Offline, now: Duration, half_closes: bool) -> bool {
        let id = self.id.unwrap();
        let is_news = half_closes && !self.is_half_closed;
        if self.hand.unsent().is_empty() && !is_news {
            return false;
        }
        let lines = String::from_utf8(self.hand.takes_all()).unwrap();
        for line in lines.split_terminator("\r\n") {
            self.seen.lines.push((now, line.to_owned()));
            match self.fault.as_mut().and_then(|fault| fault(line)) {
                Some("") => {}
                Some(CLOSES) => {
                    self.hand.loses(UnexpectedEof);
                    return true;
                }
                Some(answer) => {
                    self.under_way.push((now + self.latency, format!("{answer}\r\n").into()));
                }
                None => server.send(id, format!("{line}\r\n").as_bytes()),
            }
            // The replies of one connection stay in their order.
            self.receive(server, now);
        }
        if is_news {
            self.is_half_closed = true;
            server.half_close(id);
        }
        true
    }

    fn note(&mut self, action: Action, now: Duration) {
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
        self.seen.actions.push((now, said));
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
