//! A tool, and what every command of it works with.

pub mod args;
pub mod cli;
pub mod docs;
pub mod examples;
pub mod program;
pub mod run;
pub mod shells;

use clap::{Args, Subcommand};

use crate::commands::bulk::{Action, Bulk, Manner, OnError};
use crate::config::Settings;
use crate::error::{CliError, Exit};
use crate::input::Input;
use crate::input::confirm::{Asking, Confirm};
use crate::link::tls::TlsArgs;
use crate::link::{Connect, Dialer, Link};
use crate::output::Output;
use crate::output::messages::Messages;
use crate::settings::doctor::Diagnosis;
use crate::system::signals::Interrupts;
use crate::tool::args::GlobalArgs;
use crate::tool::program::Program;

/// A tool: its names, its flags, its commands and its connections.
pub trait Tool: Sized + 'static {
    /// What it is called, and what its help says.
    const PROGRAM: Program;

    /// The flags that say which servers.
    type Connect: Args + Connect;
    /// Its own commands, beside those of every tool.
    type Command: Subcommand;
    /// Its connections.
    type Link: Link;
    /// What a session remembers between its lines.
    type Session;

    /// Runs one of its own commands.
    ///
    /// # Errors
    /// Why the command did not do what was asked.
    fn run(context: &mut Context<Self>, command: Self::Command) -> Result<Exit, CliError>;

    /// What the server is, for `doctor`.
    ///
    /// # Errors
    /// The failure of the connection.
    fn diagnose(link: &mut Self::Link) -> Result<Diagnosis, CliError>;

    /// What the command does to what is there. It is asked of every command, so none may be left out.
    fn nature(command: &Self::Command) -> Nature;
}

/// What a command does to what is there: how careful the kit is with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// It looks, and leaves server and files as they are: a reader who goes away ends it quietly, and `watch` may repeat it.
    Looks,
    /// The same again and again by itself: `watch` does not repeat it.
    LooksOn,
    /// It takes, changes and removes nothing that is there: it puts something new there, works only on what it has put there
    /// itself, or asks by itself.
    Adds,
    /// It may take, change or remove what is there: in a protected context it asks first.
    Changes,
}

impl Nature {
    /// Whether server and files stay as they are.
    #[must_use]
    pub fn reads_only(self) -> bool {
        matches!(self, Self::Looks | Self::LooksOn)
    }
}

/// What every command works with: flags, connections, output, messages, input. Fields are public so that a command can
/// borrow several at once.
pub struct Context<T: Tool> {
    /// The global flags of this command line, or of this line of a session.
    pub globals: GlobalArgs,
    /// The connections.
    pub link: T::Link,
    /// The way to stdout.
    pub out: Output,
    /// The way to stderr.
    pub messages: Messages,
    /// What `-` means.
    pub input: Input,
    /// State of an interactive or scripted session; none for a single command.
    pub session: Option<T::Session>,
    interrupts: Option<Interrupts>,
    /// Where what several servers are asked about is one question.
    asking: Option<Asking>,
}

impl<T: Tool> Context<T> {
    /// From the flags of the command line; nothing is opened yet.
    ///
    /// # Errors
    /// Flags that exclude each other, or a wrong variable: exit 2.
    pub fn new(
        connect: (&T::Connect, bool),
        tls: &TlsArgs,
        globals: &GlobalArgs,
        settings: Settings,
    ) -> Result<Self, CliError> {
        let program = &T::PROGRAM;
        let environment = &settings.environment;
        let messages = Messages::stderr(program.name, program.prefix, globals, environment)?;
        let terminal = Output::stdout_is_terminal();
        let style = globals.style(&settings, terminal)?;
        let style = style.with_colors(program.colors);
        let dialer = Dialer::new(program, connect, tls, globals, settings, &messages)?;
        Ok(Self {
            globals: globals.clone(),
            link: T::Link::new(dialer),
            out: Output::stdout(style),
            messages,
            input: Input::Stdin,
            session: None,
            interrupts: None,
            asking: None,
        })
    }

