//! Gearman: a job for each picture, whose thumbnail is the result.
use std::time::Duration;

use gearman_client::{
    Client, JobContext, Outcome, Result, Servers, SubmitOptions, Worker, WorkerOptions, WorkerReport,
};

/// Asks for a thumbnail and waits for it.
pub async fn request(client: &Client, picture: &str) -> Result<Outcome> {
    client.run("thumbnail", picture, SubmitOptions::default()).await
}

/// Makes thumbnails until `stop` completes, with `make`.
pub async fn serve<M>(servers: &str, stop: impl Future, make: M) -> Result<WorkerReport>
where
    M: Fn(String) -> std::result::Result<String, String> + Clone + Send + Sync + 'static,
{
    let servers: Servers = servers.parse()?;
    let options = WorkerOptions::from(servers).slots(2).grace(Duration::from_secs(25));
    let mut worker = Worker::new(options)?;
    worker.register("thumbnail", move |job: JobContext| {
        let made = make(String::from_utf8_lossy(&job.workload).into_owned());
        async move { made }
    })?;
    Ok(worker.run_until(stop).await)
}
