//! The scenarios, and what runs them.

use std::time::Duration;

use anyhow::Result;

pub use crate::kind::Kind;

/// How many requests a pipeline has in flight, and how many messages a worker that takes them in advance holds.
pub const WINDOW: usize = 256;

/// What is done with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Pushes, each waiting for its answer.
    Push,
    /// Pushes in a pipeline.
    PushPipelined,
    /// Pushes of this number of callers that share a producer, each waiting for its answers.
    PushCallers(usize),
    /// A pull and a delete for each message, each waiting for its answer.
    Take,
    /// A worker whose handler does nothing, and that may hold this number of messages besides the one that it runs.
    Work { prefetch: usize },
}

impl Task {
    /// Whether messages have to be there before it starts; otherwise it leaves messages behind.
    pub fn takes(self) -> bool {
        matches!(self, Task::Take | Task::Work { .. })
    }

    /// Number of connections it needs with one request in flight on each.
    pub fn connections(self) -> usize {
        match self {
            Task::PushCallers(callers) => callers,
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
    /// The fewest messages of one run.
    pub fewest_jobs: u64,
    /// The most messages of one run.
    pub most_jobs: u64,
    /// The faces, with the ratio to the raw loop that each should reach.
    pub faces: &'static [(Kind, Option<f64>)],
    /// How many times faster than the peer each face should be.
    pub peer_target: Option<f64>,
}

type Faces = [(Kind, Option<f64>); 2];

/// With one request at a time, most of the time goes into the system calls and the server.
const ONE_AT_A_TIME: Faces = [(Kind::Blocking, Some(0.9)), (Kind::Async, Some(0.9))];
/// For tasks that share a connection.
const IN_FLIGHT: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, Some(0.8)), (Kind::Async, Some(0.8)), (Kind::Multi, None)];
const UNTARGETED: Faces = [(Kind::Blocking, None), (Kind::Async, None)];

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 9] = [
    scenario("push 64 B", Task::Push, 64, &ONE_AT_A_TIME),
    scenario("push 60 KiB", Task::Push, 60 * 1024, &UNTARGETED),
    scenario("push 64 B, pipeline", Task::PushPipelined, 64, &IN_FLIGHT).beside_peer(),
    scenario("push 60 KiB, pipeline", Task::PushPipelined, 60 * 1024, &IN_FLIGHT),
    scenario("push 64 B, 64 callers", Task::PushCallers(64), 64, &CALLERS).beside_peer(),
    scenario("pull, delete 64 B", Task::Take, 64, &ONE_AT_A_TIME),
    scenario("pull, delete 60 KiB", Task::Take, 60 * 1024, &UNTARGETED),
    scenario("worker 64 B", Task::Work { prefetch: 0 }, 64, &WORKER),
    scenario("worker 64 B, prefetch", Task::Work { prefetch: WINDOW }, 64, &PREFETCH).beside_peer(),
];

const CALLERS: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, Some(0.5)), (Kind::Async, Some(0.8)), (Kind::Multi, None)];
const WORKER: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, None), (Kind::Async, None), (Kind::Multi, None)];
const PREFETCH: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, Some(0.8)), (Kind::Async, Some(0.8)), (Kind::Multi, None)];

const fn scenario(
    name: &'static str,
    task: Task,
    size: usize,
    faces: &'static [(Kind, Option<f64>)],
) -> Scenario {
    // Keeps the server's memory below 128 MiB.
    let most_jobs = if size > 4096 { 2_000 } else { 40_000 };
    Scenario { name, task, size, fewest_jobs: 64, most_jobs, faces, peer_target: None }
}

impl Scenario {
    const fn beside_peer(self) -> Self {
        Scenario { peer_target: Some(1.5), ..self }
    }
}

/// What one run has to do.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub task: Task,
    pub queue: &'a str,
    pub body: &'a [u8],
    pub jobs: u64,
}

/// A client that can run scenarios, connected to the server.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Does the work: pushes `jobs` messages, or takes and deletes the `jobs` messages that are there. The time is that
    /// of the messages, without the start of threads; a worker connects within it.
    fn run(&mut self, work: &Work<'_>) -> Result<Duration>;
}