    /// For one command beside others, with its own way out and no person who could be asked.
    pub(crate) fn beside(
        globals: GlobalArgs,
        link: T::Link,
        out: Output,
        messages: Messages,
        input: Input,
    ) -> Self {
        let interrupts = Some(Interrupts::none());
        Self { globals, link, out, messages, input, session: None, interrupts, asking: None }
    }

    /// Ctrl-C, SIGTERM and SIGHUP for long commands. The first call catches the signals; before it they end the process.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn interrupts(&mut self) -> Result<Interrupts, CliError> {
        self.catch(self.session.is_none())
    }

    /// The same for a command that itself gives the second signal a meaning: it does not end the process.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn gentle_interrupts(&mut self) -> Result<Interrupts, CliError> {
        self.catch(false)
    }

    fn catch(&mut self, second_stops: bool) -> Result<Interrupts, CliError> {
        let interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::install(second_stops)?,
        };
        Ok(self.interrupts.insert(interrupts).clone())
    }

    /// Uses these interrupts, for a session that handles Ctrl-C itself.
    pub fn set_interrupts(&mut self, interrupts: Interrupts) {
        self.interrupts = Some(interrupts);
    }

    /// Refuses `--dry-run` for a command that cannot only look; `instead` is what does.
    ///
    /// # Errors
    /// `--dry-run` is given: exit 2.
    pub fn refuse_dry_run(&self, command: &str, instead: &str) -> Result<(), CliError> {
        match self.globals.dry_run {
            true => {
                Err(CliError::usage(format!("{command} does not support --dry-run")).hint(instead))
            }
            false => Ok(()),
        }
    }

    /// Starts counting what a command acts on; `total` is how much that is going to be, as far as is known.
    ///
    /// # Errors
    /// The operating system refuses the signal handlers.
    pub fn bulk(
        &mut self,
        action: Action,
        manner: impl Into<Manner>,
        total: Option<u64>,
    ) -> Result<Bulk, CliError> {
        let interrupts = self.interrupts()?;
        let progress = self.globals.progress.unwrap_or_default();
        Ok(Bulk::start(action, manner, total, progress, interrupts, &self.messages))
    }

    /// The same for a command that goes on after failures, and acts on so many of `noun`.
    ///
    /// # Errors
    /// As [`Context::bulk`].
    pub fn bulk_of(
        &mut self,
        past: &'static str,
        noun: &'static str,
        total: u64,
    ) -> Result<Bulk, CliError> {
        let action = Action { past, noun, place: String::new() };
        self.bulk(action, OnError::Continue, Some(total))
    }

    /// What environment, context and configuration file say.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.link.dialer().settings()
    }

    /// Before anything is changed at another server, the name of the protected context that it is of, if there is one.
    ///
    /// # Errors
    /// As [`Confirm::unlock`].
    pub fn unlock_at(&self, address: &str) -> Result<(), CliError> {
        let own = self.confirm().lock;
        let name = self.link.dialer().protected(address).map(str::to_owned);
        let Some(name) = name.filter(|name| own.as_ref() != Some(name)) else { return Ok(()) };
        let both = own.map(|own| format!("--confirm={own},{name} confirms both"));
        let unlocked = Confirm::from_args(&self.globals, Some(name)).unlock(&self.messages);
        unlocked.map_err(|error| both.into_iter().fold(error, CliError::hint))
    }

    /// How confirmations are answered.
    #[must_use]
    pub fn confirm(&self) -> Confirm {
        let address = || self.link.dialer().clone().address().unwrap_or_default();
        let mut confirm = Confirm::from_args(&self.globals, self.settings().lock(address));
        confirm.asking.clone_from(&self.asking);
        confirm
    }

    /// Keeps what would be asked from now on for one question, or asks again.
    pub(crate) fn keep_questions(&mut self, asking: Option<Asking>) {
        self.asking = asking;
    }
}
