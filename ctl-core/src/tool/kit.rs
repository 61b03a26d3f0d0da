//! The commands of every tool, as rows of a table like that of a tool's own.

use std::marker::PhantomData;

use clap::{ArgMatches, FromArgMatches as _};

use crate::commands::ping::{self, PingArgs};
use crate::commands::serve::ServeArgs;
use crate::commands::settings::context::{self, ContextArgs};
use crate::commands::settings::doctor::{self, DoctorArgs};
use crate::context::Context;
use crate::context::command::{Ready, Table};
use crate::error::{CliError, Exit};
use crate::repl::args::{self, SessionArgs};
use crate::repl::guest::Interactive;
use crate::repl::{start, unreadable};
use crate::tool::docs::commands::{self, CompletionsArgs, DocsArgs};
use crate::tool::help::{self, HelpArgs};
use crate::tool::run::dispatch;
use crate::tool::shells::CompleteArgs;
use crate::tool::{complete, serve};

/// The table of these commands for a tool.
pub const fn commands<T: Interactive>() -> Table<T> {
    Kit::COMMANDS
}

struct Kit<T>(PhantomData<T>);

impl<T: Interactive> Kit<T> {
    const COMMANDS: Table<T> = crate::commands! {
    "Observe" {
        "ping" (PingArgs) = |context, args| ping::run(context, &args), Reads, ping::HELP, [],
            "Measure round trips to the server";
    }
    "Tool" {
        "repl" | "shell" (SessionArgs) = |context, args| start::run(context, args, line), Creates,
            args::HELP, [Absent], "{session}";
        "serve" | "mock" (ServeArgs) = |context, args| serve::run(context, &args), Creates, SERVE, [Absent],
            "Run an in-memory server, standalone or for a command";
        "context" (ContextArgs) = |context, args| context::run(context, &args),
            Reads if ContextArgs::reads_only, else Creates, context::HELP, [Absent, Unconfigured],
            "Manage contexts: named sets of settings, such as servers";
        "doctor" (DoctorArgs) = doctor::run, Reads, doctor::HELP, [Unconfigured],
            "Diagnose settings and connections, and suggest fixes";
        "help" (HelpArgs) = |context, args| help::run(&mut context.out, &T::PROGRAM, &args), Reads, "",
            [Unconfigured, Hidden], "Explain a command or a topic" + "examples" = "examples";
        "completions" (CompletionsArgs) = |context, args| {
            commands::completions(&mut context.out, &context.messages, &T::PROGRAM, &args)
        }, Reads if CompletionsArgs::reads_only, else Creates, commands::HELP, [Absent, Unconfigured],
            "Print a completion script for a shell, or the man pages" + "man" = "man";
        "complete" (CompleteArgs) = |context, args| complete::run(context, &args), Reads, "",
            [Absent, Unconfigured, Hidden], "Say how a line of a shell can go on";
        "docs" (DocsArgs) = |context, _| commands::readme(&mut context.out, &T::PROGRAM), Reads, "",
            [Absent, Unconfigured, Hidden], "Print the sections of the README that are made from the grammar";
    }
    };
}

/// Runs a line of a session that is also a command of the command line.
fn line<T: Interactive>(context: &mut Context<T>, matches: &ArgMatches) -> Result<Exit, CliError> {
    let command = Ready::<T>::from_arg_matches(matches).map_err(unreadable)?;
    dispatch(context, command)
}

/// The end of `serve --help`.
const SERVE: &str = "\
{memory} It listens on this machine only unless --allow-remote is given, because it has no authentication. Its standard
port is {port}. Limits: 1024 connections, {limits}. When full, it closes connections that have never sent anything.
With a command, the server runs as long as the command, which finds its address in {variables}; the command's exit code
becomes the exit code.

--fail scripts faults as [VERB:]WHEN:ACTION,..: WHEN is nth=K, every=K, drawn=SEED/K or always; ACTION is a reply in
capitals, reply=TEXT, delay=5ms, chunk=N, cut=N, reset=N, hang, duplicate, executed or unexecuted. Requests are counted
from the start.
--seed-file {seed}.

Examples:
  {name} serve --seed-file jobs.ndjson --listen 127.0.0.1:0
  {name} serve --fail always:delay=5ms --fail '{fault}'
  {name} serve --listen 127.0.0.1:{port}
  {name} serve --listen 127.0.0.1:0 --ready-file /tmp/ready
  {name} serve -- cargo test";
