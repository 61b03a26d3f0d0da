//! `tracing` output of this crate: spans for connections and requests, and events for changes, with OpenTelemetry's
//! names for messaging. Bodies are never logged, only their length; neither is text from servers.
//!
//! Without the feature `tracing` everything here is a no-op.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use queue_core::{Facts, Instrument, Measures, Observation, Operation, one_line};
#[cfg(feature = "tracing")]
use queue_core::{OneLine, Words};

use crate::{
    Address, ConnectOptions, Delivery, Error, MessageId, Push, QueueName, WorkerEventKind,
    protocol::{
        Action, Request, Success,
        client::{Ask, AskAnswer},
    },
    work::Ended,
};

/// The target for filters.
#[cfg(feature = "tracing")]
const TARGET: &str = "adf_queue_client";
const SYSTEM: &str = "adf_queue";

/// Emits an event with these fields.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $text:literal, $($field:tt)+) => {
        tracing::event!(
            target: TARGET,
            tracing::Level::$level,
            { messaging.system = SYSTEM, $($field)+ },
            $text
        )
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($field:tt)+) => {
        ()
    };
}

queue_core::trace_connections!("adf_queue_connect", TARGET, SYSTEM);

fn facts<'a>(
    operation: &'static str,
    kind: Option<&'static str>,
    queue: Option<&'a QueueName>,
    server: Option<&'a Address>,
) -> Facts<'a> {
    Facts {
        system: SYSTEM,
        operation,
        kind,
        destination: queue.map(|queue| one_line(queue.as_str())),
        server: server.map(|server| server.endpoint().into()),
    }
}

/// OpenTelemetry's operation type of an action, if it has one.
fn operation_type(action: Action) -> Option<&'static str> {
    match action {
        Action::Lpush | Action::Rpush => Some("send"),
        Action::Pull => Some("receive"),
        Action::Delete | Action::Lcancel | Action::Rcancel => Some("settle"),
        _ => None,
    }
}

/// A call, and the message that it acts on.
pub(crate) fn call(
    measures: &Measures,
    server: &Address,
    ask: &Ask,
    message: Option<MessageId>,
) -> Operation {
    let about = || {
        let (operation, kind) = match (ask.action(), ask) {
            (Some(action), _) => (action.name(), operation_type(action)),
            (None, Ask::Ping) => ("ping", None),
            (None, _) => ("connect", None),
        };
        facts(operation, kind, ask.queue(), Some(server))
    };
    queue_core::operation!(
        DEBUG,
        TARGET,
        "adf_queue_request",
        "client",
        measures,
        about(),
        messaging.message.id = message.map(tracing::field::display),
        messaging.message.body.size = tracing::field::Empty,
    )
}

/// Starts the operation for a worker's own request, if it concerns messages: a pull, a settlement, a copy for the
/// dead-letter queue.
pub(crate) fn worker_asks(
    options: &ConnectOptions,
    ask: &Ask,
    message: Option<MessageId>,
) -> Operation {
    match ask.action().and_then(operation_type) {
        Some(_) => call(&options.measures, &options.address, ask, message),
        None => Operation::none(),
    }
}

/// Its outcome. A message counts as consumed when its handler starts.
pub(crate) fn worker_answered(
    operation: Operation,
    outcome: &Result<AskAnswer, Error>,
) -> Observation {
    let observation = Observation::new(operation, failure(outcome));
    match outcome {
        Ok(AskAnswer::Success(Success::Pushed(id))) => observation.about(id, None),
        Ok(AskAnswer::Delivery(message)) => {
            observation.about(message.message_id(), Some(message.body().len()))
        }
        _ => observation,
    }
}

/// Records the outcome of a call, within its span if it has one.
pub(crate) fn answered(operation: &mut Operation, outcome: &Result<AskAnswer, Error>) {
    match outcome {
        Ok(AskAnswer::Success(Success::Pushed(id))) => operation.is_about(id),
        Ok(AskAnswer::Success(Success::Delivered(message))) => {
            operation.is_about(message.message_id);
            operation.has_size(message.body.len());
            operation.delivered(1);
        }
        Ok(AskAnswer::Delivery(message)) => {
            operation.is_about(message.message_id());
            operation.has_size(message.body().len());
            operation.delivered(1);
        }
        _ => {}
    }
    operation.concluded(failure(outcome));
}

/// A push of a producer, which may go to any of its servers.
pub(crate) fn push(measures: &Measures, server: Option<&Address>, push: &Push) -> Operation {
    let action = push.action();
    queue_core::operation!(
        DEBUG,
        TARGET,
        "adf_queue_push",
        "client",
        measures,
        facts(action.name(), operation_type(action), Some(push.queue()), server),
        messaging.message.id = tracing::field::Empty,
        messaging.message.body.size = push.body().len() as i64,
    )
}

