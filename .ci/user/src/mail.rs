//! beanstalkd: a job for each mail, which is tried again if it cannot be sent.
use std::time::Duration;

use beanstalk_client::{
    JobContext, Producer, PutOptions, Result, TubeName, Worker, WorkerOptions, WorkerReport,
};

/// Asks for a mail to be sent.
pub async fn order(producer: &Producer, recipient: &str) -> Result<()> {
    let tube = TubeName::try_from("mail")?;
    producer.put(&tube, recipient.to_owned(), PutOptions::default()).await.map(drop)
}

/// Sends mail until `stop` completes, with `send`.
pub async fn serve<S>(servers: &str, stop: impl Future, send: S) -> Result<WorkerReport>
where
    S: Fn(String) -> std::result::Result<(), String> + Clone + Send + Sync + 'static,
{
    let options = WorkerOptions::new(servers)?.slots(2).grace(Duration::from_secs(25));
    let handler = move |job: JobContext| {
        let sent = send(String::from_utf8_lossy(&job.body).into_owned());
        async move { sent }
    };
    let mut worker = Worker::new(options)?;
    worker.register("mail", handler)?;
    Ok(worker.run_until(stop).await)
}
