//! Running a tool: a whole command line, or one command of it.

use std::ffi::{OsStr, OsString};

use clap::{ArgMatches, FromArgMatches};

use crate::commands::ping;
use crate::commands::serve::{self, Requests, ServeArgs};
use crate::commands::settings;
use crate::config::Settings;
use crate::context::{Context, Effect};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::messages::Messages;
use crate::output::{Output, Style};
use crate::repl::guest::Interactive;
use crate::repl::{start, unreadable};
use crate::system::env::Environment;
use crate::tool::cli::{self, Cli, Common, Line};
use crate::tool::complete;
use crate::tool::docs::commands;
use crate::tool::early::Early;
use crate::tool::examples;

/// Runs a whole command line like the program; the first word is the program's name.
pub fn main<T: Interactive>(line: impl IntoIterator<Item = OsString>) -> Exit {
    let line: Vec<OsString> = line.into_iter().collect();
    let early = Early { program: &T::PROGRAM, line: &line, environment: &Environment::process() };
    early.run(|| run::<T>(&early))
}

fn run<T: Interactive>(early: &Early<'_>) -> Exit {
    let Early { program, line, environment } = *early;
    let (cli, matches) = match cli::parse::<T>(line) {
        Ok(parsed) => parsed,
        Err(error) => return early.grammar_error(error),
    };
    let Cli { connect, embedded, tls, settings: args, globals, command } = cli;
    let Some(command) = command else { return early.without_command() };
    let about_settings = is_about_settings(&command);
    let settings = match Settings::load(program, &args, embedded, environment.clone()) {
        Err(error) if about_settings => {
            let settings = Settings::without_file(program, &args, environment.clone());
            Ok(settings.with_trouble(error))
        }
        loaded => loaded,
    };
    let context = settings.and_then(|settings| {
        let settings = settings.with_flags(&matches);
        Context::<T>::new((&connect, embedded), &tls, &globals, settings)
    });
    let mut context = match context {
        Ok(context) => context,
        Err(error) => return early.failure(&error),
    };
    if !about_settings {
        context.link.dialer().say_override();
    }
    let result = dispatch(&mut context, command);
    let ended = context.out.end_line();
    context.messages.end_echo();
    result.and_then(|exit| ended.map(|()| exit)).unwrap_or_else(|error| {
        context.messages.failure(&error, context.out.style.format.is_json());
        error.exit
    })
}

/// Whether the command works with an invalid configuration file.
fn is_about_settings<T: Interactive>(line: &Line<T>) -> bool {
    match line {
        Line::Own(_) => false,
        Line::Common(command) => command.is_about_settings(),
    }
}

/// Runs one command.
///
/// # Errors
/// Why the command failed.
pub fn dispatch<T: Interactive>(context: &mut Context<T>, line: Line<T>) -> Result<Exit, CliError> {
    let style = context.out.style.clone();
    let effect = effect(&line);
    if effect == Effect::Destroys && !context.globals.dry_run {
        context.confirm().unlock(&context.messages)?;
    }
    let result = match line {
        Line::Own(command) => T::run(context, command),
        Line::Common(command) => common(context, command),
    };
    let result = result.and_then(|exit| context.out.flush().map(|()| exit));
    let result = result.map_err(|error| context.link.dialer_mut().explained(error));
    let result = result.map_err(|error| context.link.dialer().unless_cancelled(error));
    context.link.rest();
    context.out.style = style;
    if let Some(note) = context.out.take_left_out() {
        context.messages.note(note);
    }
    match result {
        Err(error) if error.is_broken_pipe() && effect.reads_only() => Ok(Exit::Done),
        other => other,
    }
}

/// The effect of a line.
pub(crate) fn effect<T: Interactive>(line: &Line<T>) -> Effect {
    match line {
        Line::Own(command) => command.effect(),
        Line::Common(command) => command.effect(),
    }
}

fn common<T: Interactive>(context: &mut Context<T>, command: Common) -> Result<Exit, CliError> {
    let out = &mut context.out;
    match command {
        Common::Ping(args) => ping::run(context, &args),
        Common::Repl(args) => start::run(context, args, session_line::<T>),
        Common::Serve(args) => serve(context, &args),
        Common::Context(args) => settings::context::run(context, &args),
        Common::Doctor(args) => settings::doctor::run(context, &args),
        Common::Complete(args) => complete::run(context, &args),
        Common::Examples(args) => examples::run(out, &context.messages, &T::PROGRAM, &args),
        Common::Completions(args) => {
            commands::completions(out, &context.messages, &T::PROGRAM, &args)
        }
        Common::Docs(args) => commands::readme(out, &T::PROGRAM, &args),
    }
}

/// Runs a line of a session that is also a command of the command line.
fn session_line<T: Interactive>(
    context: &mut Context<T>,
    matches: &ArgMatches,
) -> Result<Exit, CliError> {
    let line = Line::<T>::from_arg_matches(matches).map_err(unreadable)?;
    dispatch(context, line)
}

fn serve<T: Interactive>(context: &mut Context<T>, args: &ServeArgs) -> Result<Exit, CliError> {
    // Install the handlers before there is anything to clean up.
    let interrupts = context.interrupts()?;
    let messages = context.messages.clone();
    let trace = messages.trace(T::PROGRAM.name);
    let (requests, log) = Requests::log(args, trace, &messages)?;
    serve::serve(
        &T::PROGRAM.servers,
        (args, &requests),
        &interrupts,
        &mut context.out,
        &messages,
        |endpoint| T::Link::start(endpoint, log),
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
