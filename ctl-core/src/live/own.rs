//! The tool's own commands, run for a web page or a live view, as they would run in a shell.

use std::sync::Mutex;

use queue_core::lock;
use serde_json::{Value, json};

use crate::args::GlobalArgs;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::input::Input;
use crate::link::Link;
use crate::output::messages::Messages;
use crate::output::{Format, Memory, Output, Style};
use crate::repl::guest::Interactive;
use crate::system::signals::Interrupts;
use crate::tool::cli;
use crate::tool::run::dispatch;

/// Maximum output of a command, in bytes.
pub(crate) const MOST: usize = 8 << 20;
/// Maximum length of a name, in bytes.
const LONGEST: usize = 1024;

/// Runs commands over its own connections.
pub(crate) struct Own<T: Interactive> {
    globals: GlobalArgs,
    /// One for each server, with its address.
    links: Vec<(String, Mutex<T::Link>)>,
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Came {
    /// Its result: a JSON document, or text.
    pub(crate) result: Value,
    /// Its messages.
    pub(crate) messages: String,
    pub(crate) exit: Exit,
}

impl Came {
    /// As a document.
    pub(crate) fn document(&self) -> Value {
        json!({
            "result": self.result,
            "messages": self.messages,
            "exit": self.exit.code(),
            "done": self.exit == Exit::Done,
        })
    }

    /// In one line, for users.
    pub(crate) fn line(&self) -> String {
        let result = match &self.result {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            document => document.to_string(),
        };
        let said = [self.messages.trim(), result.trim()];
        said.into_iter().find(|text| !text.is_empty()).unwrap_or("done").replace('\n', "; ")
    }
}

impl<T: Interactive> Own<T> {
    /// Creates connections to the servers of a context.
    ///
    /// # Errors
    /// The servers are unknown because of an invalid address.
    pub(crate) fn of(context: &mut Context<T>) -> Result<Self, CliError> {
        let links = context.link.each()?.into_iter();
        let links = links.map(|(address, link)| (address, Mutex::new(link))).collect();
        Ok(Self { globals: context.globals.clone(), links })
    }

    /// Runs a command at this server until it is done or interrupted; `line` starts with its name. Its result is JSON or
    /// text.
    ///
    /// # Errors
    /// There is no such server; errors of the command.
    pub(crate) fn run(
        &self,
        server: &str,
        format: Format,
        (line, body): (Vec<String>, Option<Vec<u8>>),
        interrupts: &Interrupts,
    ) -> Result<Came, CliError> {
        interrupts.check()?;
        let (_, link) = self
            .links
            .iter()
            .find(|(address, _)| address == server)
            .ok_or_else(|| CliError::usage("there is no such server"))?;
        let sibling = lock(link).sibling();
        let whole: Vec<String> = [T::PROGRAM.name.to_owned()].into_iter().chain(line).collect();
        let (cli, _) =
            cli::parse::<T>(&whole).map_err(|error| CliError::usage(error.render().to_string()))?;
        let command = cli.command.ok_or_else(|| CliError::usage("no command given"))?;
        let mut globals = cli.globals;
        // Inherits the flags of this command, except for what the line says.
        globals.verbose = 0;
        globals.asks_nobody = true;
        globals.timeout = self.globals.timeout;
        let formats = sibling.dialer().settings().config().envelopes.clone();
        let style = globals.restyle(&Style { format, formats, ..Style::default() })?;
        let why = "the result is too long to show: narrow it down";
        let memory = || Memory::bounded(MOST, why);
        let (out, messages) = (memory(), memory());
        let mut context = Context::<T>::beside(
            globals,
            sibling,
            Output::to(Box::new(out.clone()), style),
            Messages::to(Box::new(messages.clone()), T::PROGRAM.name, false, false),
            body.map_or(Input::Taken, Input::Bytes),
            interrupts.clone(),
        );
        let exit = dispatch(&mut context, command)?;
        let text = out.text();
        let result: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Came { result, messages: messages.text(), exit })
    }
}

/// Ensures that a name cannot be taken for a flag, a file or stdin, at any position.
///
/// # Errors
/// It could be: exit 2.
pub(crate) fn name(value: &str, field: &str) -> Result<String, CliError> {
    let is_name = value.len() <= LONGEST && !value.starts_with(['-', '@']) && !value.contains('\0');
    let wrong = || format!("{field} is not valid: a name must not start with - or @");
    is_name.then(|| value.to_owned()).ok_or_else(|| CliError::usage(wrong()))
}
