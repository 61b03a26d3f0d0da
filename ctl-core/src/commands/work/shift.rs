//! A worker that runs a command for every job, and decides the job by the command's end: what its slots share.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_core::lock;

use super::counts::Account;
use super::failed::FailedFile;
use super::monitor::Monitor;
use super::outages::Outages;
use super::{CommandEnd, RECORDED, STOPPED, WorkFlags, is_for_commands};
use crate::commands::shortage::Shortage;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::messages::Messages;
use crate::output::{Format, Output, Record, Shape};
use crate::system::child::{DataArgs, LastLine, Order, Piece, Place, Running, Template};
use crate::system::family::guard::Guard;
use crate::system::manager::MANAGER_VARIABLES;
use crate::system::pause::wait;
use crate::system::process;
use crate::system::signals::Interrupts;
use crate::text::units;

/// How to run the command.
#[derive(Debug, Clone)]
pub struct Recipe {
    command: Template,
    data: DataArgs,
    /// Whether it owns the tool's stdout. Otherwise its output goes to the tool's stderr, because documents or records
    /// are on stdout.
    owns_stdout: bool,
    max_runtime: Option<Duration>,
}

impl Recipe {
    /// A command that gets the data on stdin. If results are documents, its output goes to stderr.
    #[must_use]
    pub fn of(command: Template, out: &Output) -> Self {
        let owns_stdout = is_for_commands(out);
        Self { command, data: DataArgs::default(), owns_stdout, max_runtime: None }
    }

    /// Also gives stdout to the function that takes the output.
    #[must_use]
    pub fn collected(self) -> Self {
        Self { owns_stdout: false, ..self }
    }

    /// From these flags. `places` are the placeholders that its arguments may use, `example` is a valid command line.
    ///
    /// # Errors
    /// No command is given, or a shell line contains a placeholder: exit 2.
    pub fn new<T: Tool>(
        flags: &WorkFlags,
        places: &'static [Place],
        example: &str,
        context: &Context<T>,
    ) -> Result<Self, CliError> {
        let command = flags.handler(places)?.ok_or_else(|| {
            CliError::usage("no command given")
                .hint(format!("{example} --exec ./handler"))
                .hint(format!("{example} --shell 'jq .to | xargs notify'"))
        })?;
        flags.say_passed_on(context);
        let WorkFlags { data, max_runtime, .. } = *flags;
        Ok(Self { data, max_runtime, ..Self::of(command, &context.out) })
    }
}

/// A job as passed to its command.
#[derive(Debug)]
pub struct Given<'a> {
    /// Its name in messages, such as `job 7 of mail`.
    pub label: String,
    /// The values of placeholders in arguments.
    pub values: &'a [(&'static str, &'a str)],
    /// Further environment variables.
    pub environment: &'a [(&'static str, String)],
    /// The body.
    pub body: &'a bytes::Bytes,
    /// When the server takes it back, for a command that must end before.
    pub time_left: Option<Duration>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal; 0 if the system does not report it.
    Signal(i32),
    /// It exceeded its time limit, and was ended.
    Overtime,
    /// It was ended because the time to run of its job was about to end.
    Expired,
    /// Abandoned: the worker stops, or the job is lost.
    GivenUp,
    /// The job cannot be passed to the command.
    Unfit,
}

/// The pause after a command that failed at once; it doubles with each consecutive failure, up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often to check whether the pause is over.
const PAUSE_SLICE: Duration = Duration::from_millis(20);
/// How much later than its command a worker may notice that it should stop.
const STOP_ARRIVES: Duration = Duration::from_millis(500);
/// Number of failures before a message.
const SAID_AFTER: u32 = 3;

/// Shared by all slots of a worker.
pub struct Shift {
    messages: Messages,
    /// Lack of system resources.
    shortage: Shortage,
    /// Ends running commands.
    kill: AtomicBool,
    outages: Outages,
    /// Whether there are several servers, each with its own jobs.
    is_several: bool,
    /// Why no command can be run at all.
    broken: Mutex<Option<CliError>>,
    /// Whether no further job is taken.
    is_stopping: AtomicBool,
    /// Number of consecutive failed commands.
    failures: AtomicU32,
    /// Kills running commands if this process is killed; there from the first command on, if the system has one.
    guard: Mutex<Option<Option<Arc<Guard>>>>,
    pub(super) account: Arc<Account>,
    failed: Option<FailedFile>,
    /// Shows the account.
    _monitor: Option<Monitor>,
}

