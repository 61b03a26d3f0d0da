//! The command `serve`, with the tool's own server and its own command for records.

use std::ffi::{OsStr, OsString};

use crate::commands::serve::{self, ServeArgs};
use crate::config::Settings;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::link::{Link as _, RequestLog};
use crate::output::messages::Messages;
use crate::output::{Output, Style};
use crate::repl::guest::Interactive;
use crate::system::env::Environment;
use crate::tool::cli;
use crate::tool::run::dispatch;

/// Runs `serve`.
pub(super) fn run<T: Interactive>(
    context: &mut Context<T>,
    args: &ServeArgs,
) -> Result<Exit, CliError> {
    // Install the handlers before there is anything to clean up.
    let interrupts = context.interrupts()?;
    let messages = context.messages.clone();
    let trace = messages.trace(T::PROGRAM.name);
    let log = trace.is_on().then(|| -> RequestLog {
        Box::new(move |connection, request| trace.show(format_args!("{connection} > {request}")))
    });
    serve::serve(
        &T::PROGRAM.servers,
        args,
        &interrupts,
        &mut context.out,
        &messages,
        |address| T::Link::start(address, log),
        (|file: &OsStr, address: &str| seed::<T>(file, address, &messages), T::Link::faults),
    )
}

/// Loads the records of a file into the server at this address, with the tool's own command. Only the address decides
/// where they go.
fn seed<T: Interactive>(file: &OsStr, address: &str, messages: &Messages) -> Result<(), CliError> {
    let program = T::PROGRAM;
    let words = [program.name, program.servers.flag, address];
    let words = words.iter().chain(program.seed).chain(&["--on-error", "stop"]);
    let line: Vec<OsString> = words.map(OsString::from).chain([file.to_owned()]).collect();
    let unreadable = |error: clap::Error| CliError::internal(error.render().to_string());
    let (mut cli, _) = cli::parse::<T>(&line).map_err(unreadable)?;
    cli.globals.asks_nobody = true;
    let settings = Settings::without_file(&program, &cli.settings, Environment::of(&[]));
    let mut context = Context::<T>::new((&cli.connect, false), &cli.tls, &cli.globals, settings)?;
    context.out = Output::to(Box::new(std::io::sink()), Style::default());
    context.messages = messages.clone();
    let Some(command) = cli.command else {
        return Err(CliError::internal("there is no command that reads records"));
    };
    let exit = dispatch(&mut context, command)?;
    match exit {
        Exit::Done => Ok(()),
        exit => Err(CliError::new(exit, "SEED", "the server did not accept all of --seed-file")),
    }
}
