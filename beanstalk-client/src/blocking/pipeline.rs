//! A pipeline of commands with a bounded window.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{Client, client::named};
use crate::{
    Error, Result,
    deadline::Limit,
    protocol::{Command, Ticket},
    socket::lost,
};

impl Client {
    /// Sends commands without waiting for each reply, and gives the replies in order.
    ///
    /// The iterator is lazy: it takes commands from `commands` as the window (256 in flight, see
    /// [`window`](CallMany::window)) has room, and writes many of them at once. It gives exactly one result for each
    /// command it took. After the connection fails it gives the error of every command in flight, each with its own
    /// [`fate`](Error::fate), and ends; the rest of `commands` is left untaken. Dropping it early is allowed: replies
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
            in_flight: VecDeque::new(),
            window: 256,
            state: State::New,
            head_since: Instant::now(),
        }
    }
}

/// The replies of a pipeline, in the order of its commands. See [`Client::call_many`].
#[must_use = "nothing is sent until replies are asked for"]
pub struct CallMany<'a, I: Iterator> {
    client: &'a mut Client,
    commands: I,
    in_flight: VecDeque<Sent<I::Item>>,
    window: usize,
    state: State,
    /// Since when the oldest command in flight is the oldest.
    head_since: Instant,
}

enum Sent<C> {
    Waits(Ticket, C),
    Refused(Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running,
    /// No command is taken any more.
    Ended,
}

/// No further command is encoded while so many bytes wait to be written.
const ENOUGH_OUTGOING: usize = 256 * 1024;

/// How long a write may be stuck before the pipeline looks for replies: server and client must not both wait for the
/// other to read.
const STUCK: Duration = Duration::from_millis(10);

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    /// How many commands may be in flight; at least 1.
    pub fn window(mut self, commands: usize) -> Self {
        self.window = commands.max(1);
        self
    }

    fn step(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        if self.state == State::New {
            self.state = State::Running;
            if let Err(error) = self.start() {
                self.state = State::Ended;
                return self.commands.next().map(|_| Err(named::<I::Item>(error)));
            }
        }
        if self.in_flight.len() <= self.window / 2 {
            self.fill();
        }
        let ticket = match self.in_flight.front()? {
            Sent::Waits(ticket, _) => *ticket,
            Sent::Refused(_) => return self.pop(None),
        };
        let response = loop {
            match self.client.session.reply(ticket) {
                Ok(Some(response)) => break response,
                Ok(None) => {}
                Err(error) => return self.pop(Some(error)),
            }
            if let Err(error) = self.exchange() {
                let error = self.client.session.fail(ticket, error);
                return self.pop(Some(error));
            }
        };
        self.client.mark_proven();
        self.head_since = Instant::now();
        match self.in_flight.pop_front() {
            Some(Sent::Waits(_, command)) => Some(self.client.session.decode(&command, response)),
            _ => None,
        }
    }

    /// A pipeline starts on a connection where nothing is waited for.
    fn start(&mut self) -> Result<()> {
        if self.client.session.abandoned_reserve().is_some() {
            self.client.session.poison();
        }
        self.client.make_ready(Limit::total(&self.client.options))
    }

    /// Takes the oldest command in flight as failed.
    fn pop(&mut self, error: Option<Error>) -> Option<Result<<I::Item as Command>::Reply>> {
        let refusal = match self.in_flight.pop_front()? {
            Sent::Refused(refusal) => Some(refusal),
            Sent::Waits(..) => {
                self.state = State::Ended;
                None
            }
        };
        error.or(refusal).map(|error| Err(named::<I::Item>(error)))
    }

    fn fill(&mut self) {
        let session = &mut self.client.session;
        if self.in_flight.is_empty() {
            self.head_since = Instant::now();
        }
        while self.state == State::Running
            && self.in_flight.len() < self.window
            && session.outgoing().len() < ENOUGH_OUTGOING
        {
            if !session.is_open() {
                self.state = State::Ended;
                return;
            }
            let Some(command) = self.commands.next() else {
                self.state = State::Ended;
                return;
            };
            self.in_flight.push_back(match session.send(&command) {
                Ok(ticket) => Sent::Waits(ticket, command),
                Err(refusal) => Sent::Refused(refusal),
            });
        }
    }

    /// Moves some bytes: writes while there is something to write, else reads.
    fn exchange(&mut self) -> Result<()> {
        let options = &self.client.options;
        let never = Limit::never();
        if self.client.session.outgoing().is_empty() {
            let wait = match self.in_flight.front() {
                Some(Sent::Waits(_, command)) => command.server_wait(),
                _ => return Ok(()),
            };
            let limit = never.reply_since(options, wait, self.head_since);
            return self.client.read_some(limit);
        }
        let limit = never.write(options);
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
        self.step()
    }
}
