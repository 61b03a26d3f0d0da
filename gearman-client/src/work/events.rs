//! Events of a running worker.

use std::{fmt, sync::Arc};

use queue_core::{Measures, Observer, Operation, Outage, SpanHook, lock, sync::Mutex};

use crate::{
    Address, Assignment, ConnectOptions, Error, ErrorKind, Failure, FunctionName, JobHandle,
    WorkerOptions,
    protocol::worker::{Letter, lane::LaneEvent},
    trace,
    work::{failure::Failed, ledger::RunningJob},
};

queue_core::server_event! {
    /// An event of a worker. With the feature `serde` it can only be serialized, because it holds errors of this process.
    ///
    /// As text, it quotes the message of a handler's error.
    WorkerEvent: WorkerEventKind, Address
}

/// What happened.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum WorkerEventKind {
    /// A connection was made.
    Connected,
    /// No connection could be made, or it was lost. The worker retries, unless it stops. Each kind of error is reported
    /// once until a connection succeeds.
    Disconnected(Error),
    /// The connection was given up because its server could not be reached; only
    /// [until there are no jobs](crate::WorkerOptions::until_empty).
    GivenUp,
    /// A handler failed or panicked, so its job failed.
    Failed {
        /// The job.
        job: JobHandle,
        /// The job's function.
        function: FunctionName,
        /// The unmodified message of the handler's error or panic. It may quote the job.
        error: String,
    },
    /// A handler has [given its job back](crate::Failure::give_back).
    GivenBack {
        /// The job.
        job: JobHandle,
        /// The job's function.
        function: FunctionName,
        /// The unmodified reason. It may quote the job.
        reason: String,
    },
    /// A job has failed, and the server has it as a [dead letter](crate::WorkerOptions::dead_letter). Comes behind
    /// [`Failed`](Self::Failed).
    DeadLettered {
        /// The job.
        job: JobHandle,
        /// The job's function.
        function: FunctionName,
        /// The unmodified message of the failure. It may quote the job.
        reason: String,
        /// How often the job was run, as far as a [`CrashLedger`](crate::CrashLedger) knows: gearmand does not count.
        attempts: u32,
    },
    /// A job was larger than [`max_packet_size`](ConnectOptions::max_packet_size), and has failed without being run;
    /// see [`fail_oversized`](WorkerOptions::fail_oversized).
    Oversized {
        /// The job.
        job: JobHandle,
        /// The job's function.
        function: FunctionName,
        /// The size of its packet in bytes: its workload, ids and function.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl fmt::Display for WorkerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerEventKind::Connected => f.write_str("connected"),
            WorkerEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            WorkerEventKind::GivenUp => f.write_str("given up: the server cannot be reached"),
            WorkerEventKind::Failed { job, function, error } => {
                let (job, function) = (job.to_string(), function.to_string());
                let (job, function) = (job.escape_debug(), function.escape_debug());
                write!(f, "job {job} of {function} failed: {}", error.escape_debug())
            }
            WorkerEventKind::GivenBack { job, function, reason } => {
                let (job, function) = (job.to_string(), function.to_string());
                let (job, function) = (job.escape_debug(), function.escape_debug());
                write!(f, "job {job} of {function} was given back: {}", reason.escape_debug())
            }
            WorkerEventKind::DeadLettered { job, function, reason, attempts } => {
                let (job, function) = (job.to_string(), function.to_string());
                let (job, function) = (job.escape_debug(), function.escape_debug());
                let runs = queue_core::counted((*attempts).into(), "attempt");
                let reason = reason.escape_debug();
                write!(f, "job {job} of {function} was dead-lettered after {runs}: {reason}")
            }
            WorkerEventKind::Oversized { job, function, size, limit } => {
                let (job, function) = (job.to_string(), function.to_string());
                let (job, function) = (job.escape_debug(), function.escape_debug());
                write!(
                    f,
                    "job {job} of {function} failed without being run: its packet of {size} bytes is over the limit of {limit} (raise max_packet_size if this is expected)"
                )
            }
        }
    }
}

/// Reports the events of one of a worker's connections.
pub(crate) struct EventReporter {
    server: Arc<Address>,
    observer: Option<Observer<WorkerEvent>>,
    logs_errors: bool,
    measures: Measures,
    on_span: SpanHook<Assignment>,
    /// The errors reported since the last connection.
    outage: Mutex<Outage<ErrorKind>>,
}

