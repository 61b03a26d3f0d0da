//! `repl`: an interactive or scripted session on one lasting connection.

mod grammar;
mod held;
mod jobs;
mod leave;
mod prompt;
mod shell;
mod sink;
mod state;
mod tubes;
mod values;
mod watcher;

use std::io::{self, Cursor, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Input;
use ctl_core::output::Output;
use ctl_core::repl::editor::Notices;
use ctl_core::repl::ending::Ending;
use ctl_core::repl::history::HistoryFile;
use ctl_core::repl::session::{Rules, Session, open};
use ctl_core::repl::source::{ReadLines, Script, StdinLines};
use ctl_core::repl::terminal::{Person, PersonSetup};
use ctl_core::signals::Interrupts;

use self::shell::Host;
use self::sink::{Sink, Written};
use self::state::{State, lock};
use self::values::Names;
use self::watcher::Watcher;
use crate::cli;
use crate::tool::Tool;

/// The end of `repl --help`.
pub const HELP: &str = "\
The commands are those of the command line, on one connection, and the verbs of the protocol that need one:
use, watch, ignore, reserve, touch. Type help in it.
Reserved jobs are yours until you finish them or leave; on leaving you are asked what becomes of them.

A script (stdin, -f, -e) stops at the first error with that error's exit code. # starts a comment, <<END takes the
lines up to END as a body, `expect 'ready==3' stats-tube mail` fails with exit 1 unless it is so.

Examples:
  bsctl repl
  bsctl repl -e 'use mail' -e 'put \"x\"'
  bsctl --embedded repl -f test.script";

/// Arguments of `repl`.
#[derive(Debug, Args)]
pub struct ReplArgs {
    /// Run the commands in FILE
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "execute")]
    file: Option<PathBuf>,

    /// Run this command; may be given several times
    #[arg(short = 'e', long, value_name = "CMD")]
    execute: Vec<String>,

    /// Go on after errors in a script; the exit code is 3 then
    #[arg(long)]
    keep_going: bool,

    /// Show each command of a script on stderr before it runs
    #[arg(long)]
    echo: bool,

    /// Exit 1 when a script ends while it holds reserved jobs
    #[arg(long)]
    strict_reserved: bool,
}

/// Where the commands come from.
enum From {
    Person,
    Stdin,
    File(PathBuf),
    Texts(String),
}

/// Runs `repl`.
///
/// # Errors
/// The terminal or the script cannot be read; a script's errors are reported here, and only their exit
/// code is returned.
pub fn run(tool: &mut Tool, args: ReplArgs) -> Result<Exit, CliError> {
    if tool.session.is_some() {
        return Err(CliError::usage("this is a session already"));
    }
    let strict = args.strict_reserved;
    let rules = Rules { keep_going: args.keep_going, echo: args.echo };
    let from = source(args);
    let interrupts = Interrupts::install(false)?;
    let ending = Ending::install()?;
    let written = Written::default();
    tool.session = Some(crate::tool::Session::default());
    tool.set_interrupts(interrupts.clone());
    tool.link.enter_session();
    tool.out = Output::to(Box::new(Sink::new(written.clone())), tool.out.style.clone());
    let person = matches!(from, From::Person);
    if matches!(from, From::Stdin) {
        tool.input = Input::Taken;
    }
    let grammar = grammar::grammar(&cli::command_tree());
    let names = match person {
        true => Names::live(tool.link.sibling(), verbs(&grammar)),
        false => Names::default(),
    };
    tell_on_panic(names.clone());
    let shared = Mutex::new(State::new(tool, person, written.clone(), names));
    let (waiting, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let rich = person && lock(&shared).style.color;
    let host = Host {
        shared: &shared,
        grammar,
        interrupts: interrupts.clone(),
        ending: ending.clone(),
        written,
        waiting: &waiting,
        rich,
        person,
    };
    let exit = thread::scope(|scope| {
        let start = |notices: Notices| {
            let watcher = Watcher {
                shared: &shared,
                notices,
                ending,
                interrupts,
                waiting: &waiting,
                over: &over,
            };
            let handle = scope.spawn(move || watcher.run());
            Watching { over: &over, thread: handle.thread().clone() }
        };
        match from {
            From::Person => converse(host, rules, start),
            from => script(host, rules, from, start),
        }
    })?;
    let left_behind = !lock(&shared).left_behind.is_empty();
    Ok(if strict && left_behind && exit.is_done() { Exit::Negative } else { exit })
}

/// A defect of this tool closes the connection too: the person learns what became of the jobs.
fn tell_on_panic(names: Names) {
    let (this, usual) = (thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        let held = names.held_ids();
        if thread::current().id() == this && !held.is_empty() {
            eprintln!("reserved jobs went back to ready: {}", held.join(", "));
        }
    }));
}