/// Records the outcome of a producer's push, and the server that took it, unless that was known before.
pub(crate) fn pushed(
    operation: &mut Operation,
    server: Option<&Address>,
    outcome: &Result<MessageId, Error>,
) {
    if let Some(server) = server {
        operation.at(server.endpoint());
    }
    if let Ok(id) = outcome {
        operation.is_about(id);
    }
    operation.concluded(failure(outcome));
}

pub(crate) fn pushes(options: &ConnectOptions, first: &Push) -> Operation {
    let (action, queue) = (first.action(), Some(first.queue()));
    queue_core::operation!(
        DEBUG,
        TARGET,
        "adf_queue_push_many",
        "client",
        &options.measures,
        facts(action.name(), operation_type(action), queue, Some(&options.address)),
        messaging.batch.message_count = tracing::field::Empty,
    )
}

/// Records a failed call.
pub(crate) fn failed(error: &Error) {
    event!(
        DEBUG,
        "the request failed",
        messaging.operation.name = error.action().map(Action::name),
        "error.type" = error.kind().name(),
        fate = ?error.fate(),
        request_id = error.request_id().map(tracing::field::display),
    );
}

/// Records a pull over HTTP. Whatever happens to it, its message can be found by the id.
pub(crate) fn pulling(address: &Address, pull: &Request) {
    event!(
        DEBUG,
        "pulling over HTTP",
        messaging.destination.name = %OneLine(pull.queue()),
        server.address = %address.endpoint().host(),
        server.port = address.endpoint().port().map(i64::from),
        request_id = %pull.id(),
    );
}

/// Records a pull over HTTP that is abandoned on the server: its message can be found only by the id.
pub(crate) fn forsaken(pull: &Request) {
    event!(
        WARN,
        "a pull over HTTP was abandoned: recover what it takes by its request id",
        messaging.destination.name = %OneLine(pull.queue()),
        request_id = %pull.id(),
    );
}

/// Records an event of a worker.
/// Text of handlers, which may quote the message, is recorded only with `logs_errors`.
pub(crate) fn worker(address: &Address, what: &WorkerEventKind, logs_errors: bool) {
    /// An event that concerns this queue of the server.
    macro_rules! event_of {
        ($queue:expr, $level:ident, $text:literal, $($field:tt)+) => {
            event!(
                $level,
                $text,
                messaging.destination.name = %OneLine($queue),
                server.address = %address.endpoint().host(),
                $($field)+
            )
        };
    }
    match what {
        WorkerEventKind::Poisoned { queue, message, duplications } => event_of!(
            queue,
            WARN,
            "the message was delivered too often",
            messaging.message.id = %message,
            duplications = i64::from(*duplications),
        ),
        WorkerEventKind::Refused { queue, error, pause } => event_of!(
            queue,
            WARN,
            "the server refused the worker's request",
            "error.type" = error.kind().name(),
            pause_ms = pause.as_millis() as i64,
        ),
        WorkerEventKind::GivenUp => event!(
            WARN,
            "the server is given up",
            server.address = %address.endpoint().host(),
        ),
        WorkerEventKind::DeadLettered { queue, message, reason, attempts } => event_of!(
            queue,
            WARN,
            "the message went to the dead-letter queue",
            messaging.message.id = %message,
            attempts = i64::from(*attempts),
            reason = logs_errors.then(|| tracing::field::display(Words(reason))),
        ),
        WorkerEventKind::Settled { queue, message, fate } => event_of!(
            queue,
            DEBUG,
            "the message has ended",
            messaging.message.id = %message,
            fate = fate.word(),
        ),
        // The connection is recorded separately, and a handler's failure within the span of its message.
        WorkerEventKind::Connected
        | WorkerEventKind::Disconnected(_)
        | WorkerEventKind::Failed { .. }
        | WorkerEventKind::Started { .. } => {}
    }
}

pub(crate) fn job(measures: &Measures, address: &Address, delivery: &Delivery) -> Operation {
    let about =
        |operation, kind| facts(operation, Some(kind), Some(delivery.queue()), Some(address));
    if measures.is_set() {
        measures.notify(Instrument::ConsumedMessages, 1.0, &about("pull", "receive"), None);
    }
    queue_core::operation!(
        INFO,
        TARGET,
        "adf_queue_message",
        "consumer",
        measures,
        about("process", "process"),
        messaging.message.id = %delivery.message_id(),
        messaging.message.body.size = delivery.body().len() as i64,
        messaging.adf_queue.message.delivery_attempt = i64::from(delivery.duplications()),
    )
}

/// Records the end of a handler, within the span of its message. Its message text is included only if configured, since
/// it may quote the message.
pub(crate) fn handled(
    process: &mut Operation,
    delivery: &Delivery,
    ended: &Ended,
    logs_errors: bool,
) {
    if let Some(words) = &ended.error {
        event!(
            WARN,
            "the handler failed",
            messaging.destination.name = %OneLine(delivery.queue()),
            messaging.message.id = %delivery.message_id(),
            "error.type" = ended.error_type(),
            error = logs_errors.then(|| tracing::field::display(Words(words))),
        );
    }
    process.ended(ended.error_type());
}
