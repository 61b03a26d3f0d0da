//! What this crate tells `tracing`: spans for connections and requests, and events for what changes, with the names that
//! OpenTelemetry has for messaging. Never a body, at most its length, and nothing that a server wrote.
//!
//! Without the feature `tracing` all of it is nothing.

use queue_core::Span;
#[cfg(feature = "tracing")]
use queue_core::{Line, Words};

#[cfg(feature = "tracing")]
use crate::protocol::Action;
use crate::{
    Address, Delivery, Error, WorkerEventKind,
    protocol::{Request, client::Ask},
};

#[cfg(feature = "tracing")]
const SYSTEM: &str = "adf_queue";

/// A call.
pub(crate) fn call(address: &Address, ask: &Ask) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::debug_span!(
        "adf_queue_request",
        otel.kind = "client",
        messaging.system = SYSTEM,
        messaging.operation.name = ask.action().map(Action::name),
        messaging.destination.name = ask.queue().map(|queue| tracing::field::display(Line(queue))),
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = (address, ask);
        Span::none()
    }
}

/// A call has failed.
pub(crate) fn failed(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        messaging.system = SYSTEM,
        messaging.operation.name = error.action().map(Action::name),
        "error.type" = error.kind().name(),
        fate = ?error.fate(),
        request_id = error.request_id().map(tracing::field::display),
        "the request failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

/// A pull over HTTP is sent. Whatever becomes of it, its message can be found by the id.
pub(crate) fn pulling(address: &Address, pull: &Request) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        messaging.system = SYSTEM,
        messaging.destination.name = %Line(pull.queue()),
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
        request_id = %pull.id(),
        "pulling over HTTP"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (address, pull);
}

/// Nobody waits any more for a pull over HTTP that the server has: the message that it takes is found only by the id.
pub(crate) fn forsaken(pull: &Request) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        messaging.system = SYSTEM,
        messaging.destination.name = %Line(pull.queue()),
        request_id = %pull.id(),
        "a pull over HTTP was given up: what it takes has to be recovered by its request id"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = pull;
}

queue_core::trace_connections!("adf_queue_connect", SYSTEM);

/// Something happened to a worker. What handlers say is logged if that is asked for: it may quote the message.
pub(crate) fn worker(address: &Address, what: &WorkerEventKind, logs_errors: bool) {
    #[cfg(feature = "tracing")]
    match what {
        WorkerEventKind::Failed { queue, message, error } => tracing::warn!(
            messaging.system = SYSTEM,
            messaging.destination.name = %Line(queue),
            server.address = %address.endpoint().host(),
            messaging.message.id = message.get(),
            error = logs_errors.then(|| tracing::field::display(Words(error))),
            "the handler failed"
        ),
        WorkerEventKind::Poisoned { queue, message, duplications } => tracing::warn!(
            messaging.system = SYSTEM,
            messaging.destination.name = %Line(queue),
            server.address = %address.endpoint().host(),
            messaging.message.id = message.get(),
            duplications,
            "the message was delivered too often"
        ),
        WorkerEventKind::Refused { queue, error, pause } => tracing::warn!(
            messaging.system = SYSTEM,
            messaging.destination.name = %Line(queue),
            server.address = %address.endpoint().host(),
            "error.type" = error.kind().name(),
            pause_ms = pause.as_millis() as u64,
            "the server refused what the worker asks"
        ),
        WorkerEventKind::Settled { queue, message, fate } => tracing::debug!(
            messaging.system = SYSTEM,
            messaging.destination.name = %Line(queue),
            server.address = %address.endpoint().host(),
            messaging.message.id = message.get(),
            fate = fate.word(),
            "the message has ended"
        ),
        // The connection tells of itself.
        WorkerEventKind::Connected
        | WorkerEventKind::Disconnected(_)
        | WorkerEventKind::Started { .. } => {}
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (address, what, logs_errors);
}

/// A message that a handler runs with.
pub(crate) fn job(address: &Address, delivery: &Delivery) -> Span {
    #[cfg(feature = "tracing")]
    return Span::new(tracing::info_span!(
        "adf_queue_message",
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "process",
        messaging.destination.name = %Line(delivery.queue()),
        messaging.message.id = delivery.message_id().get(),
        messaging.message.body.size = delivery.body().len(),
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port(),
    ));
    #[cfg(not(feature = "tracing"))]
    {
        let _ = (address, delivery);
        Span::none()
    }
}