impl EventReporter {
    pub(crate) fn new(
        server: Arc<Address>,
        connect: &ConnectOptions,
        options: &WorkerOptions,
    ) -> Self {
        EventReporter {
            server,
            observer: options.observer.clone(),
            logs_errors: options.logs_errors,
            measures: connect.measures.clone(),
            on_span: options.on_span.clone(),
            outage: Mutex::default(),
        }
    }

    pub(crate) fn notify_of(&self, news: &LaneEvent) {
        match news {
            LaneEvent::Connected => self.connected(),
            LaneEvent::Lost(error, wait) => {
                self.disconnected(error);
                trace::backing_off(&self.server, *wait);
            }
            LaneEvent::GivenUp => {
                trace::given_up(&self.server);
                self.notify(|| WorkerEventKind::GivenUp);
            }
            LaneEvent::Letter(letter) => self.posted(letter),
            LaneEvent::Oversized(job, function, oversize) => {
                trace::oversized(job, function, oversize.size);
                self.notify(|| WorkerEventKind::Oversized {
                    job: job.clone(),
                    function: function.clone(),
                    size: oversize.size,
                    limit: oversize.limit,
                });
            }
        }
    }

    fn posted(&self, letter: &Letter) {
        let (job, function) = (letter.job.clone(), letter.function.clone());
        let what = match &letter.refusal {
            None => {
                let reason = self.logs_errors.then_some(letter.reason.as_str());
                trace::dead_lettered(&job, &function, letter.attempts, reason);
                let (reason, attempts) = (letter.reason.clone(), letter.attempts);
                WorkerEventKind::DeadLettered { job, function, reason, attempts }
            }
            Some(error) => {
                let reason = format!("its dead letter: {error}");
                trace::done(&job, Some(("given-back", Some(&reason))));
                WorkerEventKind::GivenBack { job, function, reason }
            }
        };
        self.notify(|| what);
    }

    fn connected(&self) {
        lock(&self.outage).ends();
        self.notify(|| WorkerEventKind::Connected);
    }

    fn disconnected(&self, error: &Error) {
        trace::lost(&self.server, error);
        let is_new = lock(&self.outage).is_new(error.kind());
        if is_new {
            self.notify(|| WorkerEventKind::Disconnected(error.share()));
        }
    }

    /// A job was handed to the application.
    pub(crate) fn consumed(&self, job: &Assignment) {
        trace::consumed(&self.measures, &job.handle, &job.function);
    }

    /// A handler starts with a job.
    pub(crate) fn begins(&self, job: &Assignment) -> Operation {
        self.consumed(job);
        let bytes = job.workload.len();
        let process = trace::job(&self.measures, &job.handle, &job.function, bytes);
        self.on_span.show(process.span(), job);
        process
    }

    /// Records the ledger's admission of a job.
    pub(crate) fn admitted(process: &Operation, running: Option<&RunningJob>) {
        if let Some(running) = running {
            trace::attempt(process, running.attempt());
        }
    }

    /// Records the end of a handler, within the span of its job.
    pub(crate) fn ended<T>(
        &self,
        process: &mut Operation,
        job: &Assignment,
        outcome: &Result<T, Failed>,
    ) {
        if outcome.as_ref().is_err_and(|failed| !failed.is_news()) {
            return;
        }
        let failed = outcome.as_ref().err();
        let words = failed.filter(|_| self.logs_errors).map(Failed::words);
        trace::done(&job.handle, failed.map(|failed| (failed.kind(), words.as_deref())));
        process.ended(failed.map(Failed::kind));
        if let Some(failed) = failed {
            self.notify(|| {
                let (job, function) = (job.handle.clone(), job.function.clone());
                let reason = failed.words().into_owned();
                match failed {
                    Failed::Handler(Failure::GiveBack(_)) => {
                        WorkerEventKind::GivenBack { job, function, reason }
                    }
                    _ => WorkerEventKind::Failed { job, function, error: reason },
                }
            });
        }
    }

    fn notify(&self, what: impl FnOnce() -> WorkerEventKind) {
        if let Some(observer) = &self.observer {
            observer.notify(&WorkerEvent { server: Address::clone(&self.server), what: what() });
        }
    }
}
