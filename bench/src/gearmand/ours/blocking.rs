//! The blocking face.

use std::{convert::Infallible, thread, time::Duration};

use anyhow::{Result, anyhow, bail, ensure};
use gearman_client::{
    SubmitOptions,
    blocking::{Client, Worker},
    protocol::Submit,
};

use super::Typed;
use crate::{
    gearmand::scenario::{BATCH, Contender, GRABS, Task, Work},
    stopwatch::Stopwatch,
};

/// The blocking face.
pub struct Blocking {
    address: String,
    client: Client,
}

impl Blocking {
    pub fn connect(address: &str) -> Result<Self> {
        Ok(Blocking { address: address.to_owned(), client: Client::connect(address)? })
    }

    fn submit(&mut self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            self.client.submit_background(&work.function, &work.workload, work.options)?;
        }
        Ok(())
    }

    fn submit_batch(&mut self, work: &Typed) -> Result<()> {
        let Typed { function, workload, options, .. } = work;
        let submit = || Submit::background(function.clone(), workload, *options);
        let submits = (0..work.jobs).map_while(|_| submit().ok());
        let mut submitted = 0;
        for answer in self.client.call_many(submits).window(BATCH) {
            answer?;
            submitted += 1;
        }
        ensure!(submitted == work.jobs, "only {submitted} jobs were submitted");
        Ok(())
    }

    fn round_trips(&mut self, work: &Typed) -> Result<()> {
        for _ in 0..work.jobs {
            let outcome = self.client.run(&work.function, &work.workload, work.options)?;
            ensure!(outcome.is_complete(), "a job ended with {outcome:?}");
        }
        Ok(())
    }

    fn foreground(&mut self, work: &Typed, in_flight: usize) -> Result<()> {
        let Typed { function, workload, .. } = work;
        let submit = || Submit::foreground(function.clone(), workload, SubmitOptions::default());
        let submits = (0..work.jobs).map_while(|_| submit().ok());
        let mut completed = 0;
        for event in self.client.submit_many(submits).window(in_flight) {
            if let Some(outcome) = event.1?.outcome() {
                ensure!(outcome.is_complete(), "a job ended with {outcome:?}");
                completed += 1;
            }
        }
        ensure!(completed == work.jobs, "only {completed} jobs ended");
        Ok(())
    }

    fn worker(&self, work: &Typed, grabs: usize) -> Result<Worker> {
        let mut worker = Worker::connect(work.worker(&self.address, grabs)?)?;
        for function in &work.functions {
            let result = work.workload.clone();
            worker.register(function, move |_job| Ok::<_, Infallible>(result.clone()))?;
        }
        worker.echo_barrier()?;
        Ok(worker)
    }
}

impl Contender for Blocking {
    fn name(&self) -> &'static str {
        "ours blocking"
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let typed = Typed::new(work)?;
        let start = Stopwatch::start();
        match work.task {
            Task::Submit => self.submit(&typed)?,
            Task::SubmitBatch => self.submit_batch(&typed)?,
            Task::SubmitCallers { .. } => bail!("blocking clients are not shared"),
            Task::RoundTrip => self.round_trips(&typed)?,
            Task::Work { grabs } => {
                let worker = self.worker(&typed, grabs)?;
                let start = Stopwatch::start();
                let report = worker.run()?;
                let time = start.elapsed();
                typed.check(report)?;
                return Ok(time);
            }
            Task::Foreground { in_flight } => {
                let worker = self.worker(&typed, in_flight.min(GRABS))?;
                let worker = thread::spawn(move || worker.run());
                let start = Stopwatch::start();
                self.foreground(&typed, in_flight)?;
                let time = start.elapsed();
                let report = worker.join().map_err(|_| anyhow!("the worker panicked"))?;
                typed.check(report?)?;
                return Ok(time);
            }
        }
        Ok(start.elapsed())
    }
}
