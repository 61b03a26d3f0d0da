//! Adf.QueueServer: a message for each order, which goes back to its queue if it cannot be shipped.
use std::{io, time::Duration};

use adf_queue_client::{
    JobContext, Producer, Result, Servers, Worker, WorkerOptions, WorkerReport,
};

/// Takes an order. The queue has to exist.
pub async fn order(producer: &Producer, article: &str) -> Result<()> {
    producer.rpush("/orders", article.to_owned()).await.map(drop)
}

/// Ships orders until `stop` completes, with `ship`.
pub async fn serve<S>(servers: &str, stop: impl Future, ship: S) -> Result<WorkerReport>
where
    S: Fn(String) -> std::result::Result<(), String> + Clone + Send + Sync + 'static,
{
    let servers: Servers = servers.parse()?;
    let options = WorkerOptions::from(servers).slots(2).grace(Duration::from_secs(25));
    let mut worker = Worker::new(options)?;
    worker.register("/orders", move |job: JobContext| {
        let shipped = ship(String::from_utf8_lossy(job.body()).into_owned());
        async move { shipped.map_err(io::Error::other) }
    })?;
    Ok(worker.run_until(stop).await)
}
