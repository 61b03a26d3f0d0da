//! What every command works with: flags, connections, output, messages, input.

use std::collections::VecDeque;

use ctl_core::args::GlobalArgs;
use ctl_core::config::Environment;
use ctl_core::confirm::Confirm;
use ctl_core::error::CliError;
use ctl_core::input::Input;
use ctl_core::messages::Messages;
use ctl_core::output::Output;
use ctl_core::signals::Interrupts;
use gearman_client::JobHandle;

use crate::cli::Cli;
use crate::link::Link;
use crate::running::Running;

/// The prefix of this tool's environment variables.
pub const PREFIX: &str = "GEARCTL";

/// What every command works with. Fields are public so that a command can borrow several at once.
pub struct Tool {
    /// The global flags of this command line.
    pub globals: GlobalArgs,
    /// The environment, for settings.
    pub environment: Environment,
    /// The connections.
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
    /// Foreground jobs that were left to it, in that order; also ended ones that nobody has seen yet.
    pub runs: Vec<Running>,
    /// Background jobs, oldest first.
    pub submitted: VecDeque<Submitted>,
}

/// A background job that a session has submitted.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Its handle.
    pub handle: JobHandle,
    /// Its function.
    pub function: String,
}

/// So many background jobs are remembered.
const MAX_SUBMITTED: usize = 1000;

impl Session {
    /// A background job was submitted.
    pub fn submitted(&mut self, handle: JobHandle, function: String) {
        if self.submitted.len() >= MAX_SUBMITTED {
            self.submitted.pop_front();
        }
        self.submitted.push_back(Submitted { handle, function });
    }
}

impl Tool {
    /// From the parsed command line; nothing is opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other: exit 2; a wrong variable: exit 78.
    pub fn new(cli: &Cli, environment: Environment) -> Result<Self, CliError> {
        let globals = cli.globals.clone();
        let messages = Messages::stderr("gearctl", PREFIX, &globals, &environment)?;
        let style = globals.style(PREFIX, &environment, Output::stdout_is_terminal())?;
        let link =
            Link::new((&cli.server, cli.embedded), &cli.tls, &globals, &environment, &messages)?;
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

    /// Ctrl-C, SIGTERM and SIGHUP for long commands. The first call catches the signals; before it they end the process.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn interrupts(&mut self) -> Result<Interrupts, CliError> {
        let interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::install(true)?,
        };
        Ok(self.interrupts.insert(interrupts).clone())
    }

    /// As [`Tool::interrupts`], for a command that itself gives the second signal a meaning.
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
}
