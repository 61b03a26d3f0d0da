//! `tracing` output of this crate: spans for connections, requests and jobs, and events for changes, with
//! OpenTelemetry's names for messaging. Workloads and results are never logged, only their length; text from servers is
//! never logged, except handles, and text from handlers only with `WorkerOptions::log_errors`.
//!
//! Without the feature `tracing` everything here is a no-op.

use std::{borrow::Cow, fmt};

use queue_core::{Facts, Instrument, Measures, Observation, Operation, one_line};
#[cfg(feature = "tracing")]
use queue_core::{OneLine, Words};

#[cfg(feature = "tracing")]
use crate::ErrorKind;
use crate::{Address, Error, FunctionName, JobHandle};

/// The target for filters.
#[cfg(feature = "tracing")]
pub(crate) const TARGET: &str = "gearman_client";
#[cfg(feature = "tracing")]
const REQUEST: &str = "gearman_request";
const SYSTEM: &str = "gearman";

queue_core::trace_connections!("gearman_connect", TARGET, SYSTEM);

pub(crate) fn facts<'a>(
    operation: &'static str,
    kind: Option<&'static str>,
    function: Option<&'a FunctionName>,
    server: Option<&'a Address>,
) -> Facts<'a> {
    let destination = function.map(|name| match std::str::from_utf8(name.as_bytes()) {
        Ok(name) => one_line(name),
        Err(_) => Cow::Owned(one_line(&name.to_string()).into_owned()),
    });
    Facts {
        system: SYSTEM,
        operation,
        kind,
        destination,
        server: server.map(|server| server.endpoint().into()),
    }
}

/// Records the name that a job was given, within the span of its submission if it has one.
pub(crate) fn created(handle: &[u8]) {
    #[cfg(feature = "tracing")]
    if tracing::level_filters::LevelFilter::current() >= tracing::Level::DEBUG {
        let span = tracing::Span::current();
        if span.metadata().is_some_and(|data| data.name() == REQUEST) {
            let handle = handle.escape_ascii();
            span.record("messaging.message.id", tracing::field::display(handle));
        }
    }
}

/// Records a failed call.
pub(crate) fn failed(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        target: TARGET,
        {
            messaging.system = SYSTEM,
            messaging.operation.name = error.command(),
            messaging.message.id =
                error.handle().map(|job| tracing::field::display(job.name().escape_ascii())),
            "error.type" = error.kind().name(),
            fate = ?error.fate(),
        },
        "the request failed"
    );
}

/// Records that a worker's message arrives with the magic of a request.
pub(crate) fn magic(address: &Address, packet_type: impl fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: TARGET,
        {
            messaging.system = SYSTEM,
            server.address = %address.endpoint().host(),
            server.port = address.endpoint().port().map(i64::from),
        },
        "the server forwards {} with the magic of a request; it is accepted as a reply",
        packet_type
    );
}

/// Records that a connection ended by itself, or is out of step. Failed attempts are recorded separately.
pub(crate) fn lost(address: &Address, error: &Error) {
    #[cfg(feature = "tracing")]
    if !matches!(
        error.kind(),
        ErrorKind::Connect | ErrorKind::Tls | ErrorKind::Timeout(crate::Deadline::Connect)
    ) {
        connection_lost(address, Some(error));
    }
}

/// Records that a worker has left out its server.
pub(crate) fn given_up(address: &Address) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: TARGET,
        {
            messaging.system = SYSTEM,
            server.address = %address.endpoint().host(),
        },
        "the server is given up"
    );
}

/// A job's handler, with the number of bytes of its workload.
pub(crate) fn job(
    measures: &Measures,
    job: &JobHandle,
    function: &FunctionName,
    bytes: usize,
) -> Operation {
    queue_core::operation!(
        INFO,
        TARGET,
        "gearman_job",
        "consumer",
        measures,
        facts("process", Some("process"), Some(function), job.server()),
        messaging.message.id = %job.name().escape_ascii(),
        messaging.message.body.size = bytes as i64,
        messaging.gearman.message.delivery_attempt = tracing::field::Empty,
    )
}

/// Records how often a job was run, including this time, as far as a ledger knows.
pub(crate) fn attempt(process: &Operation, attempt: u32) {
    #[cfg(feature = "tracing")]
    process.span().record("messaging.gearman.message.delivery_attempt", i64::from(attempt));
}

