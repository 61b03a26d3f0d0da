//! The public types may be sent to other threads, and shared with them.

use std::vec::IntoIter;

use crate::{blocking, protocol::*, *};

fn is_shareable<T: Send + Sync + 'static>() {}

/// An `async fn` with `&self` of a struct that has a client can only be spawned if the client is `Sync`.
#[test]
fn every_public_type_is_send_and_sync() {
    type Bodies = IntoIter<Vec<u8>>;
    is_shareable::<(Client, Producer, Receipt, Worker, WorkerHandle, JobContext, TestJob)>();
    is_shareable::<(CallMany<'_, IntoIter<Delete>>, PutMany<'_, Bodies>)>();
    is_shareable::<(
        ReserveStream<'_>,
        JobList<'_>,
        blocking::JobList<'_>,
        JobListStream<'_>,
        EventStream<WorkerEvent>,
        EventStream<ProducerEvent>,
    )>();
    is_shareable::<(blocking::Client, blocking::Producer, blocking::Receipt, blocking::Worker)>();
    is_shareable::<(blocking::JobContext, blocking::TestJob, blocking::PutMany<'_, Bodies>)>();
    is_shareable::<(Address, Servers, ConnectOptions, ProducerOptions, WorkerOptions, Retries)>();
    is_shareable::<(Error, Metrics, Job, JobStats, TubeStats, ServerStats, Inserted, Reserved)>();
    is_shareable::<(ProducerReport, ProducerEvent, WorkerReport, WorkerEvent, Decision)>();
    is_shareable::<(
        Session,
        WorkerSlot,
        Action,
        ReservationChange,
        Response,
        AnyCommand,
        RawCommand,
    )>();
}
