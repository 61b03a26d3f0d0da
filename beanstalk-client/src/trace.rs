//! `tracing` output of this crate: spans for connections, commands and jobs, and events for changes, with
//! OpenTelemetry's names for messaging. Bodies are never logged, only their length; text from servers is never logged,
//! and text from handlers only with `WorkerOptions::log_errors`.
//!
//! Without the feature `tracing` everything here is a no-op.

mod events;

use std::borrow::Cow;

use queue_core::{Facts, Measures, Observation, Operation};

#[cfg(feature = "tracing")]
use crate::ErrorKind;
use crate::protocol::ClientSession;
use crate::{
    Address, ConnectOptions, Error, Inserted, JobRef, TubeName,
    protocol::{Command, Effect, Put, ReserveWithTimeout, Response, Session},
};

pub(crate) use self::events::{JobReporter, worker};

/// The target for filters.
#[cfg(feature = "tracing")]
const TARGET: &str = "beanstalk_client";
const SYSTEM: &str = "beanstalkd";

queue_core::trace_connections!("beanstalk_connect", TARGET, SYSTEM);

/// OpenTelemetry's operation type of a command, if it has one.
fn operation_type(verb: &str) -> Option<&'static str> {
    match verb {
        "put" => Some("send"),
        "process" => Some("process"),
        "reserve" | "reserve-with-timeout" | "reserve-job" => Some("receive"),
        "delete" | "release" | "bury" => Some("settle"),
        _ => None,
    }
}

fn facts<'a>(
    operation: &'static str,
    tube: Option<Cow<'a, str>>,
    server: Option<&'a Address>,
) -> Facts<'a> {
    Facts {
        system: SYSTEM,
        operation,
        kind: operation_type(operation),
        destination: tube,
        server: server.map(|server| server.endpoint().into()),
    }
}

/// A command.
pub(crate) fn command<C: Command>(client: &ClientSession, command: &C) -> Operation {
    let (server, session) = (&client.options.server, &client.session);
    queue_core::operation!(
        DEBUG,
        TARGET,
        "beanstalk_command",
        "client",
        &server.measures,
        facts(
            command.name(),
            tube(session, command.effect(), command.job()),
            Some(&server.address)
        ),
        messaging.message.id = command.job().map(|job| tracing::field::display(job.id)),
        messaging.message.body.size = tracing::field::Empty,
    )
}

/// The commands of a pipeline.
pub(crate) fn pipeline<C: Command>(client: &ClientSession) -> Operation {
    let (server, session) = (&client.options.server, &client.session);
    let effect = if C::NAME == "put" { Effect::Put } else { Effect::None };
    queue_core::operation!(
        DEBUG,
        TARGET,
        "beanstalk_pipeline",
        "client",
        &server.measures,
        facts(C::NAME, tube(session, effect, None), Some(&server.address)),
        messaging.batch.message_count = tracing::field::Empty,
    )
}

/// The tube that a command concerns, if known.
fn tube(session: &Session, effect: Effect, job: Option<JobRef>) -> Option<Cow<'_, str>> {
    if let Some(job) = job {
        return session.tube_of(job).map(|tube| tube.as_str().into());
    }
    match (effect, session.watched_tubes()) {
        (Effect::Put, _) => Some(session.used_tube().as_str().into()),
        (Effect::Use(tube) | Effect::Watch(tube) | Effect::Ignore(tube), _) => {
            Some(tube.as_str().to_owned().into())
        }
        (Effect::Reserve, [only]) => Some(only.as_str().into()),
        _ => None,
    }
}

/// Records the server's answer to a command.
pub(crate) fn reply(operation: &Operation, response: &Response) {
    match response {
        Response::Inserted(id) | Response::Buried(Some(id)) => operation.is_about(id),
        Response::Reserved(job) => {
            operation.is_about(job.id);
            operation.has_size(job.body.len());
            operation.delivered(1);
        }
        Response::Found(job) => {
            operation.is_about(job.id);
            operation.has_size(job.body.len());
        }
        _ => {}
    }
}

/// Records the end of a command, within its span if it has one.
pub(crate) fn ended<T>(operation: &mut Operation, outcome: &Result<T, Error>) {
    operation.concluded(failure(outcome));
}

