//! Messages with JSON bodies.

use queue_core::{from_json, to_json};
use serde_core::Deserialize;

use crate::{Delivery, Error, JsonError, MessageId, QueueName, Result};

impl Delivery {
    /// The body as JSON.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::Client;
    ///
    /// let client = Client::connect(address).await?;
    /// client.rpush_json("/mail", &["ada@example.org"]).await?;
    /// let message = client.pull("/mail").await?;
    /// let [to]: [String; 1] = message.json()?;
    /// assert_eq!(to, "ada@example.org");
    /// client.delete(&message).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The same in the blocking face, with a value that borrows from the body:
    ///
    /// ```
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::blocking::Client;
    ///
    /// let mut client = Client::connect(address)?;
    /// client.rpush_json("/mail", &["last"])?;
    /// client.lpush_json("/mail", &["first"])?;
    /// let message = client.pull("/mail")?;
    /// assert_eq!(message.json::<[&str; 1]>()?, ["first"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the body is not valid JSON for a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> std::result::Result<T, JsonError> {
        from_json(self.body())
    }
}

/// The methods that push a value as JSON; those of the async face say what happens if their future is dropped.
#[cfg(any(feature = "tokio", feature = "blocking"))]
macro_rules! json_pushes {
    ($type:ty, [$($mut:ident)?] $(, $async:ident $await:ident $cancel:literal)?) => {
impl $type {
    crate::faces::queue_methods! {
    /// Adds a message with this value as JSON; see [`lpush`](Self::lpush).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`lpush`](Self::lpush).
    $(#[doc = concat!($cancel, "As [`lpush`](Self::lpush).")])?
    pub $($async)? fn lpush_json<V>(&$($mut)? self, queue: Q, value: &V) -> Result<MessageId> {
        self.lpush(queue, to_json(value)?)$(.$await)?
    }

    /// Adds a message with this value as JSON; see [`rpush`](Self::rpush).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`rpush`](Self::rpush).
    $(#[doc = concat!($cancel, "As [`rpush`](Self::rpush).")])?
    pub $($async)? fn rpush_json<V>(&$($mut)? self, queue: Q, value: &V) -> Result<MessageId> {
        self.rpush(queue, to_json(value)?)$(.$await)?
    }
    }
}
    };
}

/// The same, and by a key.
#[cfg(any(feature = "tokio", feature = "blocking"))]
macro_rules! json_pushes_by_key {
    ($type:ty $(, $async:ident $await:ident $cancel:literal)?) => {
json_pushes!($type, [] $(, $async $await $cancel)?);

impl $type {
    crate::faces::queue_methods! {
    /// Adds a message with this value as JSON; see [`lpush_by_key`](Self::lpush_by_key).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`lpush_by_key`](Self::lpush_by_key).
    $(#[doc = concat!($cancel, "As [`lpush_by_key`](Self::lpush_by_key).")])?
    pub $($async)? fn lpush_by_key_json<V>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        value: &V,
    ) -> Result<MessageId> {
        self.lpush_by_key(key, queue, to_json(value)?)$(.$await)?
    }

    /// Adds a message with this value as JSON; see [`rpush_by_key`](Self::rpush_by_key).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot carry; as [`rpush_by_key`](Self::rpush_by_key).
    $(#[doc = concat!($cancel, "As [`rpush_by_key`](Self::rpush_by_key).")])?
    pub $($async)? fn rpush_by_key_json<V>(
        &self,
        key: impl AsRef<[u8]>,
        queue: Q,
        value: &V,
    ) -> Result<MessageId> {
        self.rpush_by_key(key, queue, to_json(value)?)$(.$await)?
    }
    }
}
    };
}

#[cfg(feature = "tokio")]
json_pushes!(crate::Client, [], async await "\n# Cancel safety\n\n");
#[cfg(feature = "tokio")]
json_pushes_by_key!(crate::Producer, async await "\n# Cancel safety\n\n");
#[cfg(feature = "blocking")]
json_pushes!(crate::blocking::Client, [mut]);
#[cfg(feature = "blocking")]
json_pushes_by_key!(crate::blocking::Producer);

#[cfg(test)]
#[cfg(all(feature = "tokio", feature = "blocking"))]
mod tests {
    use fixtures::adf_queue::Server;

    use crate::blocking;

    /// The messages of the queue, from the left, as JSON.
    fn messages(server: &Server) -> Vec<String> {
        let mut client = blocking::Client::connect(server.address()).unwrap();
        let count = client.count("/q").unwrap();
        (0..count).map(|_| client.pull("/q").unwrap().json().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_producer_pushes_json_to_either_end_and_by_a_key() {
        let server = Server::builder().queue("/q").start().unwrap();
        let producer = crate::Producer::new(server.address()).unwrap();
        producer.rpush_json("/q", "b").await.unwrap();
        producer.lpush_json("/q", "a").await.unwrap();
        producer.rpush_by_key_json("key", "/q", "c").await.unwrap();
        producer.lpush_by_key_json("key", "/q", "0").await.unwrap();
        let shown = tokio::task::spawn_blocking(move || messages(&server)).await.unwrap();
        assert_eq!(shown, ["0", "a", "b", "c"]);
    }

    #[test]
    fn a_blocking_producer_pushes_json_to_either_end_and_by_a_key() {
        let server = Server::builder().queue("/q").start().unwrap();
        let producer = blocking::Producer::new(server.address()).unwrap();
        producer.rpush_json("/q", "b").unwrap();
        producer.lpush_json("/q", "a").unwrap();
        producer.rpush_by_key_json("key", "/q", "c").unwrap();
        producer.lpush_by_key_json("key", "/q", "0").unwrap();
        assert_eq!(messages(&server), ["0", "a", "b", "c"]);
        let wrong = std::collections::HashMap::from([([1_u8], 2)]);
        let error = producer.lpush_json("/q", &wrong).unwrap_err();
        assert_eq!(
            (error.kind(), error.fate()),
            (&crate::ErrorKind::InvalidInput, crate::Fate::NotSent)
        );
    }
}
