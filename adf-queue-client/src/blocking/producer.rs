//! The blocking producer.

mod pushes;
mod receipt;

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{self, TryRecvError},
    },
    time::Instant,
};

use queue_core::{
    Limit, lock, now,
    sync::{Mutex, spawn},
};

use self::pushes::{Pushes, Pushing};
pub use self::receipt::Receipt;
use super::shared_link::SharedLink;
use crate::{
    ConnectOptions, ConnectionState, Error, MessageId, ProducerOptions, ProducerReport, Push,
    QueueName, Result,
    produce::servers::{Awaits, PushServer, PushServers},
    protocol::{client::Ask, producer::attempts::PushAttempts},
};

/// Pushes messages for any number of threads over one connection to each server. Each message goes to one server,
/// selected by [`Selection`](crate::Selection).
///
/// Clones are cheap and share everything. One of the threads that wait for an answer moves the bytes of the connection
/// for all of them, and hands over to another once it has its own answer. Pushes made by many threads at the same time
/// go out in one write. A background thread exists only while pushes that no thread waits for cannot be written at
/// once, or their [`Receipt`]s were dropped, and while a failed server is tried again.
///
/// | what happens to a push | what the producer does |
/// |---|---|
/// | its server cannot be reached, or is lost before the last byte was sent | the next server has it; without one it waits, within its [timeout](ProducerOptions::timeout) |
/// | its server is lost after that, before the answer | fails with [`Fate::Unknown`](crate::Fate::Unknown), or is sent again ([`at_least_once`](ProducerOptions::at_least_once)) |
/// | there is no such queue | fails with `Refused(QueueNotFound)`, or creates it ([`create_queues`](ProducerOptions::create_queues)) |
/// | its time expires | fails with `Timeout(Total)`, and says why no server took it |
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fixtures::adf_queue::Server::start()?;
/// # let address = server.address();
/// use adf_queue_client::{ProducerOptions, blocking::Producer};
///
/// let options: ProducerOptions = address.parse()?; // or several: "one:6230,two:6230"
/// let producer = Producer::new(options.create_queues(true))?;
/// producer.rpush("/mail", "hello")?;
/// assert_eq!(producer.close().to_string(), "1 message pushed, 1 queue created");
/// # Ok(())
/// # }
/// ```
///
/// # The end
///
/// [`close`](Self::close) waits for the answers to all accepted pushes. Dropping the last clone does the same; it
/// returns at once unless a push of [`enqueue`](Self::enqueue) has no answer yet.
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// Shared by the clones of a producer. Dropping the last one finishes the accepted pushes.
struct Handle {
    shared: Arc<ProducerShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct ProducerShared {
    servers: PushServers<ProducerServer>,
    pushes: Pushes,
}

struct ProducerServer {
    link: Arc<SharedLink>,
    /// The ping of a doubtful server, in its own thread.
    attempt: Mutex<Option<mpsc::Receiver<Result<()>>>>,
}

crate::faces::producer_methods!();

impl Producer {
    /// Creates a producer that connects when the first message is pushed, from [`ProducerOptions`],
    /// [`ConnectOptions`](crate::ConnectOptions), or comma-separated addresses.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address; `Unsupported` for an HTTP transport.
    pub fn new<O>(options: O) -> Result<Self>
    where
        O: TryInto<ProducerOptions>,
        Error: From<O::Error>,
    {
        let options = options.try_into()?.checked()?;
        let pushes = Pushes::new(options.max_messages);
        let shared = Arc::new(ProducerShared { servers: PushServers::new(options), pushes });
        Ok(Producer { handle: Arc::new(Handle { shared }) })
    }

    fn push(&self, key: Option<&[u8]>, push: Push) -> Result<MessageId> {
        let shared = &self.handle.shared;
        let entered = shared.pushes.enter()?;
        let mut operation = shared.servers.operation(&push);
        let span = operation.span().clone();
        let (outcome, attempts) = span.run(|| {
            let (attempts, awaits) = shared.servers.start(push, key);
            shared.complete(Pushing { attempts, awaits })
        });
        shared.servers.pushed(&mut operation, attempts.server, &outcome);
        entered.leave(&outcome, attempts.counts);
        outcome
    }

