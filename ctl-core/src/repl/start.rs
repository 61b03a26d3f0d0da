//! Starting a session of any tool: what its command line says, where the commands come from, signals, threads.

use std::io::{self, Cursor, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;

use super::editor::Notices;
use super::ending::Ending;
use super::guest::{Guest, Kit, lock};
use super::history::HistoryFile;
use super::host::Host;
use super::pager::Pager;
use super::session::{Rules, Session, open};
use super::sink::{Sink, Written};
use super::source::{ReadLines, Script, StdinLines};
use super::terminal::{Person, PersonSetup};
use super::tree;
use super::values::{AllValues, KnownSettings};
use super::vars::assignment;
use super::watcher::Watcher;
use crate::config::Environment;
use crate::error::{CliError, Exit};
use crate::input::Input;
use crate::output::{Destination, Output, Style};
use crate::signals::Interrupts;

/// The flags of `repl` in every tool.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
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

    /// What ${NAME} stands for in the commands; shell commands (!) have it in their environment; may be given several times
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    vars: Vec<(String, String)>,

    /// Run no shell commands (!)
    #[arg(long)]
    no_shell: bool,

    /// Never send results to a pager
    #[arg(long)]
    no_pager: bool,
}

/// Where the commands come from.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    Person,
    Stdin,
    File(PathBuf),
    Texts(String),
}

/// A session that is about to start: its signals are caught, its way to stdout is laid.
#[derive(Debug)]
pub struct Start {
    from: Origin,
    rules: Rules,
    no_pager: bool,
    interrupts: Interrupts,
    ending: Ending,
    written: Written,
}

impl Start {
    /// Catches the signals.
    ///
    /// # Errors
    /// A variable that would hide one of the environment: exit 2; the operating system refuses the handlers: exit 70.
    pub fn new(args: SessionArgs) -> Result<Self, CliError> {
        let rules = Rules {
            keep_going: args.keep_going,
            echo: args.echo,
            no_shell: args.no_shell,
            vars: args.vars.iter().cloned().collect(),
        };
        if !args.no_shell {
            rules.vars.check(|name| std::env::var_os(name).is_some())?;
        }
        let interrupts = Interrupts::install(false)?;
        let ending = Ending::install()?;
        let no_pager = args.no_pager;
        let (from, written) = (source(args), Written::default());
        Ok(Self { from, rules, no_pager, interrupts, ending, written })
    }

    /// The signals that interrupt commands, for the tool.
    #[must_use]
    pub fn interrupts(&self) -> Interrupts {
        self.interrupts.clone()
    }

    /// The way to stdout, for the tool.
    #[must_use]
    pub fn output(&self, style: Style) -> Output {
        Output::to(Box::new(Sink::new(self.written.clone())), style).at(Destination::stdout())
    }

    /// What `-` means in the session.
    #[must_use]
    pub fn input(&self) -> Input {
        if self.from == Origin::Stdin { Input::Taken } else { Input::Stdin }
    }

    /// Whether a person is there.
    #[must_use]
    pub fn person(&self) -> bool {
        self.from == Origin::Person
    }

    /// Runs the session to its end. The second value says whether something was left to itself.
    ///
    /// # Errors
    /// The terminal or the script cannot be read; a script's errors are reported here, and only their exit
    /// code is returned.
    pub fn run<G: Guest>(self, kit: Kit, mut guest: G) -> Result<(Exit, bool), CliError> {
        tell_on_panic(guest.last_words());
        let person = self.person();
        let (globals, style) = {
            let parts = guest.parts();
            (parts.globals.clone(), parts.out.style.clone())
        };
        let shared = Mutex::new(guest);
        let (waiting, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let pager = Pager::new(kit.prefix, self.no_pager, &Environment::process());
        let written = self.written;
        let host = Host {
            shared: &shared,
            kit,
            interrupts: self.interrupts,
            ending: self.ending.clone(),
            written: written.clone(),
            waiting: &waiting,
            rich: person && style.color,
            person,
            globals,
            style,
            known_settings: KnownSettings::default(),
            pager,
            reading: Duration::ZERO,
        };
        let ending = self.ending;
        let exit = thread::scope(|scope| {
            let start = |notices: Notices| {
                let watcher = Watcher {
                    shared: &shared,
                    notices,
                    ending,
                    written,
                    waiting: &waiting,
                    over: &over,
                };
                let handle = scope.spawn(move || watcher.run());
                Watching { over: &over, thread: handle.thread().clone() }
            };
            match self.from {
                Origin::Person => converse(host, self.rules, start),
                from => script(host, self.rules, from, start),
            }
        })?;
        let left_behind = lock(&shared).left_behind();
        Ok((exit, left_behind))
    }
}

/// A defect of this tool ends the session too: the person learns what became of what it held.
fn tell_on_panic(last_words: Box<dyn Fn() -> Option<String> + Send + Sync>) {
    let (this, usual) = (thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if thread::current().id() == this
            && let Some(words) = last_words()
        {
            // A stderr that cannot be written has nowhere to be reported.
            let _ = writeln!(io::stderr(), "{}", crate::escape::lines(&words));
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
    rules: Rules,
    from: Origin,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    let (interrupts, ending) = (host.interrupts.clone(), host.ending.clone());
    let _watching = watch(Notices::stderr());
    let mut session = Session::new(&mut host, rules);
    match from {
        Origin::File(file) => {
            let (name, lines) = open(&file)?;
            session.script(&name, lines)
        }
        Origin::Texts(text) => session.script("-e", Script::new(ReadLines(Cursor::new(text)))),
        Origin::Stdin | Origin::Person => {
            let stops = move |_| interrupts.requested().is_some() || ending.requested().is_some();
            session.script("stdin", Script::new(StdinLines::piped(stops)))
        }
    }
}

fn converse<'s, G: Guest>(
    mut host: Host<'_, G>,
    rules: Rules,
    watch: impl FnOnce(Notices) -> Watching<'s>,
) -> Result<Exit, CliError> {
    lock(host.shared).greet();
    let (mut person, trouble) = meet(&host)?;
    if let Some(error) = trouble {
        lock(host.shared).parts().messages.warn(error.message);
    }
    // Ended before the person is dropped would be too early, after it too late: the thread may be
    // waiting for the terminal to print.
    let watching = watch(person.notices());
    let result = Session::new(&mut host, rules).interactive(&mut person);
    drop(person);
    drop(watching);
    result
}

fn meet<G: Guest>(host: &Host<'_, G>) -> Result<(Person, Option<CliError>), CliError> {
    let (kit, environment) = (&host.kit, Environment::process());
    // An empty value means none, which the usual look-up takes for not set.
    let own = std::env::var_os(format!("{}_HISTFILE", kit.prefix));
    let own = own.map(|path| path.to_string_lossy().into_owned());
    let history = HistoryFile::locate(kit.name, own.as_deref(), |name| environment.var(name));
    Person::new(PersonSetup {
        grammar: kit.grammar.clone(),
        values: Box::new(AllValues {
            tool: lock(host.shared).values(),
            settings: host.known_settings.clone(),
            verbs: tree::visible(&kit.grammar),
            groups: kit.groups,
        }),
        color: host.rich,
        history,
        interrupts: host.interrupts.clone(),
    })
}
