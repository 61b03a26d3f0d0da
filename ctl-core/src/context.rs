//! The definition of a tool, and the context of its commands.

mod bulk;
pub mod command;
pub mod fleet;
pub(crate) mod grammar;
pub(crate) mod repeat;

use std::io::{self, IsTerminal as _};

use crate::args::GlobalArgs;
use crate::config::Settings;
use crate::context::command::{Ready, Table};
use crate::error::{CliError, Exit};
use crate::input::Input;
use crate::input::confirm::{Asking, Confirm};
use crate::link::diagnosis::Diagnosis;
use crate::link::tls::TlsArgs;
use crate::link::{Dialer, Link, ServerArgs};
use crate::output::messages::Messages;
use crate::output::{Output, Style};
use crate::program::Program;
use crate::system::signals::Interrupts;

/// A tool: its names, flags, commands and connections.
pub trait Tool: Sized + 'static {
    /// Its names and help texts.
    const PROGRAM: Program;

    /// Its own commands, in addition to the common ones.
    const COMMANDS: Table<Self>;
    /// The commands of every tool: [`commands`](crate::tool::kit::commands).
    const KIT: Table<Self>;
    /// Its connections.
    type Link: Link;
    /// The state that a session keeps between lines.
    type Session;

    /// Runs one of its own commands.
    ///
    /// # Errors
    /// Why the command failed.
    fn run(context: &mut Context<Self>, command: Ready<Self>) -> Result<Exit, CliError> {
        command.run(context)
    }

    /// Facts and problems of the server, for `doctor`.
    ///
    /// # Errors
    /// The failure of the connection.
    fn diagnose(link: &mut Self::Link) -> Result<Diagnosis, CliError>;
}

/// The effects of a command, which determine how carefully it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Leaves server and files unchanged: a closed pipe ends it quietly.
    Reads,
    /// Takes, changes and removes nothing that exists: it only adds, works on what it added itself, or asks by itself.
    Creates,
    /// May take, change or remove what exists: asks first in a protected context.
    Destroys,
}

impl Effect {
    /// Whether server and files stay unchanged.
    pub fn reads_only(self) -> bool {
        self == Self::Reads
    }
}

/// The context of a command: flags, connections, output, messages, input. Fields are public so that a command can
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
    /// The meaning of `-`.
    pub input: Input,
    /// State of an interactive or scripted session; none for a single command.
    pub session: Option<T::Session>,
    interrupts: Option<Interrupts>,
    /// Collects the questions about several servers into one.
    asking: Option<Asking>,
}

impl<T: Tool> Context<T> {
    /// From the flags of the command line; opens nothing yet.
    ///
    /// # Errors
    /// Conflicting flags or an invalid variable: exit 2.
    pub fn new(
        connect: (&ServerArgs, bool),
        tls: &TlsArgs,
        globals: &GlobalArgs,
        settings: Settings,
    ) -> Result<Self, CliError> {
        let program = &T::PROGRAM;
        let messages = globals.messages(program, &settings)?;
        let terminal = io::stdout().is_terminal();
        let style = Style { colors: program.colors, ..globals.style(&settings, terminal)? };
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

    /// For a command beside others, with its own output and without prompts, which these interrupts end.
    pub(crate) fn beside(
        globals: GlobalArgs,
        link: T::Link,
        out: Output,
        messages: Messages,
        input: Input,
        interrupts: Interrupts,
    ) -> Self {
        let interrupts = Some(interrupts);
        Self { globals, link, out, messages, input, session: None, interrupts, asking: None }
    }

    /// Handles Ctrl-C, SIGTERM and SIGHUP for long commands. The first call installs the handlers; before it, the
    /// signals end the process.
    ///
    /// # Errors
    /// The system denies the handlers.
    pub fn interrupts(&mut self) -> Result<Interrupts, CliError> {
        let is_first = self.interrupts.is_none();
        let interrupts = self.gentle_interrupts()?;
        // A waiting client gets the result; a command without a client ends at once.
        if is_first && !self.attend(&interrupts, true) {
            interrupts.arm_by_signal()?;
        }
        Ok(interrupts)
    }

    fn attend(&self, interrupts: &Interrupts, ends_process: bool) -> bool {
        let attention = self.link.dialer().attention();
        attention.is_some_and(|attention| attention.watch(interrupts, &self.messages, ends_process))
    }

    /// As [`Context::interrupts`], for a command with its own meaning of the second signal, which then does not end the
    /// process.
    ///
    /// # Errors
    /// The system denies the handlers.
    pub fn gentle_interrupts(&mut self) -> Result<Interrupts, CliError> {
        let interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::install()?,
        };
        Ok(self.interrupts.insert(interrupts).clone())
    }

    /// Uses these interrupts, for a session that handles Ctrl-C itself.
    pub(crate) fn set_interrupts(&mut self, interrupts: Interrupts) {
        self.attend(&interrupts, false);
        self.interrupts = Some(interrupts);
    }

    /// Puts the time before each message from now on, as in a log; also before those of the connections.
    pub(crate) fn stamp(&mut self) {
        self.messages = self.messages.stamped();
        self.link.dialer_mut().set_messages(&self.messages);
    }

    /// Refuses `--dry-run` for a command that cannot support it; `instead` names the alternative.
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

    /// The settings from environment, context and configuration file.
    pub fn settings(&self) -> &Settings {
        self.link.dialer().settings()
    }

    /// Asks for the name of the protected context of another server, if any, before anything changes there.
    ///
    /// # Errors
    /// As [`Confirm::unlock`].
    pub fn unlock_at(&self, address: &str) -> Result<(), CliError> {
        let own = self.confirm().lock;
        let name = self.link.dialer().protected(address).map(str::to_owned);
        let Some(name) = name.filter(|name| own.as_ref() != Some(name)) else { return Ok(()) };
        let both = own.map(|own| format!("--confirm={own},{name} confirms both"));
        let unlocked = self.globals.confirmation(Some(name)).unlock(&self.messages);
        unlocked.map_err(|error| both.into_iter().fold(error, CliError::hint))
    }

    /// How the command gets its confirmations.
    #[must_use]
    pub fn confirm(&self) -> Confirm {
        let address = || self.link.dialer().clone().address().unwrap_or_default();
        let mut confirm = self.globals.confirmation(self.settings().lock(address));
        confirm.asking.clone_from(&self.asking);
        confirm
    }

    /// Collects further questions for a combined one, or stops doing so.
    pub(crate) fn keep_questions(&mut self, asking: Option<Asking>) {
        self.asking = asking;
    }
}
