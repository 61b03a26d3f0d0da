//! A pipeline of commands with a bounded window, async.

use crate::{
    Client, Result,
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
        CallMany {
            client: self,
            commands: commands.into_iter(),
            window: Window::new(),
            started: false,
        }
    }
}

/// The replies of a pipeline, in the order of its commands. See [`Client::call_many`].
#[must_use = "nothing is sent until the replies are requested"]
pub struct CallMany<'a, I: Iterator> {
    pub(crate) client: &'a mut Client,
    commands: I,
    window: Window<I::Item>,
    started: bool,
}

impl<I> CallMany<'_, I>
where
    I: Iterator<Item: Command>,
{
    /// Maximum number of commands in flight; at least 1.
    pub fn window(mut self, commands: usize) -> Self {
        self.window.resize(commands);
        self
    }

    /// Starts over with these commands, after the end of the earlier ones.
    pub(crate) fn start_over(&mut self, commands: I) {
        self.commands = commands;
        self.window = Window::new();
        self.started = false;
    }

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

    async fn next_reply(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        let client = &mut *self.client;
        if !self.started {
            client.role.prepare();
            let outcome = client.ready().await;
            self.started = true;
            if let Err(error) = outcome {
                return self.window.fail(&mut client.role, &mut self.commands, error);
            }
        }
        self.window.fill(&mut client.role.session, &mut self.commands);
        let outcome = match self.window.head(&mut client.role)? {
            OldestCommand::Refused(refusal) => return Some(Err(refusal)),
            OldestCommand::Sent(ticket, wait) => {
                client.role.await_reply(ticket, wait);
                client.reply().await
            }
        };
        self.window.complete(&mut client.role, outcome)
    }
}
