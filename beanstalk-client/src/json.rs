//! Jobs with JSON bodies.

use queue_core::{from_json, to_json};
use serde::{Deserialize, Serialize};

use crate::{Error, Inserted, Job, JsonError, PutOptions, Result, TubeName};

impl Job {
    /// The body as JSON.
    ///
    /// ```
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{PutOptions, blocking::Client};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// let mut client = Client::connect(address)?;
    /// let id = client.put_json(&Mail { to: "ada@example.org".into() }, PutOptions::default())?.id();
    /// let job = client.reserve()?.job().expect("it was put");
    /// assert_eq!(job.id, id);
    /// let mail: Mail = job.json()?;
    /// assert_eq!(mail.to, "ada@example.org");
    /// client.delete(&job)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the body is not valid JSON for a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> std::result::Result<T, JsonError> {
        from_json(&self.body)
    }
}

/// The methods of a client and a producer that take JSON, with an example of `put_json`; those of the async ones say what
/// happens if their future is dropped.
#[cfg(any(feature = "tokio", feature = "blocking"))]
macro_rules! json {
    ($(#[$example:meta])* $client:ty, $producer:ty, $receipt:ty $(, $async:ident $await:ident $cancel:literal)?) => {
impl $client {
    /// Stores a job with this value as JSON in the used tube; see [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`put`](Self::put).
    $(#[doc = concat!($cancel, "As [`put`](Self::put).")])?
    pub $($async)? fn put_json<V>(&mut self, value: &V, options: PutOptions) -> Result<Inserted>
    where
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.put(body, options)$(.$await)?
    }
}

impl $producer {
    /// Puts a job with this value as JSON and waits for the server's answer; see [`put`](Self::put).
    ///
    $(#[$example])*
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`put`](Self::put).
    $(#[doc = concat!($cancel, "As [`put`](Self::put).")])?
    pub $($async)? fn put_json<T, V>(&self, tube: T, value: &V, options: PutOptions) -> Result<Inserted>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.put(tube, body, options)$(.$await)?
    }

    /// Puts a job with this value as JSON without waiting for the answer; see [`enqueue`](Self::enqueue).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`enqueue`](Self::enqueue).
    $(#[doc = concat!($cancel, "As [`enqueue`](Self::enqueue).")])?
    pub $($async)? fn enqueue_json<T, V>(&self, tube: T, value: &V, options: PutOptions) -> Result<$receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
        V: Serialize + ?Sized,
    {
        let body = to_json(value)?;
        self.enqueue(tube, body, options)$(.$await)?
    }

    /// Puts a job with this value as JSON without waiting for anything; see [`try_put`](Self::try_put).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`try_put`](Self::try_put).
    pub fn try_put_json<T, V>(&self, tube: T, value: &V, options: PutOptions) -> Result<$receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
        V: Serialize + ?Sized,
    {
        self.try_put(tube, to_json(value)?, options)
    }
}
    };
}

#[cfg(feature = "tokio")]
json! {
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Producer, PutOptions};
    ///
    /// let producer = Producer::connect(address).await?;
    /// let id = producer.put_json("mail", &["ada@example.org"], PutOptions::default()).await?.id();
    /// println!("job {id}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    crate::Client, crate::Producer, crate::Receipt, async await "\n# Cancel safety\n\n"
}
#[cfg(feature = "blocking")]
json!(crate::blocking::Client, crate::blocking::Producer, crate::blocking::Receipt);

#[cfg(test)]
#[cfg(all(feature = "tokio", feature = "blocking"))]
mod tests {
    use fixtures::beanstalkd::Server;

    use super::*;
    use crate::blocking;

    /// The first job as JSON.
    fn next(server: &Server) -> Vec<u8> {
        let mut client = blocking::Client::connect(server.address()).unwrap();
        let job = client.reserve().unwrap().job().unwrap();
        client.delete(&job).unwrap();
        job.json().unwrap()
    }

    #[tokio::test]
    async fn a_producer_puts_json_whether_it_waits_or_not() {
        let server = Server::start().unwrap();
        let producer = crate::Producer::connect(server.address()).await.unwrap();
        let options = PutOptions::default();
        for receipt in [
            producer.enqueue_json("default", &[1, 2], options).await.unwrap(),
            producer.try_put_json("default", &[3, 4], options).unwrap(),
        ] {
            assert!(!receipt.await.unwrap().is_buried());
        }
        let server = tokio::task::spawn_blocking(move || {
            assert_eq!((next(&server), next(&server)), (vec![1, 2], vec![3, 4]));
            server
        });
        server.await.unwrap();
    }

    #[test]
    fn a_blocking_producer_puts_json_whether_it_waits_or_not() {
        let server = Server::start().unwrap();
        let producer = blocking::Producer::connect(server.address()).unwrap();
        let options = PutOptions::default();
        for receipt in [
            producer.enqueue_json("default", &[1, 2], options).unwrap(),
            producer.try_put_json("default", &[3, 4], options).unwrap(),
        ] {
            assert!(!receipt.wait().unwrap().is_buried());
        }
        assert_eq!((next(&server), next(&server)), (vec![1, 2], vec![3, 4]));
        let wrong = std::collections::HashMap::from([([1_u8], 2)]);
        let error = producer.enqueue_json("default", &wrong, options).unwrap_err();
        assert_eq!(
            (error.kind(), error.fate()),
            (crate::ErrorKind::InvalidInput, crate::Fate::NotSent)
        );
        assert_eq!(producer.report().accepted, 2);
    }
}
