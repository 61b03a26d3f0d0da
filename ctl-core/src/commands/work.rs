//! `work`: shared by the workers of all tools, which run a command for every job.

mod counts;
mod failed;
mod ledger;
mod monitor;
mod outages;
mod shift;
mod supervisor;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command};

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::messages::Messages;
use crate::output::{Output, Record};
use crate::system::at_once::first_of;
use crate::system::child::{DataArgs, Place, Template};
use crate::system::signals::Interrupts;
use crate::text::units;

pub use ledger::{Fate, Finished, Ledger};
pub use outages::Outages;
pub use shift::{Ended, Given, Recipe, Shift};
pub use supervisor::Hands;

/// The options of a worker's servers, once the context is connected: as the flags say, so that `--wait-for-server`
/// applies to a worker, too. At the start, a failure is an error, because an invalid address is more likely than a server
/// outage.
///
/// # Errors
/// No server can be reached: exit 69. With several servers one is enough; the worker reports the others. A signal.
pub fn connect<T: Tool>(
    context: &mut Context<T>,
) -> Result<Vec<<T::Link as Link>::Options>, CliError> {
    let waits = context.globals.wait_for_server.is_some();
    let interrupts = context.gentle_interrupts()?;
    context.link.dialer_mut().heed_between_attempts(&interrupts);
    let each = context.link.each()?;
    let connected = if each.len() < 2 {
        context.link.connect()
    } else {
        first_of(each, |(_, mut link)| link.connect())
    };
    let dialer = context.link.dialer_mut();
    dialer.heed_between_attempts(&Interrupts::none());
    connected.map_err(|error| match error.exit {
        Exit::Unavailable if !waits => {
            error.hint("--wait-for-server 1m, to wait for it at startup as during a later outage")
        }
        _ => error,
    })?;
    if let Some(attention) = dialer.attention() {
        // The worker answers signals from now on, also in a session.
        attention.running(false);
    }
    dialer.options_of_worker()
}

/// The flags of `work` in every tool.
#[derive(Debug, Args)]
pub struct WorkFlags {
    /// Command to run for each job; takes the rest of the line
    #[arg(hide_short_help = true, long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, group = "handler")]
    exec: Vec<OsString>,

    /// Shell command line to run for each job
    #[arg(long, value_name = "LINE", group = "handler")]
    shell: Option<OsString>,

    /// Command to run for each job, with its arguments
    #[arg(value_name = "CMD", last = true, group = "handler")]
    command: Vec<OsString>,

    /// How the command gets the body.
    #[command(flatten)]
    pub data: DataArgs,

    /// Number of concurrent jobs, each on its own connection
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,

    /// Kill a command that runs longer; its job fails
    #[arg(long, value_name = "DUR", value_parser = units::duration)]
    pub max_runtime: Option<Duration>,

    /// Time for running jobs to finish after a signal
    #[arg(hide_short_help = true, long, value_name = "DUR", default_value = "25s", value_parser = units::duration)]
    pub grace: Duration,

    /// Exit after N jobs
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,

    /// Exit after being idle this long; after 0, when no job is available
    #[arg(hide_short_help = true, long, value_name = "DUR", value_parser = units::duration)]
    max_idle: Option<Duration>,

    /// Put jobs that failed for good into this queue, unchanged
    #[arg(hide_short_help = true, long, value_name = "QUEUE")]
    pub dead_letter: Option<String>,

    /// Record jobs that failed for good in FILE, and delete them
    #[arg(hide_short_help = true, long, value_name = "FILE", conflicts_with = "dead_letter")]
    failed_to: Option<PathBuf>,

    /// Serve metrics of this worker on http://ADDR/metrics, and /healthz
    #[arg(hide_short_help = true, long, value_name = "ADDR")]
    metrics: Option<String>,

    /// Allow --metrics on an address that other machines can reach
    #[arg(hide_short_help = true, long, requires = "metrics")]
    allow_remote: bool,
}

impl WorkFlags {
    /// The command for each job, if one is given. `places` are the placeholders that its arguments may use.
    ///
    /// # Errors
    /// A shell line with one of them: exit 2.
    pub fn handler(&self, places: &'static [Place]) -> Result<Option<Template>, CliError> {
        let words = if self.exec.is_empty() { &self.command } else { &self.exec };
        if self.shell.is_none() && words.is_empty() {
            return Ok(None);
        }
        Template::new(self.shell.as_deref(), words, places).map(Some)
    }