/// Records a failed call.
pub(crate) fn failed(address: &Address, verb: &'static str, error: &Error) {
    #[cfg(feature = "tracing")]
    {
        tracing::debug!(
            target: TARGET,
            {
                messaging.system = SYSTEM,
                messaging.operation.name = error.command().unwrap_or(verb),
                server.address = %address.endpoint().host(),
                server.port = address.endpoint().port().map(i64::from),
                "error.type" = error.kind().name(),
                fate = ?error.fate(),
            },
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

/// A put of a producer, which may go to any of its servers.
pub(crate) fn put<B: AsRef<[u8]>>(
    measures: &Measures,
    servers: &[Address],
    tube: &TubeName,
    put: &Put<B>,
) -> Operation {
    #[cfg(not(feature = "tracing"))]
    let _ = put;
    queue_core::operation!(
        DEBUG,
        TARGET,
        "beanstalk_put",
        "client",
        measures,
        facts("put", Some(tube.as_str().into()), only(servers)),
        messaging.message.id = tracing::field::Empty,
        messaging.message.body.size = put.body().as_ref().len() as i64,
    )
}

pub(crate) fn puts(measures: &Measures, servers: &[Address], tube: &TubeName) -> Operation {
    queue_core::operation!(
        DEBUG,
        TARGET,
        "beanstalk_put_many",
        "client",
        measures,
        facts("put", Some(tube.as_str().into()), only(servers)),
        messaging.batch.message_count = tracing::field::Empty,
    )
}

/// The server, if there is only one.
fn only(servers: &[Address]) -> Option<&Address> {
    match servers {
        [only] => Some(only),
        _ => None,
    }
}

/// Records the outcome of a producer's put, within its span if it has one.
pub(crate) fn inserted(operation: &mut Operation, outcome: &Result<Inserted, Error>) {
    match outcome {
        Ok(inserted) => operation.is_about(inserted.id()),
        Err(error) => operation.run(|| put_failed(error)),
    }
    ended(operation, outcome);
}

/// The same for a put that was not accepted.
pub(crate) fn refused<T>(operation: &mut Operation, error: Error) -> Result<T, Error> {
    operation.run(|| put_failed(&error));
    let outcome = Err(error);
    ended(operation, &outcome);
    outcome
}

/// Records a producer's failed put.
fn put_failed(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        target: TARGET,
        {
            messaging.system = SYSTEM,
            messaging.operation.name = "put",
            "error.type" = error.kind().name(),
            fate = ?error.fate(),
        },
        "the put failed"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

/// Reports the requests of a worker to one server: reserves, and the last commands of jobs.
#[derive(Debug)]
pub(crate) struct RequestReporter {
    measures: Measures,
    server: Option<Address>,
}

impl RequestReporter {
    pub(crate) fn new(server: Option<&ConnectOptions>) -> Self {
        let measures = server.map(|server| server.server.measures.clone()).unwrap_or_default();
        RequestReporter { measures, server: server.map(|server| server.address().clone()) }
    }

    /// Starts the operation for the last command of a job; `None` without an observer.
    pub(crate) fn settles<C: Command>(
        &self,
        command: &C,
        tube: Option<&TubeName>,
    ) -> Option<Box<Operation>> {
        let operation = queue_core::operation!(
            DEBUG,
            TARGET,
            "beanstalk_command",
            "client",
            &self.measures,
            facts(command.name(), tube.map(|tube| tube.as_str().into()), self.server.as_ref()),
            messaging.message.id = command.job().map(|job| tracing::field::display(job.id)),
            messaging.message.body.size = tracing::field::Empty,
        );
        operation.is_reported().then(|| Box::new(operation))
    }

    /// As [`Self::settles`], for a reserve.
    pub(crate) fn reserves(
        &self,
        command: &ReserveWithTimeout,
        tube: Option<&TubeName>,
    ) -> Option<Box<Operation>> {
        let operation = queue_core::operation!(
            root DEBUG,
            TARGET,
            "beanstalk_command",
            "client",
            &self.measures,
            facts(command.name(), tube.map(|tube| tube.as_str().into()), self.server.as_ref()),
            messaging.message.id = tracing::field::Empty,
            messaging.message.body.size = tracing::field::Empty,
        );
        operation.is_reported().then(|| Box::new(operation))
    }
}

/// The connection ended before a worker's command was answered.
pub(crate) fn broken_off(operation: Operation, error: &Error) -> Observation {
    Observation::new(operation, Some((error.kind().name(), error.fate())))
}

/// The answer to a worker's reserve. A job counts as consumed when its handler starts.
pub(crate) fn reserved(operation: Operation, response: &Response) -> Observation {
    match response {
        Response::Reserved(job) => {
            Observation::new(operation, None).about(job.id, Some(job.body.len()))
        }
        Response::TimedOut | Response::DeadlineSoon => Observation::new(operation, None),
        other => refusal(operation, other),
    }
}

/// The answer to the last command of a worker's job.
pub(crate) fn settled(operation: Operation, response: &Response) -> Observation {
    match response {
        Response::Deleted | Response::Released | Response::Buried(_) => {
            Observation::new(operation, None)
        }
        other => refusal(operation, other),
    }
}

fn refusal(operation: Operation, response: &Response) -> Observation {
    let error = response.clone().refuse();
    Observation::new(operation, Some((error.kind().name(), error.fate())))
}
