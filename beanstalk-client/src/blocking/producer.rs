//! The blocking producer: many callers share one pipelined connection to each server, without its own thread.

mod call;
mod lead;
mod many;
mod receipt;

use std::{sync::Arc, time::Duration};

use queue_core::{Operation, blocking::Wire, now, sync::Mutex};

use self::call::accept;
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

/// Puts jobs for any number of threads over one connection to each server.
///
/// Clones are cheap and share everything. One of the callers that wait for an answer moves the bytes of the connection
/// for all of them, and hands over to another once it has its own answer. Puts made by many threads at the same time go
/// out in one write. A background thread exists only while puts that no caller waits for cannot be written at once,
/// because there is no connection, or the socket takes nothing more; it ends once they are written or have timed out.
///
/// # The fate of a put
///
/// A put is *accepted* once there is room for it in the queue ([`ProducerOptions::max_jobs`],
/// [`max_bytes`](ProducerOptions::max_bytes)). From then on it is carried out whether or not its caller waits, until it
/// is answered or times out ([`ProducerOptions::timeout`]). The answer to a put that nobody waits for is read by a
/// later call. If such a put fails, it is counted in the [report](Self::report), and is the event
/// [`Failed`](crate::ProducerEventKind::Failed):
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
/// arrive after later ones. Name resolution has the operating system's own time limit.
///
/// ```
/// # let server = fixtures::beanstalkd::Server::start()?;
/// # let address = server.address();
/// use beanstalk_client::{PutOptions, blocking::Producer};
///
/// let producer = Producer::connect(address)?; // or several: "one:11300,two:11300"
/// std::thread::scope(|scope| {
///     for n in 0..10 {
///         let producer = &producer;
///         scope.spawn(move || producer.put("mail", format!("mail {n}"), PutOptions::default()));
///     }
/// });
/// let report = producer.close();
/// assert_eq!(report.inserted, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The end
///
/// [`close`](Self::close) waits for the answers to all accepted puts. Dropping the last clone does the same; it returns
/// at once unless a [`Receipt`] or a pipeline was dropped before its answers had arrived.
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
    policy: Policy,
}

/// Shared by the clones of a producer. Dropping the last one finishes the accepted puts.
struct Handle {
    shared: Arc<ProducerShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct ProducerShared {
    outbox: SharedOutbox,
    /// The connection to each server; the caller that drives it holds the lock.
    wires: Vec<Mutex<Wire<Error>>>,
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
    pub fn connect<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let producer = Self::new(options)?;
        let shared = &producer.handle.shared;
        shared.outbox.with(Outbox::want_connections);
        shared.wait(None, |outbox, waker| outbox.poll_connected(waker))?;
        Ok(producer)
    }

    /// Makes a producer that connects when the first job is put.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?.checked()?;
        let wires = options
            .servers
            .options()
            .iter()
            .map(|server| Wire::to(server))
            .map(Mutex::new)
            .collect();
        let outbox = SharedOutbox::new(&options, Probes::ByPuts);
        let shared = Arc::new(ProducerShared { outbox, wires });
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
    pub fn put<T>(&self, tube: T, body: impl AsRef<[u8]>, options: PutOptions) -> Result<Inserted>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.accept_one(tube, body, options)?.wait()
    }

    /// Queues a job once there is room, without waiting for the server's answer. The [`Receipt`] returns the answer.
    ///
    /// This way, one thread can have many puts in flight. Each is written at once, as far as the socket takes it; if
    /// another caller is waiting for an answer of this server, that one writes it next.
    /// [`put_many`](Self::put_many) writes many with each system call.
    ///
    /// # Errors
    ///
    /// The errors of [`put`](Self::put) that can occur before the job is queued.
    pub fn enqueue<T>(
        &self,
        tube: T,
        body: impl AsRef<[u8]>,
        options: PutOptions,
    ) -> Result<Receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let receipt = self.accept_one(tube, body, options)?;
        self.handle.shared.push();
        Ok(receipt)
    }

    /// Queues a job without waiting for anything; fails with the kind `QueueFull` if there is no room. It is written
    /// as by [`enqueue`](Self::enqueue).
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
        let mut operation = self.handle.shared.outbox.put(&tube, &put);
        let now = now();
        let deadline = now.checked_add(self.policy.timeout);
        let offer = |outbox: &mut Outbox| outbox.offer(&put, &tube, &self.policy, deadline, now);
        match self.handle.shared.outbox.with(offer).and_then(|slot| slot.ok_or_else(full)) {
            Ok(slot) => {
                self.handle.shared.push();
                Ok(Receipt::new(self.handle.shared.clone(), slot, operation))
            }
            Err(error) => trace::refused(&mut operation, error),
        }
    }

    fn accept_one<T>(&self, tube: T, body: impl AsRef<[u8]>, options: PutOptions) -> Result<Receipt>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let (tube, put) = (tube.try_into()?, Put::new(body, options)?);
        let operation = self.handle.shared.outbox.put(&tube, &put);
        self.accept(&tube, &put, operation)
    }

    fn accept<B: AsRef<[u8]>>(
        &self,
        tube: &TubeName,
        put: &Put<B>,
        mut operation: Operation,
    ) -> Result<Receipt> {
        let shared = &self.handle.shared;
        match operation.run(|| accept(shared, &self.policy, tube, put)) {
            Ok(slot) => Ok(Receipt::new(shared.clone(), slot, operation)),
            Err(error) => trace::refused(&mut operation, error),
        }
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
    pub fn check(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let check = shared.outbox.with(|outbox| outbox.check(now()))?;
        shared.wait(None, |outbox, waker| outbox.poll_check(&check, waker))
    }

    /// Waits until every put accepted so far is answered or has timed out.
    pub fn flush(&self) {
        let shared = &self.handle.shared;
        let mark = shared.outbox.with(Outbox::mark);
        shared.wait(None, |outbox, waker| outbox.poll_passed(mark, waker));
    }

    /// Accepts no further put from any clone, waits until every accepted one is answered or has timed out, closes the
    /// connections, and returns a report.
    pub fn close(&self) -> ProducerReport {
        self.handle.shared.close()
    }

    /// The producer's counters so far and the state of its servers.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        self.handle.shared.push();
        self.handle.shared.outbox.with(|outbox| outbox.report())
    }

    /// The state of its connection; the best one if it has several. A connection lost while no call was waiting is
    /// noticed by the next call. `Idle` means that there is nothing to send, not that the server is there: see
    /// [`check`](Self::check).
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.handle.shared.outbox.with(|outbox| outbox.state())
    }
}

producer!();
