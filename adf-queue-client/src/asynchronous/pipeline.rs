//! Pipelined pushes with a bounded window, async.

use std::iter::Fuse;

use queue_core::{BatchOperation, now};

use crate::{
    Client, MessageId, Push, Result,
    protocol::client::window::{Window, WindowStep},
    trace,
};

impl Client {
    /// Pushes messages without waiting for each answer, and returns the answers in order: for one queue, in the order
    /// of the message numbers.
    ///
    /// It is lazy: it takes messages from `pushes` as there is room, up to 256 in flight with about 1 MiB in total, and
    /// writes many of them at once. It yields exactly one result for each message taken. After a connection failure it
    /// yields the result of every message in flight, each with its own [`fate`](crate::Error::fate), and ends; the rest
    /// of `pushes` is not consumed. A message that is refused, or cannot be sent, fails alone. Dropping it early is
    /// allowed: messages not sent by then never are.
    ///
    /// When a connection is lost, messages that definitely did not reach the server are sent over the next one, within
    /// the [retry policy](crate::RetryPolicy), and so after those in flight. Over HTTP, each message waits for the
    /// answer to the previous one.
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
        let (window, observation) = (Window::default(), BatchOperation::new());
        PushMany { client: self, pushes: pushes.into_iter().fuse(), window, observation }
    }
}

/// The answers of a pipeline of pushes, in order. See [`Client::push_many`].
#[must_use = "nothing is sent until the replies are requested"]
pub struct PushMany<'a, I> {
    client: &'a Client,
    pushes: Fuse<I>,
    window: Window,
    observation: BatchOperation,
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
    /// A dropped `next` loses nothing over WebSocket: the next call returns the answer. Over HTTP, the fate of the
    /// message in flight is lost.
    pub async fn next(&mut self) -> Option<Result<MessageId>> {
        let Some(link) = self.client.link() else {
            let push = self.pushes.next()?;
            return Some(self.client.push(push).await);
        };
        loop {
            let PushMany { client, pushes, window, observation } = self;
            let mut counted = pushes.by_ref().inspect(|push| {
                observation.begin(|| trace::pushes(client.options(), push));
                observation.takes(1);
            });
            let begin = |ask| link.begin(ask, client.options().total_limit(), now());
            window.fill(&mut counted, begin);
            match window.next() {
                WindowStep::Tell(outcome) => {
                    observation.sent(trace::failure(&outcome));
                    return Some(outcome);
                }
                WindowStep::Wait(number) => {
                    let span = observation.span();
                    window.came(span.follow(link.outcome(number)).await);
                }
                WindowStep::End => return None,
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
