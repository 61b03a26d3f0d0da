//! Spans and measurements of the requests of clients.

use queue_core::{BatchOperation, Facts, Operation};

#[cfg(feature = "tracing")]
use crate::trace::TARGET;
use crate::{
    Address, Error, JobEvent,
    protocol::{PacketType, Request, client::route::Router},
    trace::{facts, failure},
};

fn facts_of<'a, R: Request>(request: &'a R, server: Option<&'a Address>) -> Facts<'a> {
    let operation = request.packet_type().name();
    let kind = is_submission(request.packet_type()).then_some("send");
    facts(operation, kind, request.function(), server)
}

fn is_submission(request: PacketType) -> bool {
    request.name().starts_with("SUBMIT_")
}

/// A request, to whichever servers it goes.
pub(crate) fn request<R: Request>(router: &Router, request: &R) -> Operation {
    queue_core::operation!(
        DEBUG,
        TARGET,
        "gearman_request",
        "client",
        router.measures(),
        facts_of(request, router.only_server()),
        messaging.message.id = tracing::field::Empty,
    )
}

pub(crate) fn pipeline<R: Request>(router: &Router, first: &R) -> Operation {
    queue_core::operation!(
        DEBUG,
        TARGET,
        "gearman_pipeline",
        "client",
        router.measures(),
        facts_of(first, router.only_server()),
        messaging.batch.message_count = tracing::field::Empty,
    )
}

/// Records the answer to one of many requests.
pub(crate) fn answered<R: Request>(
    observation: &mut BatchOperation,
    request: &R,
    outcome: &Result<R::Reply, Error>,
) {
    let failure = failure(outcome);
    match is_submission(request.packet_type()) {
        true => observation.sent(failure),
        false => observation.answered(failure.map(|(error, _)| error)),
    }
}

/// Records an event of one of many jobs.
pub(crate) fn event(observation: &mut BatchOperation, event: &Result<JobEvent, Error>) {
    match event {
        Ok(JobEvent::Created(_)) => observation.sent(None),
        Ok(_) => {}
        Err(error) => observation.answered(Some(error.kind().name())),
    }
}
