//! Starting a session of any tool: its command line, the source of commands, signals, threads.

use std::io::{self, Cursor, IsTerminal, Write};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::args::SessionArgs;
use super::complete::Values;
use super::editor::Notices;
use super::guest::{Guest, Interactive, Parts, RunLine, lock};
use super::help::Group;
use super::history::HistoryFile;
use super::host::{Host, within_session};
use super::known::KnownNames;
use super::session::{Session, open};
use super::sink::{Sink, Written};
use super::source::{ReadLines, Script, StdinLines};
use super::terminal::Person;
use super::values::{AllValues, KnownSettings, OfSession};
use super::watcher::Watcher;
use super::{contexts, tree};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::help::topics;
use crate::input::Input;
use crate::link::Link;
use crate::output::{Destination, Output};
use crate::system::env::Environment;
use crate::system::signals::Interrupts;

/// The source of commands.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    Person,
    Stdin,
    File(PathBuf),
    Texts(String),
}

/// Runs `repl` of a tool. `line` runs a line that is also a command of the command line.
///
/// # Errors
/// The terminal or the script cannot be read; a script's errors are reported here, and only their exit
/// code is returned.
pub fn run<T: Interactive>(
    context: &mut Context<T>,
    args: SessionArgs,
    line: RunLine<T>,
) -> Result<Exit, CliError> {
    if context.session.is_some() {
        return Err(CliError::usage("already in a session"));
    }
    let start = Start::new(args, T::PROGRAM.name)?;
    context.session = Some(T::Session::default());
    context.set_interrupts(start.interrupts.clone());
    let sink = Sink::new(start.written.clone());
    context.out = Output::to(Box::new(sink), context.out.style.clone()).at(Destination::stdout());
    context.input = if start.from == Origin::Stdin { Input::Taken } else { Input::Stdin };
    let person = start.from == Origin::Person;
    let names = match person {
        true => KnownNames::live(T::live_names(context.link.behind())),
        false => KnownNames::default(),
    };
    contexts::keep_names(context.settings(), &T::PROGRAM, &names);
    let guest = T::guest(context, person, names);
    start.run(guest, line)
}

/// A session that is about to start: signals are caught, and stdout is set up.
struct Start {
    from: Origin,
    keep_going: bool,
    strict: bool,
    /// The commands that run first in each session of a person, unless others can change them.
    rc: Option<PathBuf>,
    interrupts: Interrupts,
    ending: Interrupts,
    written: Written,
}

impl Start {
    /// Catches the signals.
    fn new(args: SessionArgs, tool: &str) -> Result<Self, CliError> {
        let interrupts = Interrupts::install()?;
        let ending = Interrupts::of_end()?;
        let environment = Environment::process();
        let folder = environment.folder("XDG_CONFIG_HOME", ".config", "LOCALAPPDATA");
        let rc = folder.map(|folder| folder.join(tool).join("replrc"));
        let SessionArgs { keep_going, strict, .. } = args;
        let (from, written) = (source(args), Written::default());
        Ok(Self { from, keep_going, strict, rc, interrupts, ending, written })
    }

