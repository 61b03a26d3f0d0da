//! The async producer: many callers share one pipelined connection to each server.

mod call;
mod driver;
mod many;
mod receipt;

use std::{future::poll_fn, sync::Arc, time::Duration};

use queue_core::{Operation, now};

use self::call::PutCall;
pub use self::{many::PutMany, receipt::Receipt};
use crate::{
    ConnectionState, Delivery, Error, Inserted, ProducerOptions, ProducerReport, PutOptions,
    Result, TubeName,
    produce::shared::SharedOutbox,
    producer::producer,
    protocol::{
        Put,
        producer::{Outbox, Policy, Probes, full},
    },
    trace,
};

/// Puts jobs for any number of callers over one connection to each server.
///
/// Clones are cheap and share everything. Puts made at the same time go out in one write, and answers come back in
/// order, so throughput does not depend on the round trip. For each server, a task on the runtime that the producer was
/// created on moves the bytes, connects when needed, and reconnects after a loss.
///
/// # The fate of a put
///
/// A put is *accepted* once there is room for it in the queue ([`ProducerOptions::max_jobs`],
/// [`max_bytes`](ProducerOptions::max_bytes)). From then on it is carried out whether or not its caller waits, until it
/// is answered or times out ([`ProducerOptions::timeout`]):
///
/// | what happens | what the producer does |
/// |---|---|
/// | the connection is lost, or cannot be made, before the put's last byte was sent | sends it again ([`retries`](ProducerOptions::retries)) |
/// | the connection is lost after that, before the answer | depending on [`Delivery`], fails with [`Fate::Unknown`](crate::Fate::Unknown), or sends it again |
/// | the server is draining or out of memory | another server takes it; the only server's answer is the put's |
/// | the body is larger than the server's `max-job-size` | fails at once; nothing is sent |
/// | its time expires | fails with [`Fate::NotSent`](crate::Fate::NotSent) if no byte was sent, otherwise with [`Fate::Unknown`](crate::Fate::Unknown) |
///
/// Sequential puts of one caller reach the server in that order. Puts that were resent, or moved to another server, may
/// arrive after later ones.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::beanstalkd::Server::start()?;
/// # let address = server.address();
/// use beanstalk_client::{Producer, PutOptions};
///
/// let producer = Producer::connect(address).await?; // or several: "one:11300,two:11300"
/// let mails: Vec<_> = (0..10)
///     .map(|n| {
///         let producer = producer.clone();
///         tokio::spawn(async move {
///             producer.put("mail", format!("mail {n}"), PutOptions::default()).await
///         })
///     })
///     .collect();
/// for mail in mails {
///     let _ = mail.await??.id();
/// }
/// let report = producer.close().await;
/// assert_eq!(report.inserted, 10);
/// # Ok(())
/// # }
/// ```
///
/// # The end
///
/// [`close`](Self::close) waits for the answers to all accepted puts. If the last clone is dropped instead, the tasks
/// do the same in the background: accepted puts are still sent, within their timeouts, for as long as the runtime runs.
/// Shutting down the runtime ends them at once; use `close` before that.
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
    policy: Policy,
}

/// Shared by the clones of a producer. Dropping the last one lets the drivers end.
struct Handle {
    shared: Arc<SharedOutbox>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(Outbox::close);
    }
}

