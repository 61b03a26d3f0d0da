//! The scenarios, and what runs them.

use std::time::Duration;

use anyhow::Result;

pub use crate::kind::Kind;

/// How many commands a pipeline has in flight, and how many jobs a worker that takes them in advance holds.
pub const WINDOW: usize = 256;

/// What is done with each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Puts, each waiting for its reply.
    Put,
    /// Puts in a pipeline.
    PutPipelined,
    /// Puts of this number of callers, each waiting for its reply; ours and the raw loop have one connection for all of
    /// them.
    PutCallers(usize),
    /// Reserve and delete one job at a time; the delete and the next reserve go out in one write.
    Take,
    /// Reserve and delete one job at a time, each waiting for its reply.
    TakeInTwoTrips,
    /// Reserve and delete in a pipeline until nothing is left.
    Drain,
    /// A worker whose handler does nothing, until nothing is left.
    Work(Workers),
}

/// How a worker takes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Connections, each with a job at a time.
    pub slots: usize,
    /// How many jobs a connection may hold.
    pub prefetch: usize,
    /// Whether the counters of every job are read before it is run.
    pub inspects: bool,
}

impl Task {
    /// Whether jobs have to be there before it starts; otherwise it leaves jobs behind.
    pub fn takes(self) -> bool {
        !matches!(self, Task::Put | Task::PutPipelined | Task::PutCallers(_))
    }

    /// Number of threads, each with a connection, that it needs with a client that cannot do better.
    pub fn threads(self) -> usize {
        match self {
            Task::PutCallers(callers) => callers,
            Task::Work(workers) => workers.slots,
            _ => 1,
        }
    }
}

/// One line of the table for each face.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub task: Task,
    /// The size of the bodies, in bytes.
    pub size: usize,
    /// The fewest jobs of one run.
    pub fewest_jobs: u64,
    /// The most jobs of one run.
    pub most_jobs: u64,
    /// The faces, with the ratio to the raw loop that each should reach.
    pub faces: &'static [(Kind, Option<f64>)],
    /// How many times faster than the best peer each face should be.
    pub peer_target: Option<f64>,
}

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 20] = [
    scenario("put 64 B", Task::Put, 64)
        .reaches(&[(Kind::Blocking, Some(0.95)), (Kind::Async, Some(0.9))]),
    scenario("put 1 KiB", Task::Put, 1024),
    scenario("put 60 KiB", Task::Put, 60 * 1024),
    scenario("put 64 B, pipeline", Task::PutPipelined, 64).reaches(&BOTH_085),
    scenario("put 1 KiB, pipeline", Task::PutPipelined, 1024),
    scenario("put 60 KiB, pipeline", Task::PutPipelined, 60 * 1024),
    scenario("put 64 B, 64 callers", Task::PutCallers(64), 64).reaches(&[
        (Kind::Blocking, None),
        (Kind::Async, Some(0.85)),
        (Kind::Multi, Some(0.6)),
    ]),
    scenario("put 64 B, 1,000 callers", Task::PutCallers(1000), 64).reaches(&ALL).fewest(20_000),
    scenario("put 1 KiB, 64 callers", Task::PutCallers(64), 1024).reaches(&ALL),
    scenario("reserve+delete 64 B", Task::Take, 64)
        .reaches(&[(Kind::Blocking, Some(0.9)), (Kind::Async, Some(0.9))]),
    scenario("reserve, delete 64 B", Task::TakeInTwoTrips, 64),
    scenario("drain 64 B, pipeline", Task::Drain, 64).reaches(&BOTH_085),
    scenario("drain 1 KiB, pipeline", Task::Drain, 1024),
    scenario("drain 60 KiB, pipeline", Task::Drain, 60 * 1024),
    scenario("worker 64 B, 1 slot", work(1, 1), 64).reaches(&ALL),
    scenario("worker 64 B, 4 slots", work(4, 1), 64).reaches(&ALL),
    scenario("worker 64 B, 16 slots", work(16, 1), 64).reaches(&ALL),
    scenario("worker 64 B, 1 slot, inspected", inspected(work(1, 1)), 64).reaches(&ALL),
    scenario("worker 64 B, prefetch", work(1, WINDOW), 64)
        .reaches(&[(Kind::Blocking, Some(0.85)), (Kind::Async, Some(0.85)), (Kind::Multi, None)])
        .beside_peers(3.0),
    scenario("worker 64 B, prefetch, inspected", inspected(work(1, WINDOW)), 64).reaches(&ALL),
];

const UNTARGETED: [(Kind, Option<f64>); 2] = [(Kind::Blocking, None), (Kind::Async, None)];
const BOTH_085: [(Kind, Option<f64>); 2] =
    [(Kind::Blocking, Some(0.85)), (Kind::Async, Some(0.85))];
const ALL: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, None), (Kind::Async, None), (Kind::Multi, None)];

const fn work(slots: usize, prefetch: usize) -> Task {
    Task::Work(Workers { slots, prefetch, inspects: false })
}

const fn inspected(task: Task) -> Task {
    match task {
        Task::Work(workers) => Task::Work(Workers { inspects: true, ..workers }),
        other => other,
    }
}

const fn scenario(name: &'static str, task: Task, size: usize) -> Scenario {
    // Keeps the server's memory below 128 MiB.
    let most_jobs = if size > 4096 { 2_000 } else { 40_000 };
    let (faces, peer_target) = (&UNTARGETED, None);
    Scenario { name, task, size, fewest_jobs: 64, most_jobs, faces, peer_target }
}

impl Scenario {
    const fn reaches(self, faces: &'static [(Kind, Option<f64>)]) -> Self {
        Scenario { faces, ..self }
    }

    const fn beside_peers(self, times: f64) -> Self {
        Scenario { peer_target: Some(times), ..self }
    }

    const fn fewest(self, fewest_jobs: u64) -> Self {
        Scenario { fewest_jobs, ..self }
    }
}

/// What one run has to do.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub task: Task,
    pub body: &'a [u8],
    pub jobs: u64,
}

/// A client that can run scenarios, connected to the server.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Whether it can run this.
    fn can(&self, _scenario: &Scenario) -> bool {
        true
    }

    /// Does the work: puts `jobs` jobs, or takes the `jobs` jobs that are there. The time is that of the jobs, without
    /// the start of threads.
    ///
    /// A client without pipelining does pipelined tasks one command at a time: that is what its user gets.
    fn run(&mut self, work: &Work<'_>) -> Result<Duration>;
}
