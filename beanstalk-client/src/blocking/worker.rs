//! The blocking worker.

mod context;
mod handover;
mod slot;
mod test_job;

use std::{collections::BTreeMap, io, sync::Arc, time::Instant};

use queue_core::{
    after, lock,
    sync::{Mutex, spawn_scoped, thread},
};

pub use self::{context::JobContext, test_job::TestJob};
use self::{
    handover::{Handler, Handover},
    slot::{SLICE, Slot},
};
use super::client::Client;
use crate::{
    Error, ErrorKind, Fate, IntoOutcome, Result, SlotState, TubeName, WorkerEventKind,
    WorkerHandle, WorkerOptions, WorkerReport,
    trace::JobReporter,
    work::{
        outcome::Ended,
        worker_status::{SlotServer, WorkerStatus},
    },
    worker::worker,
};

type Handlers = BTreeMap<TubeName, Handler>;

/// Runs handlers for the jobs of tubes, and reports the outcomes to the servers.
///
/// ```
/// # let server = fixtures::beanstalkd::Server::start()?;
/// # let address = server.address();
/// # let mut client = beanstalk_client::blocking::Client::connect(address)?;
/// # let _ = client.put("hello", Default::default())?;
/// use beanstalk_client::{WorkerOptions, blocking::{JobContext, Worker}};
///
/// let options = WorkerOptions::new(address)?.slots(4);
/// # let options = options.until_empty();
/// let mut worker = Worker::new(options)?;
/// let stop = worker.handle(); // stop.stop() from another thread ends the run
/// worker.register("default", |job: &JobContext| {
///     println!("job {}: {} bytes", job.id, job.body.len());
///     Ok::<(), std::io::Error>(()) // delete; an error releases it with a delay
/// })?;
/// let report = worker.run();
/// assert_eq!(report.finished, 1);
/// # drop(stop);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It does what the async worker does, with threads: [`run`](Self::run) starts two for each slot, and joins all of them
/// before it returns. One drives the connection and runs the handler, which may block for as long as it likes;
/// meanwhile the other drives the connection and its heartbeat. With [prefetch](WorkerOptions::prefetch), one thread
/// always drives and the other runs handlers. An attempt to connect has its own thread, which ends with it, so that
/// a stop does not wait for a server that takes no connection. A thread cannot be killed from outside: a handler that
/// continues after its job was [lost](JobContext::is_lost) keeps its slot from taking another job and `run` from
/// returning.
pub struct Worker {
    options: WorkerOptions,
    worker_status: Arc<WorkerStatus>,
    handlers: Handlers,
}

worker!();

impl Worker {
    /// Serves a tube: `handler` runs for each of its jobs. Its return value decides what becomes of the job
    /// ([`IntoOutcome`]).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and for the dead-letter tube.
    pub fn register<Q, H, R>(&mut self, tube: Q, handler: H) -> Result<()>
    where
        Q: TryInto<TubeName>,
        Error: From<Q::Error>,
        H: Fn(&JobContext) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let tube = tube.try_into()?;
        self.options.check_served(&tube)?;
        let handler: Handler = Box::new(move |job| Ended::with(handler(job)));
        self.handlers.insert(tube, handler);
        Ok(())
    }

    /// Runs until [`WorkerHandle::stop`], or until the end set by the options. Without a registered tube it ends at
    /// once.
    ///
    /// A stop takes effect within a fifth of a second, or, while connecting, within the connect timeout. An unreachable
    /// server is retried indefinitely; [`WorkerHandle::slots`] and [`WorkerOptions::on_event`] report that.
    #[must_use]
    pub fn run(self) -> WorkerReport {
        let Worker { options, worker_status, handlers } = self;
        let _run = worker_status.stop.run();
        let threads: Vec<SlotThreads<'_>> = worker_status
            .watching(&options, handlers.keys())
            .into_iter()
            .map(|(lane, tubes)| {
                let handover: Arc<Handover> = Arc::default();
                let slot = Slot::new((lane, tubes), &options, &worker_status, handover.clone());
                let reporter = JobReporter::new(&options, lane.server);
                SlotThreads { lane, handover, reporter, slot: Mutex::new(slot) }
            })
            .collect();
        thread::scope(|scope| {
            let vacant =
                threads.iter().map(|slot_threads| StoppedSlot { slot_threads, has_second: false });
            fill(vacant.collect(), &options, &worker_status, |stopped_slot| {
                let SlotThreads { lane, handover, reporter, slot } = stopped_slot.slot_threads;
                let (number, worker_status, handlers) = (lane.slot, &worker_status, &handlers);
                let run = move |job: &JobContext| {
                    let handler = handlers.get(&job.tube());
                    handover::run(job, handler, worker_status, number, reporter)
                };
                if !stopped_slot.has_second {
                    if options.prefetch > 1 {
                        spawn_scoped(scope, Some("handler"), move || handover.work(run))?;
                    } else {
                        spawn_scoped(scope, Some("stand-in"), move || take_over(slot, handover))?;
                    }
                    stopped_slot.has_second = true;
                }
                spawn_scoped(scope, Some("slot"), move || drive(slot, handover, run))?;
                Ok(())
            });
        });
        drop(threads);
        worker_status.report()
    }
}