impl Shift {
    /// A shift that has not started.
    #[must_use]
    pub fn new(messages: Messages) -> Self {
        let account: Arc<Account> = Arc::default();
        Self {
            outages: Outages::new(messages.clone(), Arc::clone(&account)),
            messages,
            shortage: Shortage::default(),
            kill: AtomicBool::new(false),
            is_several: false,
            broken: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            guard: Mutex::default(),
            account,
            failed: None,
            _monitor: None,
        }
    }

    /// With these flags and this number of servers.
    ///
    /// # Errors
    /// An address for metrics that is invalid (2) or cannot be bound (69); a file for failed jobs that is none (2) or
    /// cannot be written (74).
    pub fn of(mut self, flags: &WorkFlags, servers: usize) -> Result<Self, CliError> {
        self._monitor = Monitor::start(flags, &self.messages, &self.account)?;
        self.failed = flags.failed_to.as_deref().map(FailedFile::open).transpose()?;
        self.outages.is_finite = flags.until_empty();
        self.is_several = servers > 1;
        Ok(self)
    }

    /// The server of a job, if ids alone do not identify the job.
    pub fn place(&self, server: impl Display) -> Option<String> {
        self.is_several.then(|| server.to_string())
    }

    /// The writer for stderr.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Runs the command for a job, unless and until the job is lost. `take` gets its output, and returns what goes to
    /// the tool's stderr. If the command cannot be run at all, calls `stop`: a broken deployment must not set every job
    /// aside.
    pub fn run(
        &self,
        recipe: &Recipe,
        job: &Given<'_>,
        is_lost: impl Fn() -> bool,
        stop: impl FnOnce(),
        take: impl FnMut(Piece) -> Vec<u8>,
    ) -> (Ended, CommandEnd) {
        let start = Instant::now();
        let mut words = None;
        let ended = self.during(|| self.try_run(recipe, job, is_lost, take, &mut words));
        let ended = match ended {
            Ok(Ended::Code(code @ (126 | 127))) if recipe.command.is_shell() => {
                let why = format!("the shell could not run the command: it exited with {code}");
                let exit = u8::try_from(code).unwrap_or(1);
                Err(CliError::new(Exit::Own(exit), "CANNOT_RUN", why))
            }
            other => other,
        };
        let ended = ended.unwrap_or_else(|error| {
            self.break_off(error);
            stop();
            Ended::GivenUp
        });
        let (exit, signal, otherwise) = match ended {
            Ended::Code(code) => (Some(code), None, None),
            Ended::Signal(signal) => (None, Some(signal), None),
            Ended::Overtime => (None, None, Some("over --max-runtime")),
            Ended::Expired => (None, None, Some("at the end of its time to run")),
            Ended::GivenUp => (None, None, Some(STOPPED)),
            Ended::Unfit => (None, None, Some("not run")),
        };
        let time = Some(start.elapsed());
        (ended, CommandEnd { exit, signal, otherwise, time, words, is_recorded: false })
    }

