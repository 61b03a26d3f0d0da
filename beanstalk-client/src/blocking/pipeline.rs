//! A pipeline of commands with a bounded window.

use std::time::{Duration, Instant};

use super::{Client, client::named};
use crate::{
    Result,
    deadline::Limit,
    protocol::{Command, Head, Response, ServerWait, Ticket, Window},
    socket::lost,
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
            head_since: Instant::now(),
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
    /// Since when the oldest command in flight is the oldest.
    head_since: Instant,
}

/// How long a write may be stuck before the pipeline looks for replies: server and client must not both wait for the
/// other to read.
const STUCK: Duration = Duration::from_millis(10);

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
        self.client.make_ready(Limit::total(&self.client.options))
    }

    /// Writes and reads in turn until the oldest command has its reply.
    fn receive(&mut self, ticket: Ticket, wait: ServerWait) -> Result<Response> {
        loop {
            if let Some(response) = self.client.session.reply(ticket)? {
                return Ok(response);
            }
            self.exchange(wait).map_err(|error| self.client.session.fail(ticket, error))?;
        }
    }

    /// Moves some bytes: writes while there is something to write, else reads.
    fn exchange(&mut self, wait: ServerWait) -> Result<()> {
        let options = &self.client.options;
        if self.client.session.outgoing().is_empty() {
            let limit = Limit::never().reply_since(options, wait, self.head_since);
            return self.client.read_some(limit);
        }
        let limit = Limit::never().write(options);
        loop {
            let stuck = limit.shorter(STUCK);
            let Some(transport) = &mut self.client.transport else { return Ok(()) };
            let bytes = self.client.session.outgoing();
            if let Some(n) = transport.write(bytes, stuck).map_err(lost)? {
                self.client.session.sent(n);
                if self.client.session.outgoing().is_empty() {
                    transport.flush().map_err(lost)?;
                }
                return Ok(());
            }
            if limit.has_passed() {
                return Err(limit.error());
            }
            if self.client.read_if_any()? {
                return Ok(());
            }
        }
    }
}

impl<I> Iterator for CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    type Item = Result<<I::Item as Command>::Reply>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::replace(&mut self.started, true)
            && let Err(error) = self.start()
        {
            self.window.end();
            return self.commands.next().map(|_| Err(named::<I::Item>(error)));
        }
        if self.window.is_empty() {
            self.head_since = Instant::now();
        }
        self.window.fill(&mut self.client.session, &mut self.commands);
        let outcome = match self.window.head()? {
            Head::Refused(refusal) => return Some(Err(refusal)),
            Head::Sent(ticket, wait) => self.receive(ticket, wait),
        };
        if outcome.is_ok() {
            self.client.mark_proven();
            self.head_since = Instant::now();
        }
        self.window.complete(&mut self.client.session, outcome)
    }
}
