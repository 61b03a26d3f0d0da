//! What every command works with: flags, connection, output, messages, input.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use beanstalk_client::blocking::Client;
use beanstalk_client::{JobId, JobRef, TubeName};
use ctl_core::args::GlobalArgs;
use ctl_core::config::Environment;
use ctl_core::confirm::Confirm;
use ctl_core::error::CliError;
use ctl_core::input::Input;
use ctl_core::messages::Messages;
use ctl_core::output::Output;
use ctl_core::signals::Interrupts;

use crate::cli::Cli;
use crate::link::Link;

/// The prefix of this tool's environment variables.
pub const PREFIX: &str = "BSCTL";

/// What every command works with. Fields are public so that a command can borrow several at once.
pub struct Tool {
    /// The global flags of this command line, or of this line of a session.
    pub globals: GlobalArgs,
    /// The environment, for settings.
    pub environment: Environment,
    /// The connection.
    pub link: Link,
    /// The way to stdout.
    pub out: Output,
    /// The way to stderr.
    pub messages: Messages,
    /// What `-` means.
    pub input: Input,
    /// State of an interactive or scripted session; none for a single command.
    pub session: Option<Session>,
    interrupts: Option<Interrupts>,
}

/// What a session remembers between its lines.
#[derive(Default)]
pub struct Session {
    /// The jobs that the session's connection holds reserved.
    pub held: BTreeMap<JobId, Held>,
}

/// A reserved job of a session.
#[derive(Debug, Clone)]
pub struct Held {
    /// The reservation.
    pub job: JobRef,
    /// The tube, if the server told.
    pub tube: Option<TubeName>,
    /// The body's length in bytes.
    pub size: usize,
    /// How long the server lets it be held.
    pub ttr: Duration,
    /// When the server takes it back, counted from before the reserve was sent.
    pub deadline: Instant,
}

impl Tool {
    /// From the parsed command line; nothing is opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other: exit 2; a wrong variable: exit 78.
    pub fn new(cli: &Cli, environment: Environment) -> Result<Self, CliError> {
        let globals = cli.globals.clone();
        let messages = Messages::stderr("bsctl", PREFIX, &globals, &environment)?;
        let style = globals.style(PREFIX, &environment, Output::stdout_is_terminal())?;
        let link = Link::new(cli.addr.clone(), cli.embedded, &globals, &environment, &messages)?;
        Ok(Self {
            globals,
            environment,
            link,
            out: Output::stdout(style),
            messages,
            input: Input::Stdin,
            session: None,
            interrupts: None,
        })
    }

    /// The client, connected now if it was not. Commands that reserve jobs use [`Link::side`].
    ///
    /// # Errors
    /// The server cannot be reached: exit 69.
    pub fn client(&mut self) -> Result<&mut Client, CliError> {
        self.link.client()
    }

    /// The tube of `-t`, or the session's used tube, or `default`.
    ///
    /// # Errors
    /// A session's server cannot be reached.
    pub fn tube_or_used(&mut self, tube: Option<TubeName>) -> Result<TubeName, CliError> {
        match tube {
            Some(tube) => Ok(tube),
            None if self.session.is_some() => Ok(self.client()?.used_tube().clone()),
            None => Ok(TubeName::default()),
        }
    }

    /// Ctrl-C, SIGTERM and SIGHUP for long commands. The first call catches the signals; before it they end the process.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn interrupts(&mut self) -> Result<Interrupts, CliError> {
        let interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::install(self.session.is_none())?,
        };
        Ok(self.interrupts.insert(interrupts).clone())
    }

    /// The same for a command that ends by itself: the second signal does not end the process.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn gentle_interrupts(&mut self) -> Result<Interrupts, CliError> {
        let interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::install(false)?,
        };
        Ok(self.interrupts.insert(interrupts).clone())
    }

    /// Uses these interrupts, for a session that handles Ctrl-C itself.
    pub fn set_interrupts(&mut self, interrupts: Interrupts) {
        self.interrupts = Some(interrupts);
    }

    /// How confirmations are answered.
    #[must_use]
    pub fn confirm(&self) -> Confirm {
        Confirm::from_args(&self.globals)
    }

    /// The session's reservation of this job, if it holds one.
    #[must_use]
    pub fn held(&self, id: JobId) -> Option<&Held> {
        self.session.as_ref().and_then(|session| session.held.get(&id))
    }

    /// The session no longer holds this job.
    pub fn forget_held(&mut self, id: JobId) {
        if let Some(session) = &mut self.session {
            session.held.remove(&id);
        }
    }
}
