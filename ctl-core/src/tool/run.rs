//! Running a tool: a whole command line, or one command of it.

use std::ffi::OsString;

use crate::config::Settings;
use crate::context::command::Ready;
use crate::context::{Context, Effect, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link as _;
use crate::system::env::Environment;
use crate::tool::cli::{self, Cli};
use crate::tool::early::Early;

/// Runs a whole command line like the program; the first word is the program's name.
pub fn main<T: Tool>(line: impl IntoIterator<Item = OsString>) -> Exit {
    let line: Vec<OsString> = line.into_iter().collect();
    let early = Early { program: &T::PROGRAM, line: &line, environment: &Environment::process() };
    early.run(|| run::<T>(&early))
}

fn run<T: Tool>(early: &Early<'_>) -> Exit {
    let Early { program, line, environment } = *early;
    let (cli, matches) = match cli::parse::<T>(line) {
        Ok(parsed) => parsed,
        Err(error) => return early.grammar_error(error),
    };
    let Cli { connect, embedded, tls, settings: args, globals, command } = cli;
    let Some(command) = command else { return early.without_command() };
    let about_settings = !command.needs_settings();
    let settings = match Settings::load(program, &args, embedded, environment.clone()) {
        Err(error) if about_settings => {
            let settings = Settings::without_file(program, &args, environment.clone());
            Ok(settings.with_trouble(error))
        }
        loaded => loaded,
    };
    let context = settings.and_then(|settings| {
        let settings = settings.with_flags(&matches, tls.given());
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
    context.messages.after_interrupt();
    result.and_then(|exit| ended.map(|()| exit)).unwrap_or_else(|error| {
        context.messages.failure(&error, context.out.style.format.is_json());
        error.exit
    })
}

/// Runs one command.
///
/// # Errors
/// Why the command failed.
pub fn dispatch<T: Tool>(context: &mut Context<T>, command: Ready<T>) -> Result<Exit, CliError> {
    let style = context.out.style.clone();
    let effect = command.effect();
    if effect == Effect::Destroys && !context.globals.dry_run {
        context.confirm().unlock(&context.messages)?;
    }
    let result = T::run(context, command).and_then(|exit| context.out.flush().map(|()| exit));
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