    /// Warns about flags of the tool among the arguments of `--exec`, which are passed to the command: usually they
    /// were meant for the tool.
    pub fn say_passed_on<T: Tool>(&self, context: &Context<T>) {
        for flag in self.passed_on(&(T::PROGRAM.tree)()) {
            let tool = T::PROGRAM.name;
            context.messages.note(format!(
                "note: {flag} is passed to the command; put it before --exec to give it to {tool}"
            ));
        }
    }

    fn passed_on(&self, tree: &Command) -> Vec<String> {
        let Some(work) = tree.find_subcommand("work") else { return Vec::new() };
        let longs = |command: &Command| -> Vec<String> {
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
        };
        let known = [longs(work), longs(tree)].concat();
        let words = self.exec.iter().skip(1).filter_map(|word| word.to_str());
        // After `--` come the command's own arguments.
        let words = words.take_while(|word| *word != "--");
        let name = |word: &str| word.strip_prefix("--")?.split('=').next().map(str::to_owned);
        let flags = words.filter_map(name).filter(|name| known.contains(name));
        flags.map(|name| format!("--{name}")).collect()
    }

    /// The end of a worker's own patience: after `--grace` its commands are ended, and get time for that before their
    /// jobs are given up.
    pub fn last_grace(&self) -> Duration {
        self.grace.saturating_add(LAST_RESORT)
    }

    /// Whether to exit as soon as no job is available.
    pub fn until_empty(&self) -> bool {
        self.max_idle.is_some_and(|idle| idle.is_zero())
    }
}

/// A flag of `work` whose help uses the local word for a job: a word and its plural.
pub fn about(arg: Arg, (job, here): (&str, &str)) -> Arg {
    let capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    };
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let worded = help.replace(job, here).replace(&capital(job), &capital(here));
    if worded == help { arg } else { arg.help(worded) }
}

/// How a command ended that was stopped: its worker ended, or its job was lost.
const STOPPED: &str = "stopped";
/// The fate of a job that is in the file of failed jobs, and was deleted.
const RECORDED: &str = "recorded";
/// How long commands get to end.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// How a job's command ended.
#[derive(Debug, Clone, Default)]
pub struct CommandEnd {
    /// Its exit code.
    pub exit: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// If neither is set: what happened to it, such as `stopped` or `not run`.
    pub otherwise: Option<&'static str>,
    /// Its duration.
    pub time: Option<Duration>,
    /// The last line that it wrote to stderr, or why it was not run; escaped.
    pub words: Option<String>,
    /// Whether the file of failed jobs has the job.
    pub is_recorded: bool,
}

impl CommandEnd {
    /// Whether it exited with 0; none if it did not run, or was stopped.
    pub(crate) fn has_succeeded(&self) -> Option<bool> {
        match (self.exit, self.signal, self.otherwise) {
            (None, None, None | Some(STOPPED)) => None,
            (exit, ..) => Some(exit == Some(0)),
        }
    }

    /// Its words, unless it wrote them itself to the terminal that shows these messages.
    pub fn unseen_words(&self, messages: &Messages) -> Option<&str> {
        let has_run = self.exit.is_some() || self.signal.is_some();
        self.words.as_deref().filter(|_| !(has_run && messages.is_terminal()))
    }

    /// Reports a job that did not end well on one line, with the end of its command and its fate: `job 7 of mail: exit
    /// 3 after 12ms, released: no such user`. Without a command it reports nothing.
    pub fn tell(&self, messages: &Messages, job: &str, fate: &str) {
        let how = match (self.exit, self.signal, self.otherwise) {
            (Some(code), ..) => format!("exit {code}"),
            // The system does not report the number.
            (_, Some(0), _) => "a signal".to_owned(),
            (_, Some(signal), _) => format!("signal {signal}"),
            (.., Some(otherwise)) => otherwise.to_owned(),
            (None, None, None) => return,
        };
        let time = self.time.map(|time| format!(" after {}", units::show_duration(time)));
        let words = self.unseen_words(messages).map(|words| format!(": {words}"));
        let (time, words) = (time.unwrap_or_default(), words.unwrap_or_default());
        let fields = Record::new()
            .with("job", job)
            .with("exit", self.exit)
            .with("signal", self.signal)
            .with("duration_ms", self.time.map(units::milliseconds))
            .with("fate", fate)
            .with("stderr", self.words.as_deref());
        messages.warn_of(format!("{job}: {how}{time}, {fate}{words}"), fields.into());
    }
}

/// Whether stdout belongs to the commands: there are no documents, and no record for each job.
fn is_for_commands(out: &Output) -> bool {
    !out.style.format.is_json()
}
