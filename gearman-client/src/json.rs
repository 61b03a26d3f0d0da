//! Jobs with JSON workloads.

use bytes::Bytes;
use queue_core::from_json;
use serde::{Deserialize, Serialize};

use crate::{
    Assignment, Error, FunctionName, JsonError, Outcome, Result, SubmitOptions, protocol::Submitted,
};

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
    /// The same for a job that is taken manually:
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

/// The methods of a client that take a value as JSON, in one list for both clients.
#[cfg(any(feature = "tokio", feature = "blocking"))]
macro_rules! json_requests {
    ($client:ty, $job:ty, $face:tt) => {
        impl $client {
            as_json! { $face
                /// Submits a foreground job with this value as JSON, and returns its events; see [`submit`](Self::submit).
                submit_json = submit -> $job
            }
            as_json! { $face
                /// Submits a foreground job with this value as JSON, and waits for its end; see [`run`](Self::run).
                run_json = run -> Outcome
            }
            as_json! { $face
                /// Submits a background job with this value as JSON; see [`submit_background`](Self::submit_background).
                submit_background_json = submit_background -> Submitted
            }
        }
    };
}

/// A method that takes a value as JSON, and passes it to the one that takes its bytes.
#[cfg(any(feature = "tokio", feature = "blocking"))]
macro_rules! as_json {
    (
        ([$($mut:ident)?] $($async:ident $await:ident $cancel:literal)?)
        $(#[$doc:meta])* $name:ident = $plain:ident -> $reply:ty
    ) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!(
            "`InvalidInput` for a value that JSON cannot carry; as [`", stringify!($plain), "`](Self::", stringify!($plain), ")."
        )]
        $(#[doc = concat!($cancel, "As [`", stringify!($plain), "`](Self::", stringify!($plain), ").")])?
        pub $($async)? fn $name<F, V>(
            &$($mut)? self,
            function: F,
            value: &V,
            options: SubmitOptions,
        ) -> Result<$reply>
        where
            F: TryInto<FunctionName>,
            Error: From<F::Error>,
            V: Serialize + ?Sized,
        {
            let body = to_json(value)?;
            self.$plain(function, body, options)$(.$await)?
        }
    };
}

#[cfg(feature = "tokio")]
json_requests!(crate::Client, crate::Job, ([] async await "\n# Cancel safety\n\n"));
#[cfg(feature = "blocking")]
json_requests!(crate::blocking::Client, crate::blocking::Job<'_>, ([mut]));
