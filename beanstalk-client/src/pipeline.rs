//! A pipeline of commands with a bounded window, async.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Instant,
};

use queue_core::{now, within};

use crate::{
    Client, Deadline, Result,
    client::{
        connection::{READS_IN_A_ROW, again_later},
        named,
    },
    protocol::{Command, Head, Response, ServerWait, Ticket, Window},
};

impl Client {
    /// Sends commands without waiting for each reply, and gives the replies in order.
    ///
    /// It is lazy: it takes commands from `commands` as the window (256 in flight, see [`window`](CallMany::window))
    /// has room, and writes many of them at once. It gives exactly one result for each command it took. After the
    /// connection fails it gives the error of every command in flight, each with its own [`fate`](crate::Error::fate), and
    /// ends; the rest of `commands` is left untaken. Dropping it early is allowed: replies under way are read and
    /// dropped by the next call, and jobs among them are offered to the next reserve.
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
    ///     inserted?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_many<I>(&mut self, commands: I) -> CallMany<'_, I::IntoIter>
    where
        I: IntoIterator<Item: Command>,
    {
        CallMany {
            client: self,
            commands: commands.into_iter(),
            window: Window::new(),
            started: false,
            asked_since: None,
        }
    }
}

/// The replies of a pipeline, in the order of its commands. See [`Client::call_many`].
#[must_use = "nothing is sent until replies are asked for"]
pub struct CallMany<'a, I: Iterator> {
    client: &'a mut Client,
    commands: I,
    window: Window<I::Item>,
    started: bool,
    /// Since when the reply to the oldest command in flight is asked for, however often `next` was dropped meanwhile.
    asked_since: Option<Instant>,
}

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    /// How many commands may be in flight; at least 1.
    pub fn window(mut self, commands: usize) -> Self {
        self.window.resize(commands);
        self
    }

    /// The next reply; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Each result is that of its own command; see [`Client::call_many`].
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the reply is given by the next call of it.
    pub async fn next(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        let outcome = self.next_reply().await?;
        self.client.count::<I::Item, _>(&outcome);
        Some(outcome)
    }

    async fn next_reply(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        if !self.started {
            let outcome = self.start().await;
            self.started = true;
            if let Err(error) = outcome {
                self.window.end();
                return self.commands.next().map(|command| Err(named(&command)(error)));
            }
        }
        self.window.fill(&mut self.client.session, &mut self.commands);
        let outcome = match self.window.head()? {
            Head::Refused(refusal) => return Some(Err(refusal)),
            Head::Sent(ticket, wait) => self.receive(ticket, wait).await,
        };
        if outcome.is_ok() {
            self.client.mark_proven();
        }
        self.asked_since = None;
        self.window.complete(&mut self.client.session, outcome)
    }

    /// A pipeline starts on a connection where nothing is waited for.
    async fn start(&mut self) -> Result<()> {
        if self.client.session.abandoned_reserve().is_some() {
            self.client.session.poison();
        }
        let mut attempts = self.client.options.retry.attempts();
        self.client.make_ready(self.client.options.total_limit(), &mut attempts).await
    }

    /// Writes and reads, both as they come, until the oldest command has its reply.
    async fn receive(&mut self, ticket: Ticket, wait: ServerWait) -> Result<Response> {
        let client = &mut *self.client;
        if let Some(response) = client.session.reply(ticket)? {
            return Ok(response);
        }
        // Not since the reply before it: nobody has read while the caller was away.
        let since = *self.asked_since.get_or_insert_with(now);
        // Nearly always everything fits into the socket's buffer at once, and then only the reply is waited for.
        let written = poll_fn(|cx| Poll::Ready(client.poll_write(cx))).await;
        let _ = written.map_err(|error| client.session.fail(ticket, error))?;
        let limit = if client.session.outgoing().is_empty() {
            client.options.reply_limit_since(wait, since)
        } else {
            client.options.write_and_reply_limit(wait)
        };
        let outcome = within(limit, poll_fn(|cx| client.poll_exchange(cx, ticket))).await;
        let outcome = outcome.unwrap_or_else(|passed| {
            let stuck = !client.session.outgoing().is_empty();
            Err(if stuck { limit.named(Deadline::Write).error() } else { passed })
        });
        outcome.map_err(|error| client.session.fail(ticket, error))
    }
}

impl Client {
    fn poll_exchange(&mut self, cx: &mut Context<'_>, ticket: Ticket) -> Poll<Result<Response>> {
        for _ in 0..READS_IN_A_ROW {
            // What was read already is given whatever becomes of the next write.
            if let Some(response) = self.session.reply(ticket)? {
                return Poll::Ready(Ok(response));
            }
            let _ = self.poll_write(cx)?;
            ready!(self.poll_read(cx))?;
        }
        again_later(cx)
    }
}