/// Starts the operation for a worker's grab; `None` without an observer.
pub(crate) fn grabs(
    measures: &Measures,
    grab: &'static str,
    function: Option<&FunctionName>,
    server: &Address,
) -> Option<Box<Operation>> {
    let operation = queue_core::operation!(
        root DEBUG,
        TARGET,
        "gearman_request",
        "client",
        measures,
        facts(grab, Some("receive"), function, Some(server)),
        messaging.message.id = tracing::field::Empty,
        messaging.message.body.size = tracing::field::Empty,
    );
    operation.is_reported().then(|| Box::new(operation))
}

/// Starts the operation for the end of a job.
pub(crate) fn ends(
    measures: &Measures,
    end: &'static str,
    job: &JobHandle,
    function: Option<&FunctionName>,
    server: &Address,
) -> Option<Box<Operation>> {
    let operation = queue_core::operation!(
        DEBUG,
        TARGET,
        "gearman_request",
        "client",
        measures,
        facts(end, Some("settle"), function, Some(server)),
        messaging.message.id = %job.name().escape_ascii(),
    );
    operation.is_reported().then(|| Box::new(operation))
}

/// A grab that was answered, with a job and the number of bytes of its workload, or with none. The job counts as consumed
/// when its handler starts.
pub(crate) fn grabbed(operation: Operation, job: Option<(&JobHandle, usize)>) -> Observation {
    let observation = Observation::new(operation, None);
    match job {
        Some((job, bytes)) => observation.about(job.name().escape_ascii(), Some(bytes)),
        None => observation,
    }
}

/// Records a job that was handed to the application.
pub(crate) fn consumed(measures: &Measures, job: &JobHandle, function: &FunctionName) {
    if measures.is_set() {
        let facts = facts("GRAB_JOB", Some("receive"), Some(function), job.server());
        measures.notify(Instrument::ConsumedMessages, 1.0, &facts, None);
    }
}

/// Records the outcome of a handler, within the span of its job: the kind of a failure, and its words if they may be
/// shown.
pub(crate) fn done(job: &JobHandle, failure: Option<(&'static str, Option<&str>)>) {
    #[cfg(feature = "tracing")]
    match failure {
        None => tracing::debug!(
            target: TARGET,
            { messaging.message.id = %job.name().escape_ascii() },
            "the job is done"
        ),
        Some((kind @ "given-back", words)) => {
            let reason = words.map(|words| tracing::field::display(Words(words)));
            tracing::info!(
                target: TARGET,
                { messaging.message.id = %job.name().escape_ascii(), outcome = kind, reason },
                "the job is given back"
            );
        }
        Some((kind, words)) => {
            let error = words.map(|words| tracing::field::display(Words(words)));
            tracing::warn!(
                target: TARGET,
                {
                    messaging.message.id = %job.name().escape_ascii(),
                    outcome = kind,
                    "error.type" = kind,
                    error,
                },
                "the job's handler failed"
            );
        }
    }
}

/// A warning about a job, with fields of its own.
#[cfg(feature = "tracing")]
macro_rules! warn_of_job {
    ($job:ident, $function:ident, { $($own:tt)+ }, $words:literal) => {
        tracing::warn!(
            target: TARGET,
            {
                messaging.system = SYSTEM,
                messaging.destination.name = %OneLine($function),
                messaging.message.id = %$job.name().escape_ascii(),
                $($own)+
            },
            $words
        )
    };
}

/// Records a job that was too large to be run.
pub(crate) fn oversized(job: &JobHandle, function: &FunctionName, size: usize) {
    #[cfg(feature = "tracing")]
    warn_of_job!(
        job,
        function,
        { messaging.message.envelope.size = size as i64 },
        "the job is larger than the worker's limit"
    );
}

/// Records a job that has failed, and that the server keeps as a dead letter.
pub(crate) fn dead_lettered(
    job: &JobHandle,
    function: &FunctionName,
    attempts: u32,
    reason: Option<&str>,
) {
    #[cfg(feature = "tracing")]
    warn_of_job!(
        job,
        function,
        {
            attempts = i64::from(attempts),
            reason = reason.map(|reason| tracing::field::display(Words(reason))),
        },
        "the job is a dead letter"
    );
}

/// Records a job that was running when processes of its workers died, and whether it is run again.
pub(crate) fn crashed(job: &JobHandle, function: &FunctionName, crashes: u32, is_run: bool) {
    #[cfg(feature = "tracing")]
    warn_of_job!(
        job,
        function,
        { crashes = i64::from(crashes), is_run },
        "the job was running when its workers ended"
    );
}
