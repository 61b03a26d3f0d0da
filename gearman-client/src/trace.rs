//! What this crate tells `tracing`: spans for connections, requests and jobs, and events for what changes, with the names
//! that OpenTelemetry has for messaging. Never a workload or a result, at most its length; nothing that a server
//! wrote, except handles; and what a handler wrote only with `WorkerOptions::log_errors`.
//!
//! Without the feature `tracing` all of it is nothing.

use queue_core::Span;
#[cfg(feature = "tracing")]
use queue_core::{Line, Words};

#[cfg(feature = "tracing")]
use crate::ErrorKind;
use crate::{
    Address, Error, JobHandle,
    protocol::{Assignment, Magic, Packet, Request},
    work::Failed,
};

#[cfg(feature = "tracing")]
const REQUEST: &str = "gearman_request";
#[cfg(feature = "tracing")]
const SYSTEM: &str = "gearman";

/// A request, over whichever servers it goes.
pub(crate) fn request<R: Request>(request: &R) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::debug_span!(
        REQUEST,
        otel.kind = "client",
        messaging.system = SYSTEM,
        messaging.operation.name = request.packet_type().name(),
        "messaging.operation.type" = request.function().map(|_| "send"),
        messaging.destination.name =
            request.function().map(|name| tracing::field::display(Line(name))),
        messaging.message.id = tracing::field::Empty,
        server.address = tracing::field::Empty,
        server.port = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = request;
        Span::none()
    }
}

/// The present span, if it is that of a request.
#[cfg(feature = "tracing")]
fn current() -> Option<tracing::Span> {
    if tracing::level_filters::LevelFilter::current() < tracing::Level::DEBUG {
        return None;
    }
    let span = tracing::Span::current();
    span.metadata().is_some_and(|data| data.name() == REQUEST).then_some(span)
}

/// The answer to the request of the present span.
pub(crate) fn answer(address: &Address, answer: &Packet) {
    #[cfg(feature = "tracing")]
    if let Some(span) = current() {
        span.record("server.address", tracing::field::display(address.endpoint().host()));
        span.record("server.port", address.endpoint().port());
        if answer.packet_type == crate::protocol::PacketType::JobCreated {
            let handle = answer.body.escape_ascii();
            span.record("messaging.message.id", tracing::field::display(handle));
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, answer);
}

/// A call has failed, within the span of its request if it has one.
pub(crate) fn failed(error: &Error) {
    #[cfg(feature = "tracing")]
    {
        if let Some(span) = current() {
            span.record("error.type", error.kind().name());
        }
        tracing::debug!(
            messaging.system = SYSTEM,
            messaging.operation.name = error.command(),
            messaging.message.id = error.handle().map(|job| tracing::field::display(job.name().escape_ascii())),
            "error.type" = error.kind().name(),
            fate = ?error.fate(),
            "the request failed"
        );
    }
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

/// A packet came. What a worker said of its job may come with the magic of a request, which is told once.
pub(crate) fn magic(address: &Address, packet: &Packet, is_noted: &mut bool) {
    if packet.magic == Magic::Response || std::mem::replace(is_noted, true) {
        return;
    }
    #[cfg(feature = "tracing")]
    tracing::warn!(
        messaging.system = SYSTEM,
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
        "the server passes on {} with the magic of a request; it is taken as an answer",
        packet.packet_type
    );
    #[cfg(not(feature = "tracing"))]
    let _ = address;
}

queue_core::trace_connections!("gearman_connect", SYSTEM);

/// A connection has ended by itself, or does not keep in step. An attempt that failed was told of by itself.
pub(crate) fn lost(address: &Address, error: &Error) {
    #[cfg(feature = "tracing")]
    if !matches!(
        error.kind(),
        ErrorKind::Connect | ErrorKind::Tls | ErrorKind::Timeout(crate::Deadline::Connect)
    ) {
        connection_lost(address, Some(error));
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, error);
}

/// The work of a handler on a job.
pub(crate) fn job(job: &Assignment) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::debug_span!(
        "gearman_job",
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "process",
        "messaging.operation.type" = "process",
        messaging.destination.name = %Line(&job.function),
        messaging.message.id = %job.handle.name().escape_ascii(),
        messaging.message.body.size = job.workload.len() as u64,
        server.address = job.handle.server().map(|at| tracing::field::display(at.endpoint().host())),
        server.port = job.handle.server().and_then(|at| at.endpoint().port()),
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = job;
        Span::none()
    }
}

/// What a handler made of a job. Its words only where that was asked for: they may quote the job.
pub(crate) fn done<T>(job: &JobHandle, outcome: &Result<T, Failed>, tells_errors: bool) {
    #[cfg(feature = "tracing")]
    match outcome {
        Ok(_) => {
            tracing::debug!(messaging.message.id = %job.name().escape_ascii(), "the job is done");
        }
        Err(failed) => {
            let words = tells_errors.then(|| failed.words());
            let error = words.as_deref().map(|words| tracing::field::display(Words(words)));
            tracing::warn!(
                messaging.message.id = %job.name().escape_ascii(),
                outcome = failed.kind(),
                error,
                "the job's handler failed"
            );
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (job, outcome, tells_errors);
}

/// A job was running when processes of its workers ended, and is run once more or no more.
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) fn crashed(job: &Assignment, crashes: u32, is_run: bool) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        messaging.system = SYSTEM,
        messaging.destination.name = %Line(&job.function),
        messaging.message.id = %Line(&job.handle),
        crashes,
        is_run,
        "the job was running when its workers ended"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (job, crashes, is_run);
}
