//! The two faces of `gearman-client`, used as documented.

mod asynchronous;
mod blocking;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use gearman_client::{FunctionName, JobLimit, SubmitOptions, WorkerOptions, WorkerReport};

pub use self::{asynchronous::Async, blocking::Blocking};
use super::scenario::Work;

/// Work in the types of the client.
#[derive(Clone)]
struct Typed {
    functions: Vec<FunctionName>,
    /// The first of them: most tasks have only one.
    function: FunctionName,
    workload: Bytes,
    jobs: u64,
    options: SubmitOptions,
}

impl Typed {
    fn new(work: &Work<'_>) -> Result<Self> {
        let functions: Result<Vec<_>, _> =
            work.functions.iter().map(|name| FunctionName::try_from(name.as_str())).collect();
        let functions = functions?;
        Ok(Typed {
            function: functions.first().cloned().context("a scenario without a function")?,
            functions,
            workload: Bytes::copy_from_slice(work.workload),
            jobs: work.jobs,
            options: SubmitOptions::default(),
        })
    }

    /// A worker that does exactly these jobs, and whose handlers are known to be quick.
    fn worker(&self, address: &str, grabs: usize) -> Result<WorkerOptions> {
        let options: WorkerOptions = address.parse()?;
        Ok(options.slots(grabs).batch_results(true).limit(JobLimit::new(self.jobs)))
    }

    fn check(&self, report: WorkerReport) -> Result<()> {
        ensure!(report.completed == self.jobs, "the worker reported {report}");
        Ok(())
    }
}
