//! The jobs and the events of workers.

#[cfg(feature = "tracing")]
use queue_core::Words;
use queue_core::{Instrument, Measures, Operation, Span, SpanHook, lock, sync::Mutex};

use super::facts;
#[cfg(feature = "tracing")]
use super::{TARGET, connection_lost};
#[cfg(feature = "tracing")]
use crate::ErrorKind;
use crate::{
    Address, Job, JobId, WorkerOptions,
    protocol::{Command, ReserveWithTimeout},
    work::{outcome::Ended, view::ReservationState},
};

/// Reports the jobs of one server's slots.
#[derive(Debug)]
pub(crate) struct JobReporter {
    measures: Measures,
    on_span: SpanHook<Job>,
    #[cfg(feature = "tracing")]
    logs_errors: bool,
}

impl JobReporter {
    pub(crate) fn new(options: &WorkerOptions, server: usize) -> Self {
        JobReporter {
            measures: options.connect(server).server.measures.clone(),
            on_span: options.on_span.clone(),
            #[cfg(feature = "tracing")]
            logs_errors: options.logs_errors,
        }
    }

    /// Records the start of a handler.
    pub(crate) fn begins(
        &self,
        server: &Address,
        job: &Job,
        view: &Mutex<ReservationState>,
    ) -> Process {
        let about = |operation| {
            let tube = lock(view).tube.as_str().to_owned();
            facts(operation, Some(tube.into()), Some(server))
        };
        // Not locked while the span begins: a subscriber may ask about the job.
        let attempt = lock(view).attempt();
        let operation = queue_core::operation!(
            INFO,
            TARGET,
            "beanstalk_job",
            "consumer",
            &self.measures,
            about("process"),
            messaging.message.id = %job.id,
            messaging.message.body.size = job.body.len() as i64,
            messaging.beanstalkd.message.delivery_attempt = attempt,
        );
        if self.measures.is_set() {
            self.measures.notify(
                Instrument::ConsumedMessages,
                1.0,
                &about(ReserveWithTimeout::NAME),
                None,
            );
        }
        self.on_span.show(operation.span(), job);
        let knows_counters = operation.span().is_enabled() && attempt.is_some();
        Process { operation, knows_counters }
    }

    /// Records the end of a handler, within the span of its job. Its message is included only if configured, since it
    /// may quote the job.
    pub(crate) fn ended(
        &self,
        process: &mut Process,
        job: JobId,
        view: &Mutex<ReservationState>,
        ended: &mut Ended,
    ) {
        #[cfg(feature = "tracing")]
        {
            process.record_counters(view);
            if let Some(reason) = &ended.reason {
                tracing::warn!(
                    target: TARGET,
                    {
                        messaging.message.id = %job,
                        "error.type" = ended.error,
                        error = self.logs_errors.then(|| tracing::field::display(Words(reason))),
                    },
                    "the job's handler failed"
                );
            }
        }
        #[cfg(not(feature = "tracing"))]
        let _ = (job, view);
        process.operation.ended(ended.error);
        ended.span = process.span().clone();
    }
}

/// A running handler.
#[derive(Debug)]
pub(crate) struct Process {
    operation: Operation,
    /// Whether the job's counters were known when it started.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code))]
    knows_counters: bool,
}

impl Process {
    pub(crate) fn span(&self) -> &Span {
        self.operation.span()
    }

    /// Records the counters that were unknown when it started.
    #[cfg(feature = "tracing")]
    fn record_counters(&self, view: &Mutex<ReservationState>) {
        if self.knows_counters || !self.span().is_enabled() {
            return;
        }
        let attempt = lock(view).attempt();
        if let Some(attempt) = attempt {
            self.span().record("messaging.beanstalkd.message.delivery_attempt", attempt);
        }
    }
}

/// Emits an event of a slot with these fields.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $slot:ident, { $($fields:tt)* }, $words:literal) => {
        tracing::$level!(target: TARGET, { $slot, $($fields)* }, $words)
    };
}

/// Records an event of a worker.
pub(crate) fn worker(
    address: &Address,
    slot: usize,
    what: &crate::WorkerEventKind,
    logs_errors: bool,
) {
    #[cfg(feature = "tracing")]
    {
        use crate::WorkerEventKind as Kind;

        let slot = slot as i64;
        match what {
            Kind::Connected => event!(debug, slot, {}, "the slot is ready"),
            // Failed attempts are recorded separately.
            Kind::Disconnected(error) if error.kind() == ErrorKind::ConnectionLost => {
                connection_lost(address, Some(error));
            }
            Kind::Disconnected(error) => {
                event!(
                    debug,
                    slot,
                    { "error.type" = error.kind().name() },
                    "the slot has no connection"
                );
            }
            Kind::GivenUp => event!(
                warn,
                slot,
                { server.address = %address.endpoint().host() },
                "the server is given up"
            ),
            Kind::ServerReplaced => event!(
                warn,
                slot,
                { server.address = %address.endpoint().host() },
                "another server is at this address"
            ),
            Kind::Refused { command, reply, in_a_row, pause } => event!(
                warn,
                slot,
                {
                    messaging.operation.name = command,
                    reply,
                    in_a_row = i64::from(*in_a_row),
                    pause_ms = pause.as_millis() as i64,
                },
                "the server refuses the worker's requests"
            ),
            Kind::ShortTimeToRun { job, ttr } => event!(
                warn,
                slot,
                { messaging.message.id = %job, ttr_s = ttr.as_secs() as i64 },
                "the job's time to run is short"
            ),
            Kind::LateHeartbeat { job, late } => event!(
                warn,
                slot,
                { messaging.message.id = %job, late_ms = late.as_millis() as i64 },
                "the job's heartbeat was late"
            ),
            Kind::Started(job) => {
                event!(trace, slot, { messaging.message.id = %job }, "the job is started");
            }
            // Recorded within the span of its job.
            Kind::Failed { .. } => {}
            Kind::Poisoned { job, .. } => {
                event!(warn, slot, { messaging.message.id = %job }, "the job is not run");
            }
            Kind::DeadLettered { job, reason, attempts } => event!(
                warn,
                slot,
                {
                    messaging.message.id = %job,
                    attempts = *attempts as i64,
                    reason = logs_errors.then(|| tracing::field::display(Words(reason))),
                },
                "the job went to the dead-letter tube"
            ),
            Kind::Settled { job, fate } => event!(
                debug,
                slot,
                { messaging.message.id = %job, outcome = fate.word() },
                "the job is settled"
            ),
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, slot, what, logs_errors);
}
