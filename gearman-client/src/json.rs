//! Jobs with JSON workloads.

use bytes::Bytes;
use queue_core::from_json;
use serde::{Deserialize, Serialize};

#[cfg(feature = "blocking")]
use crate::blocking;
use crate::{Assignment, JsonError, Outcome, Result};
use crate::{Error, FunctionName, SubmitOptions, protocol::Submitted};

impl Assignment {
    /// The workload as JSON.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::gearmand::Server::start()?;
    /// # let address = server.address();
    /// use gearman_client::{Client, Failure, Outcome, SubmitOptions, Worker};
    ///
    /// let mut worker = Worker::new(address)?;
    /// worker.register("sum", |job| async move {
    ///     let numbers: Vec<u64> = job.json()?;
    ///     Ok::<_, Failure>(numbers.iter().sum::<u64>().to_string())
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
    /// If the workload is not valid JSON for a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> std::result::Result<T, JsonError> {
        from_json(&self.workload)
    }
}

impl Outcome {
    /// The result as JSON, if the job is done; `None` if it failed.
    ///
    /// ```
    /// use gearman_client::Outcome;
    ///
    /// let outcome = Outcome::Complete("[1, 2]".into());
    /// assert_eq!(outcome.json::<Vec<u8>>()?, Some(vec![1, 2]));
    /// assert_eq!(Outcome::Fail.json::<Vec<u8>>()?, None);
    /// # Ok::<(), gearman_client::JsonError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the result is not valid JSON for a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> std::result::Result<Option<T>, JsonError> {
        match self {
            Outcome::Complete(result) => from_json(result).map(Some),
            Outcome::Fail | Outcome::Exception(_) => Ok(None),
        }
    }
}

/// Encodes a value as JSON, for handlers to return as their result. With `?`, its error becomes an exception.
///
/// ```
/// # let server = fixtures::gearmand::Server::start()?;
/// # let address = server.address();
/// use gearman_client::{Failure, SubmitOptions, blocking::{Client, Worker}, to_json};
///
/// let mut worker = Worker::connect(address)?;
/// worker.register("double", |job| -> Result<bytes::Bytes, Failure> {
///     let numbers: Vec<u64> = job.json()?;
///     Ok(to_json(&numbers.iter().map(|n| 2 * n).collect::<Vec<_>>())?)
/// })?;
/// let (handle, working) = (worker.handle(), std::thread::spawn(|| worker.run()));
/// let outcome = Client::connect(address)?.run_json("double", &[1, 2], SubmitOptions::default())?;
/// assert_eq!(outcome.json::<Vec<u64>>()?, Some(vec![2, 4]));
/// handle.stop();
/// working.join().expect("it does not panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// `InvalidInput` for a value that JSON cannot carry, such as a map with keys other than text.
pub fn to_json<V: Serialize + ?Sized>(value: &V) -> Result<Bytes> {
    Ok(queue_core::to_json(value)?.into())
}

#[cfg(feature = "tokio")]
impl crate::Client {
    /// Submits a foreground job with this value as JSON, and returns its events; see [`submit`](Self::submit).
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
    /// Submits a foreground job with this value as JSON, and returns its events; see [`submit`](Self::submit).
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
