//! A pipeline of commands with a bounded window, async.

use crate::{
    Client, Result,
    pipeline::call_many,
    protocol::{Command, OldestCommand, Window},
};

impl Client {
    /// Sends commands without waiting for each reply, and returns the replies in order.
    ///
    /// It is lazy: it takes commands from `commands` as the window (256 in flight, see [`window`](CallMany::window))
    /// has room, and writes many of them at once. It yields exactly one result for each command taken. After a
    /// connection failure it yields the error of every command in flight, each with its own
    /// [`fate`](crate::Error::fate), and ends; the rest of `commands` is not consumed. Dropping it early is allowed:
    /// outstanding replies are read and dropped by the next call, and jobs among them are offered to the next reserve.
    ///
    /// Pipelined timed reserves wait one after the other on the server. Windows over 500 reserved jobs make the server
    /// slow. Commands of several kinds go together as [`AnyCommand`](crate::protocol::AnyCommand)s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// # let address = server.address();
    /// use beanstalk_client::{Client, PutOptions, protocol::Put};
    ///
    /// let mut client = Client::connect(address).await?;
    /// let puts = (0..1000).map(|n| Put::new(format!("job {n}"), PutOptions::default()).expect("it is small"));
    /// let mut replies = client.call_many(puts);
    /// while let Some(inserted) = replies.next().await {
    ///     assert!(!inserted?.is_buried());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_many<I>(&mut self, commands: I) -> CallMany<'_, I::IntoIter>
    where
        I: IntoIterator<Item: Command>,
    {
        CallMany::new(self, commands.into_iter())
    }
}

call_many!(async await);

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    /// The next reply; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Each result is that of its own command; see [`Client::call_many`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the next call returns the reply.
    pub async fn next(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        let span = self.window.span(&self.client.role);
        span.follow(self.next_reply()).await
    }
}
