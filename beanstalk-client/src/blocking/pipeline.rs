//! A pipeline of commands with a bounded window.

use super::Client;
use crate::{
    Result,
    pipeline::call_many,
    protocol::{Command, OldestCommand, Window},
};

impl Client {
    /// Sends commands without waiting for each reply, and returns the replies in order.
    ///
    /// The iterator is lazy: it takes commands from `commands` as the window (256 in flight, see
    /// [`window`](CallMany::window)) has room, and writes many of them at once. It yields exactly one result for each
    /// command taken. After a connection failure it yields the error of every command in flight, each with its own
    /// [`fate`](crate::Error::fate), and ends; the rest of `commands` is not consumed. Dropping it early is allowed:
    /// outstanding replies are read and dropped by the next call, and jobs among them are offered to the next reserve.
    ///
    /// Pipelined timed reserves wait one after the other on the server. Windows over 500 reserved jobs make the server
    /// slow. Commands of several kinds go together as [`AnyCommand`](crate::protocol::AnyCommand)s.
    ///
    /// ```
    /// # let server = fixtures::beanstalkd::Server::start()?;
    /// use beanstalk_client::{PutOptions, blocking::Client, protocol::Put};
    ///
    /// # let address = server.address();
    /// let mut client = Client::connect(address)?;
    /// let puts = (0..1000).map(|n| Put::new(format!("job {n}"), PutOptions::default()).expect("it is small"));
    /// for inserted in client.call_many(puts) {
    ///     assert!(!inserted?.is_buried());
    /// }
    /// assert_eq!(client.stats_tube("default")?.expect("it always exists").current_jobs_ready, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_many<I>(&mut self, commands: I) -> CallMany<'_, I::IntoIter>
    where
        I: IntoIterator<Item: Command>,
    {
        CallMany::new(self, commands.into_iter())
    }
}

call_many!();

impl<I> Iterator for CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    type Item = Result<<I::Item as Command>::Reply>;

    fn next(&mut self) -> Option<Self::Item> {
        let span = self.window.span(&self.client.role);
        span.run(|| self.next_reply())
    }
}
