//! Pipelined pushes with a bounded window.

use std::iter::Fuse;

use queue_core::BatchOperation;

use super::Client;
use crate::{
    MessageId, Push, Result,
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
    /// # let server = fixtures::adf_queue::Server::builder().queue("/mail").start()?;
    /// # let address = server.address();
    /// use adf_queue_client::{Push, QueueName, blocking::Client};
    ///
    /// let mut client = Client::connect(address)?;
    /// let queue: QueueName = "/mail".parse()?;
    /// for id in client.push_many((0..1000).map(|n| Push::right(queue.clone(), format!("message {n}")))) {
    ///     id?;
    /// }
    /// assert_eq!(client.count(queue)?, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_many<I>(&mut self, pushes: I) -> PushMany<'_, I::IntoIter>
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
    client: &'a mut Client,
    pushes: Fuse<I>,
    window: Window,
    observation: BatchOperation,
}

impl<I: Iterator<Item = Push>> Iterator for PushMany<'_, I> {
    type Item = Result<MessageId>;

    fn next(&mut self) -> Option<Self::Item> {
        let PushMany { client, pushes, window, observation } = self;
        let Some((link, options)) = client.link() else {
            let push = pushes.next()?;
            return Some(client.push(push));
        };
        loop {
            let counted = &mut pushes.by_ref().inspect(|push| {
                observation.begin(|| trace::pushes(options, push));
                observation.takes(1);
            });
            let has_begun = window.fill(counted, |ask| link.begin(ask, options.total_limit()));
            let span = observation.span();
            if has_begun {
                span.run(|| link.push());
            }
            match window.next() {
                WindowStep::Tell(outcome) => {
                    observation.sent(trace::failure(&outcome));
                    return Some(outcome);
                }
                WindowStep::Wait(number) => window.came(span.run(|| link.outcome(number))),
                WindowStep::End => return None,
            }
        }
    }
}

impl<I> Drop for PushMany<'_, I> {
    fn drop(&mut self) {
        if let Some((link, _)) = self.client.link() {
            self.window.end().for_each(|number| link.leave(number));
        }
    }
}