impl Producer {
    /// Makes a producer and connects it: to `"127.0.0.1:11300"`, to `"one:11300,two:11300"`, to
    /// [`Servers`](crate::Servers), or by [`ProducerOptions`].
    ///
    /// With several servers, at least one must be reachable.
    ///
    /// # Errors
    ///
    /// `Connect`, `Timeout(Connect)` or `Tls` when no server can be reached; `InvalidInput` for an invalid address.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes connections already made.
    pub async fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let producer = Self::new(options)?;
        let shared = &producer.handle.shared;
        shared.with(Outbox::want_connections);
        poll_fn(|cx| shared.with(|outbox| outbox.poll_connected(cx.waker()))).await?;
        Ok(producer)
    }

    /// Makes a producer that connects when the first job is put.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, and outside of a tokio runtime.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?.checked()?;
        let runtime = queue_core::runtime("producer")?;
        let shared = Arc::new(SharedOutbox::new(&options, Probes::InBackground));
        for (server, to) in options.servers.options().iter().enumerate() {
            driver::spawn(&runtime, &shared, server, to);
        }
        let policy = Policy::new(&options);
        Ok(Producer { handle: Arc::new(Handle { shared }), policy })
    }

    /// Puts a job and waits for the server's answer.
    ///
    /// Waits for room while the queue is full. The tube is a [`TubeName`], a reference to one, or text; text is
    /// validated and stored anew on each call.
    ///
    /// # Errors
    ///
    /// See [the fate of a put](Self#the-fate-of-a-put); [`Error::fate`] says whether the job may exist. `Closed` after
    /// [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// A put that was never polled has sent nothing, and one still waiting for room never will. Dropping an accepted
    /// put discards only the answer: the job is still put.
    pub async fn put<T>(
        &self,
        tube: T,
        body: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Inserted>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let (tube, put) = (tube.try_into()?, Put::new(body, options)?);
        let mut operation = self.handle.shared.put(&tube, &put);
        let mut call = PutCall::new(&self.handle.shared, &self.policy);
        let outcome = poll_fn(|cx| operation.run(|| call.poll_answer(&tube, &put, cx))).await;
        trace::inserted(&mut operation, &outcome);
        outcome
    }

    /// Queues a job once there is room, without waiting for the server's answer. The [`Receipt`] returns the answer.
    ///
    /// This way, one task can have many puts in flight.
    ///
    /// # Errors
    ///
    /// The errors of [`put`](Self::put) that can occur before the job is queued.
    ///
    /// # Cancel safety
    ///
    /// A dropped call has queued nothing.
    pub async fn enqueue<T>(
        &self,
        tube: T,
        body: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let (tube, put) = (tube.try_into()?, Put::new(body, options)?);
        let mut operation = self.handle.shared.put(&tube, &put);
        let mut call = PutCall::new(&self.handle.shared, &self.policy);
        match poll_fn(|cx| operation.run(|| call.poll_room(&tube, &put, cx))).await {
            Ok(()) => Ok(self.receipt(call, operation)),
            Err(error) => trace::refused(&mut operation, error),
        }
    }

    /// Queues a job without waiting for anything; fails with the kind `QueueFull` if there is no room.
    ///
    /// # Errors
    ///
    /// `QueueFull`, and as [`enqueue`](Self::enqueue).
    pub fn try_put<T>(
        &self,
        tube: T,
        body: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let (tube, put) = (tube.try_into()?, Put::new(body, options)?);
        let mut operation = self.handle.shared.put(&tube, &put);
        let mut call = PutCall::new(&self.handle.shared, &self.policy);
        match call.try_enter(&tube, &put) {
            Ok(true) => Ok(self.receipt(call, operation)),
            Ok(false) => trace::refused(&mut operation, full()),
            Err(error) => trace::refused(&mut operation, error),
        }
    }

    fn receipt(&self, call: PutCall<'_>, operation: Operation) -> Receipt {
        Receipt::new(self.handle.shared.clone(), call.take_slot(), operation)
    }

    /// Asks whether jobs can be put now: waits for any answer of a server, over the connection that is there, or over a
    /// new one. With several servers, the first answer is enough. For a readiness probe: the [state](Self::state) of an
    /// idle connection says nothing about its server.
    ///
    /// It ends within the reply timeout, or that of connecting.
    ///
    /// # Errors
    ///
    /// Why the server does not answer: `Connect`, `Tls`, `Timeout` or `ConnectionLost`; `Closed` after
    /// [`close`](Self::close).
    ///
    /// # Cancel safety
    ///
    /// Dropping it only ends the wait.
    pub async fn check(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let check = shared.with(|outbox| outbox.check(now()))?;
        poll_fn(|cx| shared.with(|outbox| outbox.poll_check(&check, cx.waker()))).await
    }

    /// Waits until every put accepted so far is answered or has timed out.
    ///
    /// # Cancel safety
    ///
    /// Dropping it only ends the wait.
    pub async fn flush(&self) {
        let shared = &self.handle.shared;
        let mark = shared.with(Outbox::mark);
        poll_fn(|cx| shared.with(|outbox| outbox.poll_passed(mark, cx.waker()))).await;
    }

    /// Accepts no further put from any clone, waits until every accepted one is answered or has timed out, closes the
    /// connections, and returns a report.
    ///
    /// # Cancel safety
    ///
    /// The producer is closed in any case; calling it again continues to wait.
    pub async fn close(&self) -> ProducerReport {
        let shared = &self.handle.shared;
        shared.with(Outbox::close);
        poll_fn(|cx| shared.with(|outbox| outbox.poll_closed(cx.waker()))).await
    }

    /// The producer's counters so far and the state of its servers.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        self.handle.shared.with(|outbox| outbox.report())
    }

    /// The state of its connection; the best one if it has several. `Idle` means that there is nothing to send, not that
    /// the server is there: see [`check`](Self::check).
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.handle.shared.with(|outbox| outbox.state())
    }
}

producer!();