/// Ends the watching thread when the session is over, however it ends.
struct Watching<'s> {
    over: &'s AtomicBool,
    thread: thread::Thread,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// What was said explicitly wins over a redirected stdin.
fn source(args: ReplArgs) -> From {
    match args.file {
        Some(file) => From::File(file),
        None if !args.execute.is_empty() => From::Texts(args.execute.join("\n")),
        None if io::stdin().is_terminal() => From::Person,
        None => From::Stdin,
    }
}

fn script<'s>(
    mut host: Host<'_, '_>,
    rules: Rules,
    from: From,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    let (interrupts, ending) = (host.interrupts.clone(), host.ending.clone());
    let _watching = watch(Notices::stderr());
    let mut session = Session::new(&mut host, rules);
    match from {
        From::File(file) if file.as_os_str() != "-" => {
            let (name, lines) = open(&file)?;
            session.script(&name, lines)
        }
        From::Texts(text) => session.script("-e", Script::new(ReadLines(Cursor::new(text)))),
        From::File(_) | From::Stdin | From::Person => {
            let stops = move |_| interrupts.requested().is_some() || ending.requested().is_some();
            session.script("stdin", Script::new(StdinLines::piped(stops)))
        }
    }
}

fn converse<'s>(
    mut host: Host<'_, '_>,
    rules: Rules,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    greet(&mut lock(host.shared));
    let (mut person, trouble) = meet(&host)?;
    if let Some(error) = trouble {
        lock(host.shared).tool.messages.warn(error.message);
    }
    // Ended before the person is dropped would be too early, after it too late: the thread may be
    // waiting for the terminal to print.
    let watching = watch(person.notices());
    let result = Session::new(&mut host, rules).interactive(&mut person);
    drop(person);
    drop(watching);
    result
}

/// One line on who answers, or that nobody does: the session starts in any case.
fn greet(state: &mut State<'_>) {
    let messages = state.tool.messages.clone();
    let address = state.tool.link.address().unwrap_or_default();
    match state.tool.client() {
        Ok(_) => messages.note(format!("connected to {address}; help explains, Ctrl-D leaves")),
        Err(error) => messages.failure(&error, false),
    }
    state.notice_loss();
    state.tidy();
    state.names.refresh();
}

fn meet(host: &Host<'_, '_>) -> Result<(Person, Option<CliError>), CliError> {
    let state = lock(host.shared);
    let environment = state.tool.environment.clone();
    // An empty value means none, which the usual look-up takes for not set.
    let own = std::env::var_os("BSCTL_HISTFILE").map(|path| path.to_string_lossy().into_owned());
    let history = HistoryFile::locate("bsctl", own.as_deref(), |name| environment.var(name));
    Person::new(PersonSetup {
        grammar: host.grammar.clone(),
        values: Box::new(state.names.clone()),
        color: host.rich,
        history,
        interrupts: host.interrupts.clone(),
    })
}

/// The verbs that help and completion offer.
fn verbs(grammar: &clap::Command) -> Vec<String> {
    let shown = grammar.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}
