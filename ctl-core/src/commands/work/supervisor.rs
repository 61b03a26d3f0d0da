//! Watches a running worker: its finished jobs, signals, and idleness.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use queue_core::lock;

use super::{Shift, WorkFlags};
use crate::error::{CliError, Exit};
use crate::system::manager::Manager;
use crate::system::process;
use crate::system::signals::Interrupts;
use crate::text::units;

/// A running worker, seen from outside.
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    /// Has it take no further job.
    pub stop: &'a dyn Fn(),
    /// Whether a job is running, as far as known.
    pub is_busy: &'a dyn Fn() -> bool,
}

/// How often to check a worker.
const SLICE: Duration = Duration::from_millis(50);

impl Shift {
    /// Runs the worker on its own thread and watches it; each finished job goes to `report`. Returns the exit code of a
    /// signal, and the worker's result.
    ///
    /// # Errors
    /// No command could be run at all; the first failure of `report`, which ends the worker; no thread.
    pub fn supervise<J, R: Default + Send>(
        &self,
        (hands, run): (Hands<'_>, impl FnOnce() -> R + Send),
        (flags, interrupts): (&WorkFlags, &Interrupts),
        finished: &Receiver<J>,
        report: impl FnMut(&J) -> Result<(), CliError>,
    ) -> Result<(Option<Exit>, R), CliError> {
        // Runs once, in the attempt that succeeds in starting a thread.
        let run = Mutex::new(Some(run));
        let run = || lock(&run).take().map(|run| run());
        let (signal, given) = thread::scope(|scope| {
            let start = || {
                let thread = thread::Builder::new().name("worker".to_owned());
                thread.spawn_scoped(scope, run).map_err(|error| process::no_thread(&error))
            };
            let watched = self.wait_out(interrupts, start).map(|thread| {
                let supervisor = Supervisor {
                    shift: self,
                    hands,
                    interrupts,
                    flags,
                    last_busy: Instant::now(),
                    deadline: None,
                    signal: None,
                    manager: Manager::from_env(),
                };
                let signal = supervisor.watch(|| thread.is_finished(), finished, report);
                (signal, thread.join().ok().flatten().unwrap_or_default())
            });
            watched.unwrap_or_else(|error| (Err(error), R::default()))
        });
        let signal = signal?;
        match self.take_broken() {
            Some(error) => Err(error),
            None => Ok((signal, given)),
        }
    }
}

struct Supervisor<'a> {
    shift: &'a Shift,
    hands: Hands<'a>,
    interrupts: &'a Interrupts,
    flags: &'a WorkFlags,
    last_busy: Instant,
    /// When running jobs are ended.
    deadline: Option<Instant>,
    signal: Option<Exit>,
    manager: Manager,
}

impl Supervisor<'_> {
    /// Waits until the worker has ended, and reports its jobs. The first signal stops taking jobs; the second one, or the
    /// end of the grace, ends running ones.
    fn watch<J>(
        mut self,
        has_ended: impl Fn() -> bool,
        finished: &Receiver<J>,
        mut report: impl FnMut(&J) -> Result<(), CliError>,
    ) -> Result<Option<Exit>, CliError> {
        let mut reported = Ok(());
        loop {
            // Checked before the last round of reports.
            let is_last = has_ended();
            let mut next = finished.recv_timeout(if is_last { Duration::ZERO } else { SLICE });
            while let Ok(job) = &next {
                self.last_busy = Instant::now();
                if reported.is_ok() {
                    reported = report(job);
                    if reported.is_err() {
                        self.stop();
                    }
                }
                next = finished.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if is_last || matches!(next, Err(RecvTimeoutError::Disconnected)) {
                return reported.map(|()| self.signal);
            }
            self.heed_signals();
            self.heed_idleness();
            self.tell_manager();
        }
    }

    fn tell_manager(&mut self) {
        let (account, now) = (&self.shift.account, Instant::now());
        account.look((self.hands.is_busy)(), now);
        if self.shift.is_stopping() {
            self.manager.tell("STOPPING=1");
        } else if self.shift.outages().has_connected() {
            self.manager.tell("READY=1");
        }
        if account.goes_on(now) {
            self.manager.keep_alive(now);
        }
    }

    fn stop(&self) {
        self.shift.stop();
        (self.hands.stop)();
    }

    fn heed_signals(&mut self) {
        if let Some(exit) = self.interrupts.requested() {
            self.interrupts.clear();
            if self.signal.is_none() {
                self.stop();
                self.deadline = Instant::now().checked_add(self.flags.grace);
                self.shift.messages().note(format!(
                    "waiting up to {} for running jobs; a second signal gives them back",
                    units::show_duration(self.flags.grace)
                ));
            } else if exit != Exit::HungUp {
                self.shift.kill();
            }
            self.signal.get_or_insert(exit);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.shift.kill();
        }
    }

    fn heed_idleness(&mut self) {
        let Some(idle) = self.flags.max_idle.filter(|idle| !idle.is_zero()) else { return };
        if (self.hands.is_busy)() {
            self.last_busy = Instant::now();
        } else if self.last_busy.elapsed() >= idle {
            self.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use clap::Parser;

    use super::*;
    use crate::output::messages::Messages;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        work: WorkFlags,
    }

    #[test]
    fn a_signal_during_startup_stops_the_worker() {
        let shift = Shift::new(Messages::to(Box::new(io::sink()), "tool", false, false));
        let flags = Line::parse_from(["tool"]).work;
        let (is_stopped, interrupts) = (AtomicBool::new(false), Interrupts::none());
        let hands =
            Hands { stop: &|| is_stopped.store(true, Ordering::SeqCst), is_busy: &|| false };
        interrupts.raise();
        let run = || {
            let start = Instant::now();
            while !is_stopped.load(Ordering::SeqCst) {
                assert!(start.elapsed() < Duration::from_secs(60), "nobody stops the worker");
                thread::sleep(Duration::from_millis(1));
            }
            7
        };
        let (_finished, jobs) = mpsc::channel::<()>();
        let ended =
            shift.supervise((hands, run), (&flags, &interrupts), &jobs, |()| Ok(())).unwrap();
        assert_eq!(ended, (Some(Exit::Interrupted), 7));
    }
}
