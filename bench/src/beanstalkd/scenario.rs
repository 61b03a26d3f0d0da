//! The scenarios, and what runs them.

use anyhow::Result;

/// How many commands a pipeline has in flight.
pub const WINDOW: usize = 256;

/// What is done with each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Puts, each waiting for its reply.
    Put,
    /// Puts in a pipeline.
    PutPipelined,
    /// Reserve and delete one job at a time; the delete and the next reserve go out in one write.
    Take,
    /// Reserve and delete one job at a time, each waiting for its reply.
    TakeInTwoTrips,
    /// Reserve and delete in a pipeline until nothing is left.
    Drain,
}

impl Task {
    /// Whether jobs have to be there before it starts; otherwise it leaves jobs behind.
    pub fn takes(self) -> bool {
        !matches!(self, Task::Put | Task::PutPipelined)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub task: Task,
    /// The size of the bodies, in bytes.
    pub size: usize,
    /// The most jobs of one run.
    pub most_jobs: u64,
    /// The ratio to the raw loop that the blocking face should reach.
    pub target_blocking: Option<f64>,
    /// The ratio to the raw loop that the async face should reach.
    pub target_async: Option<f64>,
}

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 11] = [
    scenario("put 64 B", Task::Put, 64).target(0.95, 0.9),
    scenario("put 1 KiB", Task::Put, 1024),
    scenario("put 60 KiB", Task::Put, 60 * 1024),
    scenario("put 64 B, pipeline", Task::PutPipelined, 64).target(0.85, 0.85),
    scenario("put 1 KiB, pipeline", Task::PutPipelined, 1024),
    scenario("put 60 KiB, pipeline", Task::PutPipelined, 60 * 1024),
    scenario("reserve+delete 64 B", Task::Take, 64).target(0.9, 0.9),
    scenario("reserve, delete 64 B", Task::TakeInTwoTrips, 64),
    scenario("drain 64 B, pipeline", Task::Drain, 64).target(0.85, 0.85),
    scenario("drain 1 KiB, pipeline", Task::Drain, 1024),
    scenario("drain 60 KiB, pipeline", Task::Drain, 60 * 1024),
];

const fn scenario(name: &'static str, task: Task, size: usize) -> Scenario {
    // Keeps the server's memory below 128 MiB.
    let most_jobs = if size > 4096 { 2_000 } else { 40_000 };
    Scenario { name, task, size, most_jobs, target_blocking: None, target_async: None }
}

impl Scenario {
    const fn target(self, blocking: f64, asynchronous: f64) -> Self {
        Scenario { target_blocking: Some(blocking), target_async: Some(asynchronous), ..self }
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
    /// What it is called in the table.
    fn name(&self) -> &'static str;

    /// Whether it can handle bodies of this size.
    fn takes_bodies_of(&self, _size: usize) -> bool {
        true
    }

    /// Does the work: puts `jobs` jobs, or takes the `jobs` jobs that are there.
    ///
    /// A client without pipelining does pipelined tasks one command at a time: that is what its user gets.
    fn run(&mut self, work: &Work<'_>) -> Result<()>;
}
