//! A pipeline of pushes with a bounded window, async.

use crate::{
    Client, MessageId, Push, Result,
    protocol::client::window::{Next, Window},
};

impl Client {
    /// Pushes messages without waiting for each answer, and gives the answers in order: of one queue, in the order of their
    /// numbers.
    ///
    /// It is lazy: messages are taken from `pushes` as there is room, up to 256 under way with about 1 MiB in all, and many of
    /// them go out in one write. It gives exactly one result for each message that it took. After a failure of the connection
    /// it gives the result of every message under way, each with its own [`fate`](crate::Error::fate), and ends; the rest of
    /// `pushes` is left untaken. What was refused, or cannot be sent, is a failure of its own message. Dropping it early is
    /// allowed: what was not sent by then is not sent any more.
    ///
    /// What certainly did not reach the server when a connection was lost goes over the next one, within the
    /// [retry policy](crate::RetryPolicy), behind those that were lost with it. Over HTTP each message waits for the answer to
    /// the one before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::{Client, Push, QueueName};
    ///
    /// let client = Client::connect(address).await?;
    /// let queue: QueueName = "/mail".parse()?;
    /// let mut pushed = client.push_many((0..1000).map(|n| Push::right(queue.clone(), format!("message {n}"))));
    /// while let Some(id) = pushed.next().await {
    ///     id?;
    /// }
    /// assert_eq!(client.count(&queue).await?, 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn push_many<I>(&self, pushes: I) -> PushMany<'_, I::IntoIter>
    where
        I: IntoIterator<Item = Push>,
    {
        PushMany { client: self, pushes: pushes.into_iter(), window: Window::default() }
    }
}

/// The answers of a pipeline of pushes, in order. See [`Client::push_many`].
#[must_use = "nothing is sent until answers are asked for"]
pub struct PushMany<'a, I> {
    client: &'a Client,
    pushes: I,
    window: Window,
}

impl<I: Iterator<Item = Push>> PushMany<'_, I> {
    /// The next answer; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Each result is that of its own message; see [`Client::push_many`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing over WebSocket: the answer is given by the next call of it. Over HTTP nobody learns what
    /// became of the message that was under way.
    pub async fn next(&mut self) -> Option<Result<MessageId>> {
        let Some(link) = self.client.link() else {
            let push = self.pushes.next()?;
            return Some(self.client.push(push).await);
        };
        loop {
            self.window.fill(&mut self.pushes, |ask| self.client.begin(link, ask));
            match self.window.next() {
                Next::Tell(outcome) => return Some(outcome),
                Next::Wait(number) => self.window.came(link.outcome(number).await),
                Next::End => return None,
            }
        }
    }
}

impl<I> Drop for PushMany<'_, I> {
    fn drop(&mut self) {
        if let Some(link) = self.client.link() {
            self.window.end().for_each(|number| link.leave(number));
        }
    }
}
