//! A pipeline of commands with a bounded window.

use super::{Client, client::named};
use crate::{
    Deadline, Result,
    deadline::Limit,
    protocol::{Command, Head, Response, ServerWait, Ticket, Window},
};

impl Client {
    /// Sends commands without waiting for each reply, and gives the replies in order.
    ///
    /// The iterator is lazy: it takes commands from `commands` as the window (256 in flight, see
    /// [`window`](CallMany::window)) has room, and writes many of them at once. It gives exactly one result for each
    /// command it took. After the connection fails it gives the error of every command in flight, each with its own
    /// [`fate`](crate::Error::fate), and ends; the rest of `commands` is left untaken. Dropping it early is allowed: replies
    /// under way are read and dropped by the next call, and jobs among them are offered to the next reserve.
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
    ///     inserted?;
    /// }
    /// assert_eq!(client.stats_tube("default")?.expect("it always exists").current_jobs_ready, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
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

    /// A pipeline starts on a connection where nothing is waited for.
    fn start(&mut self) -> Result<()> {
        if self.client.session.abandoned_reserve().is_some() {
            self.client.session.poison();
        }
        let mut attempts = self.client.options.retry.attempts();
        self.client.make_ready(self.client.options.total_limit(), &mut attempts)
    }

    /// Writes and reads in turn until the oldest command has its reply.
    fn receive(&mut self, ticket: Ticket, wait: ServerWait) -> Result<Response> {
        let client = &mut *self.client;
        // What was read already is given whatever becomes of the next write.
        if let Some(response) = client.session.reply(ticket)? {
            return Ok(response);
        }
        if client.has_output() {
            // Nearly always everything fits into the socket's buffer at once, and then only the reply is waited for.
            let limit = client.options.write_limit(Limit::never());
            client.write_some(limit).map_err(|error| client.session.fail(ticket, error))?;
        }
        // It counts from now: nobody has read while the caller was away.
        let limit = if client.session.outgoing().is_empty() {
            client.options.reply_limit(Limit::never(), wait)
        } else {
            client.options.write_and_reply_limit(wait)
        };
        let mut has_moved = false;
        loop {
            if let Some(response) = client.session.reply(ticket)? {
                return Ok(response);
            }
            let moved = if client.has_output() {
                client.write_some(limit.named(Deadline::Write))
            } else if has_moved && limit.has_passed() {
                Err(limit.error())
            } else {
                client.read_some(limit)
            };
            has_moved = true;
            moved.map_err(|error| client.session.fail(ticket, error))?;
        }
    }
}

impl<I> Iterator for CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    type Item = Result<<I::Item as Command>::Reply>;

    fn next(&mut self) -> Option<Self::Item> {
        let outcome = self.next_reply()?;
        self.client.count::<I::Item, _>(&outcome);
        Some(outcome)
    }
}

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    fn next_reply(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        if !std::mem::replace(&mut self.started, true)
            && let Err(error) = self.start()
        {
            self.window.end();
            return self.commands.next().map(|command| Err(named(&command)(error)));
        }
        self.window.fill(&mut self.client.session, &mut self.commands);
        let outcome = match self.window.head()? {
            Head::Refused(refusal) => return Some(Err(refusal)),
            Head::Sent(ticket, wait) => self.receive(ticket, wait),
        };
        if outcome.is_ok() {
            self.client.mark_proven();
        }
        self.window.complete(&mut self.client.session, outcome)
    }
}
