//! The jobs of a server, without taking them, async.

use std::vec::IntoIter;

use crate::{
    CallMany, Client, JobFilter, JobStats, Result,
    jobs::{job_list, next_job},
    protocol::{JobQuery, JobSearch},
};

job_list!(
    "\n# Cancel safety\n\nIt may be dropped at any time: the next call skips outstanding replies, and the used tube is \
     what it was."
);

impl JobList<'_> {
    /// The next job; `None` after the last one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Client, JobFilter, JobState};
    ///
    /// let mut client = Client::connect(address).await?;
    /// # let _ = client.put("hello", beanstalk_client::PutOptions::default()).await?;
    /// let mut jobs = client.jobs(JobFilter::from(JobState::Ready).tube("default")?);
    /// while let Some(job) = jobs.next().await {
    ///     let job = job?;
    ///     println!("{} has waited for {} s", job.id, job.age);
    /// }
    /// # assert_eq!((jobs.asked(), jobs.missing()), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A connection failure, or a refusal of `stats` or its like.
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the next call returns the job.
    pub async fn next(&mut self) -> Option<Result<JobStats>> {
        next_job!(self, await)
    }
}
