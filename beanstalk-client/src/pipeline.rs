//! A pipeline of commands with a bounded window: what those of both faces have in common.

/// The replies of a pipeline, and the way to the next one.
macro_rules! call_many {
    ($($async:ident $await:ident)?) => {
/// The replies of a pipeline, in the order of its commands. See [`Client::call_many`].
#[must_use = "nothing is sent until the replies are requested"]
pub struct CallMany<'a, I: Iterator> {
    pub(crate) client: &'a mut Client,
    commands: I,
    window: Window<I::Item>,
    started: bool,
}

impl<'a, I> CallMany<'a, I>
where
    I: Iterator<Item: Command>,
{
    fn new(client: &'a mut Client, commands: I) -> Self {
        CallMany { client, commands, window: Window::new(), started: false }
    }

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

    $($async)? fn next_reply(&mut self) -> Option<Result<<I::Item as Command>::Reply>> {
        let client = &mut *self.client;
        if !self.started {
            client.role.prepare();
            let outcome = client.ready()$(.$await)?;
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
                client.reply()$(.$await)?
            }
        };
        self.window.complete(&mut client.role, outcome)
    }
}
    };
}

pub(crate) use call_many;