    /// Runs the session to its end.
    fn run<G: Guest>(self, mut guest: G, line: RunLine<G::Tool>) -> Result<Exit, CliError> {
        let Parts { tool, names, .. } = guest.parts();
        tell_on_panic::<G>(names.clone());
        let (globals, style) = (tool.globals.clone(), tool.out.style.clone());
        let person = self.from == Origin::Person;
        let shared = Mutex::new(guest);
        let (waiting, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let written = self.written;
        let rich = person && style.color;
        let grammar = tree::grammar::<G::Tool>();
        let host = Host {
            shared: &shared,
            start_flags: tree::start_flags::<G::Tool>(&grammar),
            grammar,
            line,
            interrupts: self.interrupts,
            ending: self.ending.clone(),
            written: written.clone(),
            waiting: &waiting,
            rich,
            person,
            globals,
            style,
            known_settings: KnownSettings::default(),
            usual: None,
            left_behind: false,
        };
        let ending = self.ending;
        thread::scope(|scope| {
            let start = |notices: Notices| {
                let watcher = Watcher {
                    shared: &shared,
                    notices,
                    rich,
                    ending,
                    written,
                    waiting: &waiting,
                    over: &over,
                };
                let handle = scope.spawn(move || watcher.run());
                Watching { over: &over, thread: handle.thread().clone() }
            };
            match self.from {
                Origin::Person => converse(host, self.keep_going, self.rc, start),
                from => script(host, (self.keep_going, self.strict), from, start),
            }
        })
    }
}

/// A panic also ends the session, so the user should learn what happens to held jobs.
fn tell_on_panic<G: Guest>(names: KnownNames) {
    let (this, usual) = (thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if thread::current().id() == this
            && let (key, words) = G::LAST_WORDS
            && let held = names.kept(key)
            && !held.is_empty()
        {
            // A stderr that cannot be written has nowhere to be reported.
            let text = format!("{words} {}", held.join(", "));
            let _ = writeln!(io::stderr(), "{}", crate::text::escape::lines(&text));
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

/// Explicit flags override a redirected stdin.
fn source(args: SessionArgs) -> Origin {
    match args.file {
        Some(file) if file.as_os_str() == "-" => Origin::Stdin,
        Some(file) => Origin::File(file),
        None if !args.execute.is_empty() => Origin::Texts(args.execute.join("\n")),
        None if io::stdin().is_terminal() => Origin::Person,
        None => Origin::Stdin,
    }
}

fn script<'s, G: Guest>(
    mut host: Host<'_, G>,
    (keep_going, strict): (bool, bool),
    from: Origin,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    let (interrupts, ending) = (host.interrupts.clone(), host.ending.clone());
    let _watching = watch(Notices::stderr());
    let mut session = Session::new(&mut host, keep_going);
    let exit = match from {
        Origin::File(file) => {
            let (name, lines) = open(&file)?;
            session.script(&name, lines)
        }
        Origin::Texts(text) => session.script("-e", Script::new(ReadLines(Cursor::new(text)))),
        Origin::Stdin | Origin::Person => {
            let stops = move |_| interrupts.requested().is_some() || ending.requested().is_some();
            session.script("stdin", Script::new(StdinLines::piped(stops)))
        }
    }?;
    Ok(if strict && host.left_behind && exit.is_done() { Exit::Negative } else { exit })
}

fn converse<'s, G: Guest>(
    mut host: Host<'_, G>,
    keep_going: bool,
    rc: Option<PathBuf>,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    greet(&mut *lock(host.shared));
    let (mut person, trouble) = meet(&host)?;
    if let Some(error) = trouble {
        lock(host.shared).parts().tool.messages.warn(error.message);
    }
    // Ending the thread before the person is dropped would be too early, after that too late, because the thread may be
    // waiting to print to the terminal.
    let watching = watch(person.notices());
    let mut session = Session::new(&mut host, keep_going);
    let result = match rc.map(|file| session.prepare(&file)).unwrap_or(Ok(false)) {
        Ok(true) => Ok(Exit::Done),
        Ok(false) => session.interactive(&mut person),
        Err(error) => Err(error),
    };
    drop(person);
    drop(watching);
    result
}

/// Reports which server answers, or that none does. The session starts in any case.
fn greet<G: Guest>(guest: &mut G) {
    let tool = guest.parts().tool;
    let address = tool.link.dialer_mut().address().unwrap_or_default();
    let connected = tool.link.connect();
    if let Some(attention) = tool.link.dialer().attention() {
        attention.running(false);
    }
    match connected {
        Ok(()) => {
            tool.messages.note(format!("connected to {address} (type help, or Ctrl-D to exit)"));
        }
        Err(error) => {
            tool.messages.failure(&within_session(&error, &G::Tool::PROGRAM), false);
        }
    }
    guest.notice_loss();
    guest.tidy();
    guest.parts().names.refresh();
}

fn meet<G: Guest>(host: &Host<'_, G>) -> Result<(Person, Option<CliError>), CliError> {
    let (program, environment) = (G::Tool::PROGRAM, Environment::process());
    // An empty value means none, but the usual lookup treats it as unset.
    let own = std::env::var_os(format!("{}_HISTFILE", program.prefix));
    let own = own.map(|path| path.to_string_lossy().into_owned());
    let history = HistoryFile::locate(program.name, own.as_deref(), &environment);
    let groups = tree::groups::<G::Tool>(&host.grammar);
    let topics = topics::all(&program).map(|(topic, _)| topic.to_owned());
    let session = OfSession {
        settings: host.known_settings.clone(),
        verbs: tree::visible(&host.grammar),
        groups: groups.iter().map(Group::name).chain(topics).collect(),
    };
    let names = lock(host.shared).parts().names.clone();
    let (session, kind) = (Some(session), PhantomData);
    let values = AllValues::<G::Tool> { names, filters: |_| G::Tool::FILTERS, session, kind };
    let help = (host.grammar.clone(), Box::new(values) as Box<dyn Values>);
    Person::new(help, host.rich, history, host.interrupts.clone())
}
