//! Threads that submit jobs, each over its own connection, and report what happens to them.

mod news;
mod order;
mod room;

use std::iter::Peekable;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use ctl_core::bulk::Gate;
use ctl_core::error::{CliError, Exit};
use ctl_core::repl::guest::lock;
use ctl_core::system::process;
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units::show_duration;
use gearman_client::blocking::Client;
use gearman_client::{Error, JobEvent, JobHandle};

use crate::error::cli_error;
use crate::names::show_function;
use crate::submit::merged::{Guard, afterwards};
use crate::submit::tasks::{Task, Tasks};
pub use news::{News, What};
use order::Order;
use room::Room;

/// How jobs are submitted.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Waits for their events.
    Foreground {
        /// The time limit of the only job, if it includes that since then.
        since: Option<(Instant, Duration)>,
    },
    /// Background jobs.
    Background {
        /// The earliest time to run.
        at: Option<SystemTime>,
    },
}

/// The result of a poll.
#[derive(Debug)]
pub enum Poll {
    /// Something happened.
    News(Box<News>),
    /// Nothing yet.
    Nothing,
    /// All jobs have ended.
    Over,
}

/// Events as they arrive.
pub struct Pool {
    receiver: Receiver<News>,
    order: Option<Order>,
    room: Arc<Room>,
}

/// How often a waiting consumer checks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Maximum number of events waiting for the consumer, and their maximum size in bytes if order does not matter.
const BACKLOG: (usize, usize) = (64, 16 << 20);

/// The remaining jobs, and how many were taken.
type Source = Arc<Mutex<(Peekable<Tasks>, u64)>>;

impl Pool {
    /// Starts a thread for each client. With `ordered`, all events of a job arrive before those of the next; results of
    /// up to this many bytes are kept for their turn, and anything beyond waits at the server.
    ///
    /// # Errors
    /// The operating system refuses a thread: exit 75, or 70.
    pub fn start(
        clients: Vec<Client>,
        tasks: Tasks,
        kind: Kind,
        ordered: Option<usize>,
        (gate, guard): (&Gate, Guard),
    ) -> Result<Self, CliError> {
        let room = Arc::new(Room::new(ordered.unwrap_or(BACKLOG.1)));
        let order = ordered.map(|_| Order::new(Arc::clone(&room)));
        let (sender, receiver) = mpsc::sync_channel(BACKLOG.0);
        let source: Source = Arc::new(Mutex::new((tasks.peekable(), 0)));
        let (places, gate) = (Arc::clone(&room), gate.clone());
        let wire = Wire { sender, room: places, gate, guard, job: 0, label: String::new() };
        for mut client in clients {
            let (source, mut wire) = (Arc::clone(&source), wire.clone());
            let work = move || while wire.next(&mut client, &source, kind).is_some() {};
            process::thread("submit", work)?;
        }
        Ok(Self { receiver, order, room })
    }

    /// Polls for events without waiting.
    pub fn poll(&mut self) -> Poll {
        self.receive(Duration::ZERO)
    }

    /// The next event; none once all jobs have ended.
    ///
    /// # Errors
    /// Exit 130 or 143 on a signal.
    pub fn next(&mut self, interrupts: &Interrupts) -> Result<Option<News>, CliError> {
        loop {
            interrupts.check()?;
            match self.receive(SLICE) {
                Poll::News(news) => return Ok(Some(*news)),
                Poll::Nothing => {}
                Poll::Over => return Ok(None),
            }
        }
    }

    /// Takes no longer than this, however many events arrive that have to wait for their turn; with no time, all that
    /// have arrived.
    fn receive(&mut self, time: Duration) -> Poll {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let news = match self.order.as_mut().and_then(Order::next) {
                Some(news) => news,
                None => match (self.receiver.recv_timeout(left), &mut self.order) {
                    (Ok(news), Some(order)) => {
                        order.add(news);
                        if time.is_zero() || Instant::now() < until {
                            continue;
                        }
                        return Poll::Nothing;
                    }
                    (Ok(news), None) => news,
                    (Err(RecvTimeoutError::Timeout), _) => return Poll::Nothing,
                    (Err(RecvTimeoutError::Disconnected), _) => return Poll::Over,
                },
            };
            self.room.leave(&news);
            return Poll::News(Box::new(news));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.room.close();
    }
}

/// A thread's way to the consumer.
#[derive(Clone)]
struct Wire {
    sender: SyncSender<News>,
    room: Arc<Room>,
    gate: Gate,
    guard: Guard,
    job: u64,
    label: String,
}

impl Wire {
    /// Submits the next job. None if there is none, if no more may be submitted, or if the receiver has gone.
    fn next(&mut self, client: &mut Client, source: &Source, kind: Kind) -> Option<()> {
        if !self.gate.is_open() || !self.room.admit(&self.gate) {
            return None;
        }
        let task = {
            let mut source = lock(source);
            // Only threads with something to submit wait for a turn.
            source.0.peek()?;
            let task = if self.gate.turn(1) { source.0.next()? } else { return None };
            source.1 += 1;
            self.job = source.1;
            task
        };
        let task = match task {
            Ok(task) => task,
            Err((label, error)) => {
                self.label = label;
                return self.tell(What::Error(error));
            }
        };
        self.label.clone_from(&task.label);
        if let Some(chosen) = task.chosen() {
            self.guard.before(chosen);
        }
        match kind {
            Kind::Foreground { since } => self.foreground(client, &task, since),
            Kind::Background { at } => self.background(client, &task, at),
        }
    }

