//! The async face, on a runtime of either kind.

use std::{convert::Infallible, future::pending, time::Duration};

use anyhow::{Result, ensure};
use gearman_client::{Client, Worker, protocol::Submit};
use tokio::{runtime::Runtime, task::JoinSet, time::timeout};

use super::Typed;
use crate::{
    gearmand::scenario::{BATCH, Contender, GRABS, Kind, LIMIT, Task, Work},
    stopwatch::Stopwatch,
};

/// The async face.
pub struct Async {
    name: &'static str,
    address: String,
    runtime: Runtime,
    client: Client,
}

impl Async {
    pub fn connect(address: &str, kind: Kind) -> Result<Self> {
        let runtime = kind.runtime()?;
        let client = runtime.block_on(Client::connect(address))?;
        let name = if kind == Kind::Multi { "ours multi" } else { "ours async" };
        Ok(Async { name, address: address.to_owned(), runtime, client })
    }
}

impl Contender for Async {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let (typed, task) = (Typed::new(work)?, work.task);
        let (client, address) = (self.client.clone(), self.address.clone());
        // A task of the runtime, like everything in a service.
        let running = self.runtime.spawn(async move {
            let start = Stopwatch::start();
            match task {
                Task::Submit => submit(&client, &typed).await?,
                Task::SubmitCallers { callers } => {
                    submit_callers(&client, &typed, callers as u64).await?;
                }
                Task::SubmitBatch => submit_batch(&client, &typed).await?,
                Task::RoundTrip => round_trips(&client, &typed).await?,
                Task::Work { grabs } => {
                    let worker = worker(&address, &typed, grabs).await?;
                    let start = Stopwatch::start();
                    typed.check(worker.run_until(pending::<()>()).await)?;
                    return Ok(start.elapsed());
                }
                Task::Foreground { in_flight } => {
                    let worker = worker(&address, &typed, in_flight.min(GRABS)).await?;
                    let worker = tokio::spawn(worker.run_until(pending::<()>()));
                    let start = Stopwatch::start();
                    foreground(&client, &typed, in_flight).await?;
                    let time = start.elapsed();
                    typed.check(worker.await?)?;
                    return Ok(time);
                }
            }
            anyhow::Ok(start.elapsed())
        });
        self.runtime.block_on(async { timeout(LIMIT, running).await })??
    }
}

async fn submit(client: &Client, work: &Typed) -> Result<()> {
    for _ in 0..work.jobs {
        client.submit_background(&work.function, &work.workload, work.options).await?;
    }
    Ok(())
}

async fn submit_callers(client: &Client, work: &Typed, callers: u64) -> Result<()> {
    let mut running = JoinSet::new();
    for caller in 0..callers {
        let (client, mut work) = (client.clone(), work.clone());
        work.jobs = (work.jobs + caller) / callers;
        running.spawn(async move { submit(&client, &work).await });
    }
    while let Some(caller) = running.join_next().await {
        caller??;
    }
    Ok(())
}

async fn submit_batch(client: &Client, work: &Typed) -> Result<()> {
    let Typed { function, workload, options, .. } = work;
    let submit = || Submit::background(function.clone(), workload, *options);
    let submits = (0..work.jobs).map_while(|_| submit().ok());
    let mut answers = client.call_many(submits).window(BATCH);
    let mut submitted = 0;
    while let Some(answer) = answers.next().await {
        answer?;
        submitted += 1;
    }
    ensure!(submitted == work.jobs, "only {submitted} jobs were submitted");
    Ok(())
}

async fn round_trips(client: &Client, work: &Typed) -> Result<()> {
    for _ in 0..work.jobs {
        let outcome = client.run(&work.function, &work.workload, work.options).await?;
        ensure!(outcome.is_complete(), "a job ended with {outcome:?}");
    }
    Ok(())
}

async fn foreground(client: &Client, work: &Typed, in_flight: usize) -> Result<()> {
    let Typed { function, workload, options, .. } = work;
    let submit = || Submit::foreground(function.clone(), workload.clone(), *options);
    let submits = (0..work.jobs).map_while(|_| submit().ok());
    let mut events = client.submit_many(submits).window(in_flight);
    let mut completed = 0;
    while let Some((_, event)) = events.next().await {
        if let Some(outcome) = event?.outcome() {
            ensure!(outcome.is_complete(), "a job ended with {outcome:?}");
            completed += 1;
        }
    }
    ensure!(completed == work.jobs, "only {completed} jobs ended");
    Ok(())
}

async fn worker(address: &str, work: &Typed, grabs: usize) -> Result<Worker> {
    let mut worker = Worker::connect(work.worker(address, grabs)?).await?;
    for function in &work.functions {
        let result = work.workload.clone();
        worker.register(function, move |_job| {
            let result = result.clone();
            async move { Ok::<_, Infallible>(result) }
        })?;
    }
    worker.echo_barrier().await?;
    Ok(worker)
}
