//! What this crate tells `tracing`: spans for connections, commands and jobs, and events for what changes, with the names
//! that OpenTelemetry has for messaging. Never a body, at most its length; nothing that a server
//! wrote; and what a handler wrote only with `WorkerOptions::log_errors`.
//!
//! Without the feature `tracing` all of it is nothing.

use queue_core::Span;
#[cfg(feature = "tracing")]
use queue_core::Words;

use crate::{
    Address, Error, JobId,
    protocol::{Command, Response, Session},
};
#[cfg(feature = "tracing")]
use crate::{ErrorKind, TubeName, protocol::Effect};

/// OpenTelemetry's kinds of operation, where a command is of one.
#[cfg(feature = "tracing")]
fn operation_type(verb: &str) -> Option<&'static str> {
    match verb {
        "put" => Some("send"),
        "reserve" | "reserve-with-timeout" | "reserve-job" => Some("receive"),
        "delete" | "release" | "bury" => Some("settle"),
        _ => None,
    }
}

/// A command, or the first of a pair.
pub(crate) fn command<C: Command>(address: &Address, session: &Session, command: &C) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::debug_span!(
        COMMAND,
        otel.kind = "client",
        messaging.system = SYSTEM,
        messaging.operation.name = command.name(),
        "messaging.operation.type" = operation_type(command.name()),
        messaging.destination.name = tube(session, command.effect()).as_ref().map(TubeName::as_str),
        messaging.message.id = command.job().map(|job| job.id.get()),
        messaging.message.body.size = tracing::field::Empty,
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
        "error.type" = tracing::field::Empty,
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = (address, session, command);
        Span::none()
    }
}

/// The tube that a command is about, where it is one.
#[cfg(feature = "tracing")]
fn tube(session: &Session, effect: Effect) -> Option<TubeName> {
    match (effect, session.watched_tubes()) {
        (Effect::Put, _) => Some(session.used_tube().clone()),
        (Effect::Use(tube) | Effect::Watch(tube) | Effect::Ignore(tube), _) => Some(tube),
        (Effect::Reserve, [only]) => Some(only.clone()),
        _ => None,
    }
}

#[cfg(feature = "tracing")]
const COMMAND: &str = "beanstalk_command";
#[cfg(feature = "tracing")]
const SYSTEM: &str = "beanstalkd";

/// A call has failed, within the span of its command if it has one.
pub(crate) fn failed(address: &Address, verb: &'static str, error: &Error) {
    #[cfg(feature = "tracing")]
    {
        let span = tracing::Span::current();
        if span.metadata().is_some_and(|data| data.name() == COMMAND) {
            span.record("error.type", error.kind().name());
        }
        tracing::debug!(
            messaging.system = SYSTEM,
            messaging.operation.name = error.command().unwrap_or(verb),
            server.address = %address.endpoint().host(),
            server.port = address.endpoint().port(),
            "error.type" = error.kind().name(),
            fate = ?error.fate(),
            "the command failed"
        );
        if matches!(
            error.kind(),
            ErrorKind::ConnectionLost | ErrorKind::Protocol | ErrorKind::Timeout(_)
        ) {
            connection_lost(address, Some(error));
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, verb, error);
}

/// A reply, within the span of its command: which job it is about.
pub(crate) fn reply(response: &Response) {
    #[cfg(feature = "tracing")]
    {
        if tracing::level_filters::LevelFilter::current() < tracing::Level::DEBUG {
            return;
        }
        let (id, size) = match response {
            Response::Inserted(id) | Response::Buried(Some(id)) => (*id, None),
            Response::Reserved(job) | Response::Found(job) => (job.id, Some(job.body.len() as u64)),
            _ => return,
        };
        let span = tracing::Span::current();
        if span.metadata().is_some_and(|data| data.name() == COMMAND) {
            span.record("messaging.message.id", id.get());
            if let Some(size) = size {
                span.record("messaging.message.body.size", size);
            }
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = response;
}

queue_core::trace_connections!("beanstalk_connect", SYSTEM);

/// The work of a handler on a job.
pub(crate) fn job(address: &Address, job: JobId, body: usize) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::debug_span!(
        "beanstalk_job",
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "process",
        "messaging.operation.type" = "process",
        messaging.message.id = job.get(),
        messaging.message.body.size = body as u64,
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
        "error.type" = tracing::field::Empty,
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = (address, job, body);
        Span::none()
    }
}

/// What happened to a worker. What a failed handler says only where that was asked for: it may quote the job.
pub(crate) fn worker(
    address: &Address,
    slot: usize,
    what: &crate::WorkerEventKind,
    tells_errors: bool,
) {
    #[cfg(feature = "tracing")]
    {
        use crate::WorkerEventKind as Kind;

        let slot = slot as u64;
        match what {
            Kind::Connected => tracing::debug!(slot, "the slot is ready"),
            // An attempt that failed was told of by itself.
            Kind::Disconnected(error) if error.kind() == ErrorKind::ConnectionLost => {
                connection_lost(address, Some(error));
            }
            Kind::Disconnected(error) => {
                tracing::debug!(
                    slot,
                    "error.type" = error.kind().name(),
                    "the slot has no connection"
                );
            }
            Kind::ServerReplaced => {
                tracing::warn!(slot, server.address = %address.endpoint().host(), "another server is at this address");
            }
            Kind::Refused { command, reply, in_a_row, pause } => tracing::warn!(
                slot,
                messaging.operation.name = command,
                reply,
                in_a_row,
                pause_ms = pause.as_millis() as u64,
                "the server refuses what the worker asks"
            ),
            Kind::Reclaimed(job) => {
                tracing::info!(slot, messaging.message.id = job.get(), "the job is held again");
            }
            Kind::ShortTimeToRun { job, ttr } => tracing::warn!(
                slot,
                messaging.message.id = job.get(),
                ttr_s = ttr.as_secs(),
                "the job's time to run is short"
            ),
            Kind::Started(job) => {
                tracing::trace!(slot, messaging.message.id = job.get(), "the job is started");
            }
            Kind::Failed { job, error } => tracing::warn!(
                slot,
                messaging.message.id = job.get(),
                error = tells_errors.then(|| tracing::field::display(Words(error))),
                "the job's handler failed"
            ),
            Kind::Poisoned { job, .. } => tracing::warn!(
                slot,
                messaging.message.id = job.get(),
                "the job is buried without being run"
            ),
            Kind::Settled { job, fate } => tracing::debug!(
                slot,
                messaging.message.id = job.get(),
                outcome = fate.word(),
                "the job is settled"
            ),
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, slot, what, tells_errors);
}