    /// `words` are its last message, or why it was not run.
    fn try_run(
        &self,
        recipe: &Recipe,
        job: &Given<'_>,
        is_lost: impl Fn() -> bool,
        mut take: impl FnMut(Piece) -> Vec<u8>,
        words: &mut Option<String>,
    ) -> Result<Ended, CliError> {
        let gives_up = || self.is_killed() || is_lost();
        // The last second is for its outcome to reach the server.
        let taken = Instant::now();
        let margin = job.time_left.map(|left| (left / 2).min(Duration::from_secs(1)));
        let runs_out = |margin: Duration| {
            let left = job.time_left.map(|left| left.saturating_sub(margin));
            left.is_some_and(|left| taken.elapsed() >= left)
        };
        let Recipe { command, data, owns_stdout, max_runtime } = recipe;
        let start = || {
            let (mut command, data) = command.command(job.values, *data, job.body)?;
            command.envs(job.environment.iter().map(|(name, value)| (name, value)));
            // They are this process's.
            for name in MANAGER_VARIABLES {
                command.env_remove(name);
            }
            command.stdout(if *owns_stdout { Stdio::inherit() } else { Stdio::piped() });
            command.stderr(Stdio::piped());
            let guard = self.guard()?;
            Ok((Running::start(command, data.input(), guard.as_ref())?, data))
        };
        let (mut running, _data) = match self.retry(gives_up, start) {
            Ok(running) => running,
            // Concerns only this job.
            Err(error) if error.exit == Exit::BadData => {
                *words = Some(error.to_string());
                return Ok(Ended::Unfit);
            }
            Err(error) if error.is_shortage() => return Ok(Ended::GivenUp),
            Err(error) => return Err(error),
        };
        let start = Instant::now();
        let (mut why, mut last) = (Ended::GivenUp, LastLine::default());
        let mut is_line_open = false;
        let status = running.watch(
            || {
                if gives_up() {
                    return Order::GiveUp;
                }
                if margin.is_some_and(runs_out) {
                    why = Ended::Expired;
                    let is_last = margin.is_some_and(|margin| runs_out(margin / 2));
                    return if is_last { Order::Kill } else { Order::End };
                }
                if max_runtime.is_some_and(|most| start.elapsed() >= most) {
                    why = Ended::Overtime;
                    return Order::End;
                }
                Order::GoOn
            },
            |piece| {
                if let Piece::Err(bytes) = &piece {
                    last.take(bytes);
                }
                let bytes = take(piece);
                pass_on(&bytes);
                is_line_open = bytes.last().map_or(is_line_open, |byte| *byte != b'\n');
            },
        );
        // The next message starts on its own line.
        if is_line_open {
            pass_on(b"\n");
        }
        *words = last.text();
        if let Some(left) = running.left_behind() {
            self.messages.warn(format!("{}: {left}", job.label));
        }
        let stops = || gives_up() || self.is_stopping();
        Ok(match status {
            None => Ended::GivenUp,
            Some(_) if running.was_ended() => why,
            Some(status) if is_stopped_with_worker(status, stops) => Ended::GivenUp,
            Some(status) => match status.code() {
                Some(code) => Ended::Code(code),
                None => Ended::Signal(process::signal(status).unwrap_or(0)),
            },
        })
    }

    fn guard(&self) -> Result<Option<Arc<Guard>>, CliError> {
        let mut guard = lock(&self.guard);
        if guard.is_none() {
            *guard = Some(Guard::start()?);
        }
        Ok(guard.clone().flatten())
    }

