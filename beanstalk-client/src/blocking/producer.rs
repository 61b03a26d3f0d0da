//! The blocking producer: many callers, one pipelined connection to each server, no thread of its own.

mod call;
mod lead;
mod many;
mod receipt;
mod seat;

use std::{fmt, sync::Arc, time::Duration};

use queue_core::{Operation, blocking::Wire, now, sync::Mutex};

use self::call::accept;
pub use self::{many::PutMany, receipt::Receipt};
use crate::{
    Delivery, Error, Inserted, ProducerOptions, ProducerReport, ProducerState, PutOptions, Result,
    TubeName,
    produce::shared::SharedOutbox,
    protocol::{
        Put,
        producer::{Outbox, Policy, Probes, full, stable_hash},
    },
    trace,
};

/// Puts jobs for any number of threads over one connection to each server.
///
/// Clones are cheap and share everything. There is no thread behind it: of the callers that wait for an answer, one
/// moves the bytes of the connection for all of them, and hands that over when it has its own answer. So what many
/// threads put at the same time goes out in one write.
///
/// # The fate of a put
///
/// A put is *accepted* once there is room for it in the queue ([`ProducerOptions::max_jobs`],
/// [`max_bytes`](ProducerOptions::max_bytes)). From then on it is carried out until it is answered or its time expires
/// ([`ProducerOptions::timeout`]), by whichever calls are waiting for something:
///
/// | what happens | what the producer does |
/// |---|---|
/// | the connection is lost, or cannot be made, before the put's last byte was sent | sends it again ([`retries`](ProducerOptions::retries)) |
/// | the connection is lost after that, before the answer | depending on [`Delivery`], fails with [`Fate::Unknown`](crate::Fate::Unknown), or sends it again |
/// | the server is draining or out of memory | another server takes it; the only server's answer is the put's |
/// | the body is larger than the server's `max-job-size` | fails at once; nothing is sent |
/// | its time expires | fails with [`Fate::NotSent`](crate::Fate::NotSent) if no byte was sent, otherwise with [`Fate::Unknown`](crate::Fate::Unknown) |
///
/// Puts of one caller, one after the other, are put in that order. Puts that were sent again, or went to another
/// server, may come later than others. Name resolution is the operating system's, and keeps its own time.
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
/// [`close`](Self::close) waits for the answers to all that was accepted. Dropping the last clone does the same: it
/// takes no time unless a [`Receipt`] or a pipeline was given up before its answers had come.
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
    policy: Policy,
}

/// What the clones of a producer share. The last one to go finishes what was accepted.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What callers share.
struct Shared {
    outbox: SharedOutbox,
    /// The connection to each server; who drives it holds the lock.
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
    /// `Connect`, `Timeout(Connect)` or `Tls` when no server can be reached; `InvalidInput` for a wrong address.
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
    /// `InvalidInput` for a wrong address.
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
        let shared = Arc::new(Shared { outbox, wires });
        let policy = Policy::new(&options);
        Ok(Producer { handle: Arc::new(Handle { shared }), policy })
    }

    /// Puts a job and waits for the server's answer.
    ///
    /// Waits for room while the queue is full. The tube may be a [`TubeName`] or a reference to one, or text, which is
    /// checked anew, and stored, each time.
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
        self.enqueue(tube, body, options)?.wait()
    }

    /// Puts a job without waiting for the answer, once there is room in the queue. The [`Receipt`] gives the answer.
    ///
    /// This way, one thread can keep many puts in flight. They are written when a call waits for something: an answer,
    /// room, or a [`flush`](Self::flush). [`put_many`](Self::put_many) does all of that itself.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), as far as it has come.
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
        let (tube, put) = (tube.try_into()?, Put::new(body, options)?);
        let operation = self.handle.shared.outbox.put(&tube, &put);
        self.accept(&tube, &put, operation)
    }

    /// Puts a job without waiting for anything: fails with the kind `QueueFull` if there is no room.
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
        let policy = Policy { waits: false, ..self.policy };
        let offer = |outbox: &mut Outbox| outbox.offer(&put, &tube, &policy, deadline, now);
        match self.handle.shared.outbox.with(offer).and_then(|slot| slot.ok_or_else(full)) {
            Ok(slot) => Ok(Receipt::new(self.handle.shared.clone(), slot, operation)),
            Err(error) => trace::refused(&mut operation, error),
        }
    }

    /// Waits for room.
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

    /// Waits until every put accepted so far is answered, or its time has expired.
    pub fn flush(&self) {
        let shared = &self.handle.shared;
        let mark = shared.outbox.with(Outbox::mark);
        shared.wait(None, |outbox, waker| outbox.poll_passed(mark, waker));
    }

    /// Accepts no further put from any clone, waits until every accepted one is answered or its time has expired,
    /// closes the connections, and returns a report.
    pub fn close(&self) -> ProducerReport {
        self.handle.shared.close()
    }

    /// This producer, with another [`Delivery`] for its puts.
    #[must_use]
    pub fn delivery(&self, delivery: Delivery) -> Self {
        let policy = Policy { delivery, ..self.policy };
        Producer { handle: self.handle.clone(), policy }
    }

    /// This producer, with another timeout for its puts.
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Self {
        let policy = Policy { timeout, ..self.policy };
        Producer { handle: self.handle.clone(), policy }
    }

    /// This producer, with a key for its puts: [`Selection::ByKey`](crate::Selection::ByKey) selects the server by it.
    #[must_use]
    pub fn key(&self, key: impl AsRef<[u8]>) -> Self {
        let policy = Policy { key: Some(stable_hash(key.as_ref())), ..self.policy };
        Producer { handle: self.handle.clone(), policy }
    }

    /// A report of its work so far, and the state of its servers.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        self.handle.shared.outbox.with(|outbox| outbox.report())
    }

    /// The state of its connection; with several, the best one. A connection lost while no call was waiting is noticed
    /// by the next call.
    #[must_use]
    pub fn state(&self) -> ProducerState {
        self.handle.shared.outbox.with(|outbox| outbox.state())
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        f.debug_struct("Producer")
            .field("servers", &report.servers)
            .field("queued_jobs", &report.queued_jobs)
            .finish_non_exhaustive()
    }
}
