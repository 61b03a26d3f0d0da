//! The scenarios, and what runs them.

use std::time::Duration;

use anyhow::Result;

pub use crate::kind::Kind;

/// How many submissions a batch has in flight.
pub const BATCH: usize = 256;

/// How many grabs a worker has in flight.
pub const GRABS: usize = 64;

/// Anything that takes longer hangs.
pub const LIMIT: Duration = Duration::from_secs(10);

/// What is done with each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Background submissions, each waiting for its answer.
    Submit,
    /// Background submissions of this number of callers over one connection, each caller waiting for its answers.
    SubmitCallers { callers: usize },
    /// Background submissions in a batch.
    SubmitBatch,
    /// Queued jobs are grabbed and completed, with this number of grabs in flight.
    Work { grabs: usize },
    /// Foreground jobs, one at a time, done by a raw worker of the bench.
    RoundTrip,
    /// Foreground jobs, with this number in flight, done by the contender's own worker.
    Foreground { in_flight: usize },
}

impl Task {
    /// Whether jobs have to be there before it starts.
    pub fn needs_jobs(self) -> bool {
        matches!(self, Task::Work { .. })
    }

    /// Whether it leaves its jobs behind.
    pub fn leaves_jobs(self) -> bool {
        matches!(self, Task::Submit | Task::SubmitCallers { .. } | Task::SubmitBatch)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub task: Task,
    /// The size of the workloads, in bytes.
    pub size: usize,
    /// How many functions a worker is registered for; the jobs go to all of them.
    pub functions: usize,
    pub fewest_jobs: u64,
    pub most_jobs: u64,
    /// The faces, with the ratio to the raw loop that each should reach.
    pub faces: &'static [(Kind, Option<f64>)],
    /// How many times faster than this peer each face should be.
    pub peer_target: Option<(&'static str, f64)>,
}

/// Every scenario, in the order of the table.
pub const SCENARIOS: [Scenario; 15] = [
    scenario("submit 64 B", Task::Submit, &[(Kind::Blocking, Some(0.95)), (Kind::Async, None)]),
    scenario(
        "submit 64 B, 64 callers",
        Task::SubmitCallers { callers: 64 },
        &[(Kind::Async, Some(0.85)), (Kind::Multi, Some(0.6))],
    )
    .beside("gearman", 1.8),
    scenario(
        "submit 64 B, 1,000 callers",
        Task::SubmitCallers { callers: 1000 },
        &[(Kind::Async, None), (Kind::Multi, None)],
    )
    .jobs(1000, 20_000),
    scenario(
        "submit 64 B, batch",
        Task::SubmitBatch,
        &[(Kind::Blocking, Some(0.9)), (Kind::Async, Some(0.9)), (Kind::Multi, None)],
    ),
    // With few slots, most of the time is spent waiting for the server, and everybody is about as fast.
    scenario("worker 64 B, 1 slot", Task::Work { grabs: 1 }, &WORKER).beside("libgearman", 1.0),
    scenario("worker 64 B, 4 slots", Task::Work { grabs: 4 }, &WORKER).beside("libgearman", 1.0),
    scenario("worker 64 B, 16 slots", Task::Work { grabs: 16 }, &WORKER).beside("libgearman", 8.0),
    scenario("worker 64 B, 64 slots", Task::Work { grabs: GRABS }, &WORKER)
        .beside("libgearman", 8.0),
    scenario(
        "round trip 64 B",
        Task::RoundTrip,
        &[(Kind::Blocking, Some(0.9)), (Kind::Async, Some(0.9)), (Kind::Multi, None)],
    ),
    scenario(
        "foreground 64 B, 256 in flight",
        Task::Foreground { in_flight: 256 },
        &[(Kind::Blocking, Some(0.6)), (Kind::Async, Some(0.6)), (Kind::Multi, None)],
    )
    .beside("libgearman", 5.0),
    scenario(
        "foreground 64 B, 10,000 in flight",
        Task::Foreground { in_flight: 10_000 },
        &UNTARGETED,
    )
    .jobs(10_000, 10_000),
    scenario("worker 64 B, 64 slots, 1,000 functions", Task::Work { grabs: GRABS }, &UNTARGETED)
        .functions(1000)
        .jobs(1000, 4000),
    scenario("submit 20 MB", Task::Submit, &UNTARGETED).large(),
    scenario("worker 20 MB, 1 slot", Task::Work { grabs: 1 }, &UNTARGETED).large(),
    scenario("foreground 20 MB, one at a time", Task::Foreground { in_flight: 1 }, &UNTARGETED)
        .large(),
];

const WORKER: [(Kind, Option<f64>); 3] =
    [(Kind::Blocking, Some(0.8)), (Kind::Async, Some(0.8)), (Kind::Multi, None)];

/// Measured only.
const UNTARGETED: [(Kind, Option<f64>); 2] = [(Kind::Blocking, None), (Kind::Async, None)];

const fn scenario(
    name: &'static str,
    task: Task,
    faces: &'static [(Kind, Option<f64>)],
) -> Scenario {
    Scenario {
        name,
        task,
        size: 64,
        functions: 1,
        fewest_jobs: 32,
        most_jobs: 20_000,
        faces,
        peer_target: None,
    }
}

impl Scenario {
    const fn beside(self, peer: &'static str, times: f64) -> Self {
        Scenario { peer_target: Some((peer, times)), ..self }
    }

    const fn jobs(self, fewest_jobs: u64, most_jobs: u64) -> Self {
        Scenario { fewest_jobs, most_jobs, ..self }
    }

    const fn functions(self, functions: usize) -> Self {
        Scenario { functions, ..self }
    }

    /// Workloads of 20 MB. Few of them at once: the server keeps all in memory.
    const fn large(self) -> Self {
        Scenario { size: 20_000_000, fewest_jobs: 2, most_jobs: 4, ..self }
    }

    /// The names of its functions, which no other scenario has.
    pub fn function_names(&self) -> Vec<String> {
        let name: String =
            self.name.chars().filter(|letter| letter.is_ascii_alphanumeric()).collect();
        (0..self.functions).map(|number| format!("{name}-{number}")).collect()
    }
}

/// What one run has to do.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub task: Task,
    /// The jobs go to these in turn.
    pub functions: &'a [String],
    pub workload: &'a [u8],
    pub jobs: u64,
}

impl<'a> Work<'a> {
    /// The function, if a task has only one.
    pub fn function(&self) -> &'a str {
        self.functions.first().map_or("", String::as_str)
    }
}

/// A client and worker that can run scenarios.
pub trait Contender {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Whether it can run this.
    fn can(&self, _scenario: &Scenario) -> bool {
        true
    }

    /// Does the work: submits `jobs` jobs, takes the `jobs` jobs that are there, or both. The time is that of the jobs,
    /// without connecting and registering.
    fn run(&mut self, work: &Work<'_>) -> Result<Duration>;
}
