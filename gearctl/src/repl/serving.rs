//! Functions that a session serves in its background, each by a built-in handler on connections of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ctl_core::commands::work::Crew as _;
use ctl_core::error::CliError;
use ctl_core::output::messages::Messages;
use ctl_core::system::process;
use ctl_core::system::signals::Interrupts;
use gearman_client::blocking::Worker;
use gearman_client::{ConnectionState, FunctionName, Servers, WorkerHandle, WorkerOptions};

use crate::error::cli_error;
use crate::names::show_function;
use crate::work::builtin::Builtin;
use crate::work::{Fate, Handler, Shift};

/// Maximum number of functions that a session serves.
pub const MOST: usize = 100;

/// A function that is served. When dropped, it takes no more jobs and gives back the one that its handler has.
pub struct Serving {
    /// Its name, as shown.
    pub function: String,
    /// The handler of its jobs.
    pub handler: Builtin,
    shift: Arc<Shift>,
    worker: WorkerHandle,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<Result<(), CliError>>>,
    /// As of the last poll.
    was_connected: bool,
}

/// How many of its jobs ended in which way.
#[derive(Default)]
struct Counts {
    completed: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

impl Serving {
    /// Registers the function. `messages` reports events in a session without a person, which does not call
    /// [`Serving::news`].
    ///
    /// # Errors
    /// No server can be reached: exit 69. The system has no room for a thread: exit 75.
    pub fn start(
        function: &FunctionName,
        handler: Builtin,
        servers: Servers,
        messages: Option<Messages>,
    ) -> Result<Self, CliError> {
        let mut worker =
            Worker::connect(WorkerOptions::new(servers).slots(1)).map_err(cli_error)?;
        worker.can_do(function.clone(), None).map_err(cli_error)?;
        let quiet = || Messages::to(Box::new(io::sink()), "gearctl", false, false);
        let messages = messages.unwrap_or_else(quiet);
        let shift = Shift::new(Handler::Builtin(handler), None, messages, false);
        let counts = Arc::new(Counts::default());
        let handle = worker.handle();
        let thread = thread::Builder::new().name("serving".to_owned()).spawn({
            let (shift, counts) = (Arc::clone(&shift), Arc::clone(&counts));
            move || {
                shift.work(worker, |job| {
                    counts.of(job.fate).fetch_add(1, Ordering::Relaxed);
                    true
                })
            }
        });
        let thread = Some(thread.map_err(|error| process::no_thread(&error))?);
        let function = show_function(function);
        Ok(Self { function, handler, shift, worker: handle, counts, thread, was_connected: true })
    }

    /// Number of jobs that it has completed, failed on purpose, and lost or given back.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let Counts { completed, failed, lost } = &*self.counts;
        [("completed", completed), ("failed", failed), ("lost", lost)]
            .map(|(word, count)| (word, count.load(Ordering::Relaxed)))
    }

    /// What it is doing, in a word.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match () {
            () if self.thread.as_ref().is_none_or(JoinHandle::is_finished) => "ended",
            () if !self.is_connected() => "not connected",
            () if self.shift.is_busy() => "working",
            () => "waiting",
        }
    }

    /// A message for a person, if it has lost its last connection or regained one since the last poll.
    pub fn news(&mut self) -> Option<String> {
        let is_connected = self.is_connected();
        if is_connected == std::mem::replace(&mut self.was_connected, is_connected) {
            return None;
        }
        let function = &self.function;
        Some(match is_connected {
            true => format!("serving {function} again"),
            false => format!("no longer serving {function}: connection lost; trying again"),
        })
    }

    fn is_connected(&self) -> bool {
        self.worker.connection_states().contains(&ConnectionState::Ready)
    }

    /// Takes no more jobs, and waits until the running one has ended. A signal gives that one back.
    ///
    /// # Errors
    /// The handler could not be run.
    pub fn stop(&mut self, interrupts: &Interrupts) -> Result<(), CliError> {
        self.shift.stop();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if interrupts.sleep(STEP).is_err() {
                break;
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), CliError> {
        self.shift.kill();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(CliError::internal("a worker panicked")))
    }
}

/// How often to check whether a handler has ended.
const STEP: Duration = Duration::from_millis(20);

impl Drop for Serving {
    fn drop(&mut self) {
        // There is nobody to inform.
        let _ = self.end();
    }
}

impl Counts {
    fn of(&self, fate: Fate) -> &AtomicU64 {
        match fate {
            Fate::Complete => &self.completed,
            Fate::Fail | Fate::Exception => &self.failed,
            Fate::Returned | Fate::Lost | Fate::Refused | Fate::Unknown => &self.lost,
        }
    }
}