    fn background(&self, client: &mut Client, task: &Task, at: Option<SystemTime>) -> Option<()> {
        let Task { function, workload, .. } = task;
        let (function, options) = (function.clone(), task.options());
        let submitted = match (at, &task.reducer) {
            (Some(at), _) => client.submit_epoch(function, workload, at, options),
            (None, Some(reducer)) => {
                client.submit_reduce_background(function, workload, reducer.clone(), options)
            }
            (None, None) => client.submit_background(function, workload, options),
        };
        let checked = submitted.map_err(|error| refused(task, error)).and_then(|submitted| {
            self.check(task, &submitted.handle, false)?;
            Ok(submitted)
        });
        self.tell(match checked {
            Ok(submitted) => What::Taken(submitted.handle, submitted.unique, task.function.clone()),
            Err(error) => What::Error(error),
        })
    }

    /// Checks that the server will run the job that it has returned, if it may be an older one of the same id.
    fn check(&self, task: &Task, handle: &JobHandle, waits: bool) -> Result<(), CliError> {
        match task.chosen() {
            Some(chosen) => self.guard.report(chosen, handle, waits),
            None => Ok(()),
        }
    }

    fn foreground(
        &self,
        client: &mut Client,
        task: &Task,
        since: Option<(Instant, Duration)>,
    ) -> Option<()> {
        let failed = |error| {
            let mut error = refused(task, error);
            if let Some((_, limit)) = since {
                error.message = with_limit(&error.message, limit);
            }
            if let (Some(id), Exit::Timeout) = (&task.id, error.exit) {
                error.message = format!("{}; {}", error.message, afterwards(id));
            }
            What::Error(error)
        };
        let left = since.map(|(since, limit)| left(limit, since.elapsed()));
        let options = left.map_or(task.options(), |left| task.options().timeout(left));
        let Task { function, workload, .. } = task;
        let submitted = match &task.reducer {
            Some(reducer) => {
                client.submit_reduce(function.clone(), workload, reducer.clone(), options)
            }
            None => client.submit(function.clone(), workload, options),
        };
        let job = match submitted {
            Ok(job) => job,
            Err(error) => return self.tell(failed(error)),
        };
        let (handle, unique) = (job.handle().clone(), job.unique().copied());
        if let Err(error) = self.check(task, &handle, true) {
            return self.tell(What::Error(error));
        }
        self.tell(What::Taken(handle, unique, task.function.clone()))?;
        for event in job {
            match event {
                Ok(JobEvent::Created(_)) => {}
                Ok(event) => {
                    let is_last = event.is_last();
                    self.tell(What::Event(event))?;
                    if is_last {
                        break;
                    }
                }
                Err(error) => return self.tell(failed(error)),
            }
        }
        Some(())
    }

    fn tell(&self, what: What) -> Option<()> {
        if matches!(&what, What::Error(_) | What::Event(JobEvent::Fail | JobEvent::Exception(_))) {
            // Recorded here, because the consumer may hear of it only when the next job is on its way.
            self.gate.failed();
        }
        let news = News { job: self.job, label: self.label.clone(), what };
        if !self.room.enter(&news) {
            return None;
        }
        self.sender.send(news).ok()
    }
}

/// The failure of a job that was to be submitted.
fn refused(task: &Task, error: Error) -> CliError {
    cli_error(error).about("FUNCTION", show_function(&task.function))
}

/// The time that a job has left: at least a little, however long it took to find its server.
fn left(limit: Duration, spent: Duration) -> Duration {
    limit.saturating_sub(spent).max(Duration::from_millis(1))
}

/// The words before the time limit in the client's message.
const LIMIT: &str = "within its timeout of ";

/// The client's message with the limit that was given, of which it had only the rest.
fn with_limit(message: &str, limit: Duration) -> String {
    let Some((before, after)) = message.split_once(LIMIT) else { return message.to_owned() };
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ' ');
    let after = after.trim_start_matches(is_number).trim_start_matches(char::is_alphabetic);
    format!("{before}{LIMIT}{}{after}", show_duration(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_a_server_is_a_part_of_the_limit_that_messages_name() {
        let ms = Duration::from_millis;
        assert_eq!((left(ms(900), ms(200)), left(ms(900), ms(2000))), (ms(700), ms(1)));
        for (rest, after) in [("700 ms", ""), ("1.5 s", ": it was not sent"), ("1 s", " (why)")] {
            let message = with_limit(&format!("h:1: not {LIMIT}{rest}{after}"), ms(2000));
            assert_eq!(message, format!("h:1: not {LIMIT}2s{after}"));
        }
        assert_eq!(with_limit("lost", ms(2000)), "lost");
    }
}
