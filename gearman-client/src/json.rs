//! Jobs whose workloads are JSON.

use queue_core::from_json;
#[cfg(any(feature = "tokio", feature = "blocking"))]
use queue_core::to_json;
use serde::Deserialize;
#[cfg(any(feature = "tokio", feature = "blocking"))]
use serde::Serialize;

#[cfg(feature = "blocking")]
use crate::blocking;
use crate::{Assignment, JsonError};
#[cfg(any(feature = "tokio", feature = "blocking"))]
use crate::{Error, FunctionName, Outcome, Result, SubmitOptions, protocol::Submitted};

impl Assignment {
    /// The workload as JSON.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use gearman_client::{Client, Outcome, SubmitOptions, Worker};
    ///
    /// let mut worker = Worker::new(address)?;
    /// worker.register("sum", |job| async move {
    ///     let numbers: Vec<u64> = job.json()?;
    ///     Ok(numbers.iter().sum::<u64>().to_string())
    /// })?;
    /// let (handle, working) = (worker.handle(), tokio::spawn(worker.run()));
    /// let client = Client::connect(address).await?;
    /// let sum = client.run_json("sum", &[1, 2, 3], SubmitOptions::default()).await?;
    /// assert_eq!(sum, Outcome::Complete("6".into()));
    /// handle.stop();
    /// working.await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When it is not the JSON of a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> std::result::Result<T, JsonError> {
        from_json(&self.workload)
    }
}

#[cfg(feature = "tokio")]
impl crate::Client {
    /// Submits a foreground job with this value as JSON, and gives its events; see [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`submit`](Self::submit).
    ///
    /// # Cancel safety
    ///
    /// As [`submit`](Self::submit).
    pub async fn submit_json<F, V>(
        &self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<crate::Job>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.submit(function, body, options).await
    }

    /// Submits a foreground job with this value as JSON, and waits for its end; see [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    pub async fn run_json<F, V>(
        &self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<Outcome>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.run(function, body, options).await
    }

    /// Submits a background job with this value as JSON; see [`submit_background`](Self::submit_background).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`submit_background`](Self::submit_background).
    ///
    /// # Cancel safety
    ///
    /// As [`submit_background`](Self::submit_background).
    pub async fn submit_background_json<F, V>(
        &self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.submit_background(function, body, options).await
    }
}

#[cfg(feature = "blocking")]
impl blocking::Client {
    /// Submits a foreground job with this value as JSON, and gives its events; see [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`submit`](Self::submit).
    pub fn submit_json<F, V>(
        &mut self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<blocking::Job<'_>>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.submit(function, body, options)
    }

    /// Submits a foreground job with this value as JSON, and waits for its end; see [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`run`](Self::run).
    pub fn run_json<F, V>(
        &mut self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<Outcome>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.run(function, body, options)
    }

    /// Submits a background job with this value as JSON; see [`submit_background`](Self::submit_background).
    ///
    /// ```
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use std::time::Duration;
    /// use gearman_client::{SubmitOptions, blocking::{Client, Worker}};
    ///
    /// let mut client = Client::connect(address)?;
    /// client.submit_background_json("sum", &[1, 2], SubmitOptions::default())?;
    /// let mut worker = Worker::connect(address)?;
    /// worker.can_do("sum", None)?;
    /// let job = worker.next_job(Duration::from_secs(5))?.expect("there is one");
    /// assert_eq!(job.json::<[u8; 2]>()?, [1, 2]);
    /// worker.complete(job, "3")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`submit_background`](Self::submit_background).
    pub fn submit_background_json<F, V>(
        &mut self,
        function: F,
        value: &V,
        options: SubmitOptions,
    ) -> Result<Submitted>
    where
        F: TryInto<FunctionName>,
        Error: From<F::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.submit_background(function, body, options)
    }
}