/// A slot and the handover that its two threads share.
struct SlotThreads<'a> {
    lane: SlotServer,
    handover: Arc<Handover>,
    reporter: JobReporter,
    slot: Mutex<Slot<'a>>,
}

/// A slot without threads.
struct StoppedSlot<'a, 'b> {
    slot_threads: &'a SlotThreads<'b>,
    has_second: bool,
}

/// Starts the threads of all slots. If the system cannot start one now, its slot waits without holding up the others.
fn fill<'a, 'b>(
    mut vacant: Vec<StoppedSlot<'a, 'b>>,
    options: &WorkerOptions,
    worker_status: &WorkerStatus,
    mut start: impl FnMut(&mut StoppedSlot<'a, 'b>) -> io::Result<()>,
) {
    let mut delays = options.retry(0, vacant.len() as u64).delays();
    loop {
        vacant.retain_mut(|stopped_slot| match start(stopped_slot) {
            Ok(()) => false,
            Err(error) => {
                notify(stopped_slot.slot_threads.lane, options, worker_status, error);
                true
            }
        });
        if vacant.is_empty() {
            return;
        }
        let until = after(Instant::now(), delays.next_delay());
        while Instant::now() < until && worker_status.stop.asked().is_none() {
            thread::sleep(SLICE.min(until.saturating_duration_since(Instant::now())));
        }
        if worker_status.stop.asked().is_some() {
            break;
        }
    }
    for StoppedSlot { slot_threads, .. } in vacant {
        slot_threads.handover.close();
        worker_status.set_state(slot_threads.lane.slot, SlotState::Ended);
    }
}

fn notify(
    lane: SlotServer,
    options: &WorkerOptions,
    worker_status: &WorkerStatus,
    error: io::Error,
) {
    let why = "no thread could be started for a slot; it will be tried again";
    let error = Error::new(ErrorKind::Connect, Fate::NotSent, why).with_source(error);
    worker_status.notify(
        options.address(lane.server),
        lane.slot,
        WorkerEventKind::Disconnected(error),
    );
    worker_status.set_state(lane.slot, SlotState::BackingOff);
}

/// The main loop of a slot's own thread, which releases the slot while it runs a handler.
fn drive(slot: &Mutex<Slot<'_>>, handover: &Handover, run: impl Fn(&JobContext) -> Ended) {
    loop {
        let job = lock(slot).advance();
        let Some(job) = job else { break };
        handover.work_on(job, &run);
    }
    handover.close();
}

/// Drives the slot while a long-running handler occupies its thread: touches the job, and notifies the handler if the
/// reservation is lost.
fn take_over(slot: &Mutex<Slot<'_>>, handover: &Handover) {
    let mut job = None;
    while let Some(long) = handover.wait_for_long(job) {
        lock(slot).stand_in(long);
        job = Some(long);
    }
}