    /// Pushes a message to the right end of a queue without waiting for the server's answer. The [`Receipt`] returns
    /// the answer. This way, one thread can have many pushes in flight. Waits for room while
    /// [`max_messages`](ProducerOptions::max_messages) are in flight.
    ///
    /// The push is carried out whether or not anybody waits. It is written at once, as far as the socket takes it; if
    /// another thread waits for an answer of this server, that one writes it next.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, `Closed` after [`close`](Self::close). Anything else is the answer.
    pub fn enqueue<Q>(&self, queue: Q, body: impl AsRef<[u8]>) -> Result<Receipt>
    where
        Q: TryInto<QueueName>,
        Error: From<Q::Error>,
    {
        let shared = &self.handle.shared;
        let push = Push::right(queue.try_into()?, body);
        let entered = shared.pushes.enter_if_room(|pushing| shared.complete(pushing))?;
        let operation = shared.servers.operation(&push);
        let (attempts, awaits) = operation.run(|| shared.servers.start(push, None));
        let is_left = match awaits {
            Awaits::Answer { server, .. } => {
                shared.servers.server(server).is_ok_and(|server| server.link.push())
            }
            Awaits::Server(..) => true,
            Awaits::Nothing(_) => false,
        };
        let number = entered.put(Pushing { attempts, awaits });
        if is_left {
            shared.help();
        }
        Ok(Receipt::new(shared.clone(), number, operation))
    }

    /// The servers, unless the producer is closed.
    fn open_servers(&self) -> Result<&PushServers<ProducerServer>> {
        self.handle.shared.pushes.check_open()?;
        Ok(&self.handle.shared.servers)
    }

    /// Waits until every push accepted so far is answered or has timed out.
    pub fn flush(&self) {
        self.handle.shared.flush();
    }

    /// Accepts no further push from any clone, waits until every accepted one is answered or has timed out, closes the
    /// connections, and returns a report.
    pub fn close(&self) -> ProducerReport {
        self.handle.shared.close()
    }

    /// The producer's counters so far.
    #[must_use]
    pub fn report(&self) -> ProducerReport {
        self.handle.shared.pushes.report()
    }

    /// The state of its connection; the best one if it has several. A connection lost while no call was waiting is
    /// noticed by the next call. `Idle` means that there is nothing to send, not that the server is there: see
    /// [`check`](Self::check).
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        let ProducerShared { servers, pushes } = &*self.handle.shared;
        servers.state(pushes.are_over())
    }
}

impl ProducerShared {
    /// Waits for the outcome of a push.
    fn complete(&self, pushing: Pushing) -> (Result<MessageId>, PushAttempts) {
        let Pushing { attempts: mut push, mut awaits } = pushing;
        loop {
            let answer = match awaits {
                Awaits::Answer { server, number, connects } => {
                    Some(self.servers.server(server).and_then(|ProducerServer { link, .. }| {
                        let answer = link.outcome(number)?;
                        if connects { link.run(push.request(), push.limit()) } else { Ok(answer) }
                    }))
                }
                Awaits::Server(at, back) => {
                    let _ = back.wait_timeout(at.saturating_duration_since(now()));
                    None
                }
                Awaits::Nothing(outcome) => return (outcome, push),
            };
            awaits = self.servers.advance(&mut push, answer, now());
        }
    }

    /// Starts a thread that finishes the pushes that no thread waits for, unless there is one.
    fn help(self: &Arc<Self>) {
        if self.pushes.wants_helper() {
            let shared = Arc::clone(self);
            let helps = move || shared.pushes.help(|pushing| shared.complete(pushing));
            if spawn("producer", helps).is_err() {
                self.pushes.has_no_helper();
            }
        }
    }

    fn flush(&self) {
        self.pushes.flush(|pushing| self.complete(pushing));
    }

    fn close(&self) -> ProducerReport {
        self.pushes.close();
        self.flush();
        self.servers.servers.iter().for_each(|server| server.link.close());
        self.pushes.report()
    }
}

impl PushServer for ProducerServer {
    fn new(options: ConnectOptions) -> Self {
        ProducerServer { link: Arc::new(SharedLink::new(options)), attempt: Mutex::default() }
    }

    fn begin(&self, ask: Ask, limit: Limit, now: Instant) -> Result<u64> {
        self.link.begin(ask, limit, now)
    }

    fn state(&self) -> ConnectionState {
        self.link.connection_state()
    }

    /// It is sent by its own thread.
    fn try_aside(&self, may_try: bool) -> Option<Result<()>> {
        let mut attempt = lock(&self.attempt);
        if let Some(started) = &*attempt {
            let outcome = started.try_recv();
            if !matches!(outcome, Err(TryRecvError::Empty)) {
                *attempt = None;
            }
            return outcome.ok();
        }
        if may_try {
            let link = self.link.clone();
            let (outcome, started) = mpsc::sync_channel(1);
            let pings = move || {
                let limit = link.options.connecting_limit();
                // The producer may be gone.
                let _ = outcome.send(link.run(Ask::Ping, limit).map(drop));
            };
            // Without room for a thread, a later push starts it.
            *attempt = spawn("connecting", pings).is_ok().then_some(started);
        }
        None
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("options", &self.handle.shared.servers.options)
            .field("report", &self.report())
            .finish_non_exhaustive()
    }
}