    /// Handles a job, which counts as running meanwhile.
    pub fn during<O>(&self, handle: impl FnOnce() -> O) -> O {
        self.account.running.fetch_add(1, Ordering::SeqCst);
        let done = handle();
        self.account.running.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Waits after consecutive immediate failures, each time for longer, before the last job is given back: for servers
    /// without delays, which would redeliver it at once. A success resets it; the end of the shift or of the job ends
    /// it.
    pub fn pause_after(&self, ended: Ended, took: Option<Duration>, is_lost: impl Fn() -> bool) {
        let failures = match ended {
            Ended::Code(0) => {
                self.failures.store(0, Ordering::SeqCst);
                return;
            }
            Ended::GivenUp => return,
            _ => self.failures.fetch_add(1, Ordering::SeqCst),
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
        let pause = pause.saturating_sub(took.unwrap_or_default());
        if failures == SAID_AFTER && !pause.is_zero() {
            let longest = units::show_duration(LONGEST_PAUSE);
            self.messages.note(format!(
                "commands keep failing: pausing up to {longest} between them until one succeeds"
            ));
        }
        wait(pause, PAUSE_SLICE, || self.is_stopping() || self.is_killed() || is_lost());
    }

    /// No further job is taken.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Ends running commands.
    pub(super) fn kill(&self) {
        self.kill.store(true, Ordering::SeqCst);
    }

    /// Whether no further job is taken.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Whether running commands end.
    pub fn is_killed(&self) -> bool {
        self.kill.load(Ordering::SeqCst)
    }

    /// The worker cannot continue, because of this.
    pub fn break_off(&self, error: CliError) {
        self.stop();
        lock(&self.broken).get_or_insert(error);
    }

    /// Why no command can be run at all, if so.
    #[must_use]
    pub fn take_broken(&self) -> Option<CliError> {
        lock(&self.broken).take()
    }

    /// Reports the start of the worker, with its queues and concurrency.
    pub fn say_taking(
        &self,
        what: &str,
        queues: &[impl Display],
        address: &str,
        flags: &WorkFlags,
    ) {
        let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        let (queues, jobs) = (queues.join(", "), flags.jobs);
        self.messages.note(format!("processing {what} from {queues} on {address}, {jobs} at once"));
    }

    /// Whether failed jobs are kept in a file.
    pub fn records_failures(&self) -> bool {
        self.failed.is_some()
    }

    /// Appends the record of a job that failed for good to the file of `--failed-to`, with the end of its command. The
    /// job may be deleted only if that returns true.
    pub fn keep(&self, record: Record, end: &mut CommandEnd) -> bool {
        let Some(file) = &self.failed else { return false };
        let record = record
            .with("exit", end.exit)
            .with("signal", end.signal)
            .with("stderr", end.words.as_deref())
            .with("ts", units::now_in_milliseconds());
        let kept = file.append(&record);
        if let Err(error) = &kept {
            self.messages.warn(format!("{}: the job is not deleted", error.message));
        }
        end.is_recorded = kept.is_ok();
        end.is_recorded
    }

    /// Counts a finished job, and writes its record, if there is a log: `job` is its name, `fate` its outcome.
    ///
    /// # Errors
    /// Write failures.
    pub fn log(
        &self,
        out: &mut Output,
        shape: &'static Shape,
        job: Record,
        end: &CommandEnd,
        fate: &'static str,
    ) -> Result<(), CliError> {
        lock(&self.account.finished).add(end, fate);
        if out.style.format != Format::Ndjson {
            return Ok(());
        }
        let record = job
            .with("duration_ms", end.time.map(units::milliseconds))
            .with("exit", end.exit)
            .with("signal", end.signal)
            .with("fate", fate)
            .with("ts", units::now_in_milliseconds());
        out.object(shape, record)?;
        out.flush()
    }

    /// Number of jobs with this outcome.
    #[must_use]
    pub fn count(&self, fate: &str) -> u64 {
        lock(&self.account.finished).of(fate)
    }

    /// The end of the worker, after this signal, if it was one. Reports the number of jobs (each a `noun`) by outcome:
    /// on stderr, because stdout belongs to the commands or has the records; as a document if documents were requested.
    /// An outcome has a key, a number and the words after the number; those of the first come before it.
    ///
    /// # Errors
    /// Write failures; a server that could not be reached (69); jobs that failed, and none that succeeded (1).
    pub fn end(
        &self,
        out: &mut Output,
        noun: &str,
        ways: &[(&'static str, u64, &str)],
        signal: Option<Exit>,
    ) -> Result<Exit, CliError> {
        let part = |(at, (_, count, words)): (usize, &(_, u64, &str))| match at {
            0 => format!("{words} {}", units::count(*count, noun)),
            _ => format!("{count} {words}"),
        };
        let mut ways = ways.to_vec();
        let recorded = lock(&self.account.finished).of(RECORDED);
        if let Some(best) = ways.first_mut().filter(|_| recorded > 0) {
            best.1 = best.1.saturating_sub(recorded);
            ways.push((RECORDED, recorded, RECORDED));
        }
        let sentence = ways.iter().enumerate().map(part).collect::<Vec<_>>().join(", ");
        if out.style.format == Format::Ndjson || is_for_commands(out) {
            self.messages.note(sentence);
        } else {
            let record =
                ways.iter().fold(Record::new(), |all, (key, count, _)| all.with(*key, *count));
            out.done(&record, &sentence)?;
        }
        self.outages.check()?;
        match signal {
            Some(signal) => Ok(signal),
            None => lock(&self.account.finished).check(noun),
        }
    }

    /// Messages about lost servers.
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    /// Retries a step that needs system resources until they are available, or it is given up.
    ///
    /// # Errors
    /// Errors of `attempt`; a shortage only if it is given up.
    pub fn retry<T>(
        &self,
        gives_up: impl Fn() -> bool,
        attempt: impl FnMut() -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.shortage.wait_out(&self.messages, gives_up, attempt)
    }

    /// Retries a step that needs system resources until they are available. A result is returned even if a signal
    /// arrives meanwhile, since it may have to be cleaned up.
    ///
    /// # Errors
    /// Errors of `attempt`; the signal that arrived before it was done.
    pub fn wait_out<T>(
        &self,
        interrupts: &Interrupts,
        attempt: impl FnMut() -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let stops = || interrupts.requested().is_some();
        let done = self.retry(stops, attempt);
        done.or_else(|error| interrupts.check().and(Err(error)))
    }
}

/// Whether a command died of the SIGTERM that also stops its worker: a service manager sends it to both, in any order.
fn is_stopped_with_worker(status: ExitStatus, stops: impl Fn() -> bool) -> bool {
    const SIGTERM: u8 = 15;
    // A shell reports the end of its own command.
    if process::code(status) != 128 + SIGTERM {
        return false;
    }
    !wait(STOP_ARRIVES, PAUSE_SLICE, stops)
}

/// Writes to the tool's own stderr, whose reader may be gone.
fn pass_on(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift() -> Shift {
        Shift::new(Messages::to(Box::new(io::sink()), "tool", false, false))
    }

    #[test]
    fn backs_off_while_commands_fail_and_resets_on_success() {
        let shift = shift();
        let pause = |ended, took| {
            let start = Instant::now();
            shift.pause_after(ended, Some(took), || false);
            start.elapsed()
        };
        let failed = Ended::Code(1);
        assert!(pause(failed, Duration::ZERO) >= FIRST_PAUSE);
        assert!(pause(failed, Duration::ZERO) >= FIRST_PAUSE * 2);
        // A slow failure has been pause enough.
        assert!(pause(failed, Duration::from_secs(60)) < LONGEST_PAUSE);
        assert_eq!(shift.failures.load(Ordering::SeqCst), 3);
        pause(Ended::Code(0), Duration::ZERO);
        assert_eq!(shift.failures.load(Ordering::SeqCst), 0);
        shift.failures.store(30, Ordering::SeqCst);
        shift.stop();
        assert!(pause(failed, Duration::ZERO) < LONGEST_PAUSE);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_killed_by_the_workers_sigterm_has_not_failed() {
        let status = |line| std::process::Command::new("sh").args(["-c", line]).status().unwrap();
        let start = Instant::now();
        let stops_later = || start.elapsed() >= STOP_ARRIVES / 10;
        assert!(is_stopped_with_worker(status("kill -TERM $$"), stops_later));
        assert!(is_stopped_with_worker(status("exit 143"), || true));
        assert!(!is_stopped_with_worker(status("kill -TERM $$"), || false));
        assert!(!is_stopped_with_worker(status("exit 1"), || true));
        assert!(!is_stopped_with_worker(status("kill -KILL $$"), || true));
    }

    #[cfg(unix)]
    #[test]
    fn a_command_ends_before_its_job_expires() {
        let words = ["sh", "-c", "trap '' TERM; sleep 1000"].map(Into::into);
        let command = Template::new(None, &words, &[]).unwrap();
        let recipe =
            Recipe { command, data: DataArgs::default(), owns_stdout: true, max_runtime: None };
        let job = Given {
            label: String::new(),
            values: &[],
            environment: &[],
            body: &bytes::Bytes::new(),
            time_left: Some(Duration::from_millis(200)),
        };
        let (ended, end) = shift().run(&recipe, &job, || false, || {}, Piece::bytes);
        assert_eq!((ended, end.otherwise), (Ended::Expired, Some("at the end of its time to run")));
    }
}
