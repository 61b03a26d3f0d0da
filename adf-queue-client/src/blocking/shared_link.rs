//! One server of a blocking producer: its role, shared by threads, and the wire that one of them drives.

use std::{
    collections::BTreeMap,
    io, mem,
    sync::Arc,
    task::{Poll, Wake, Waker},
    time::Instant,
};

use queue_core::{
    ConnectionError, ConnectionState, Io, Later, Limit, Pulse, Role,
    blocking::{Drive, Parker, SharedParker, Wire},
    earliest, lock, now,
    sync::{
        Mutex,
        thread::{self, ThreadId},
    },
};

use crate::{
    ConnectOptions, Error, Result,
    protocol::client::{self, Ask, AskAnswer},
};

/// A server, and the connection to it, with the requests of any number of threads in flight.
///
/// One of the threads that wait for an answer moves the bytes for all. It hands over to another one once it has its own
/// answer, and writes then what others have begun meanwhile.
pub(super) struct SharedLink {
    /// How it connects.
    pub(super) options: ConnectOptions,
    state: Mutex<LinkState>,
    /// The thread that drives it holds the lock.
    wire: Mutex<Wire<Error>>,
}

struct LinkState {
    role: client::Link,
    driver: Option<ThreadId>,
    /// Wakes the driver while it waits for nothing but the time.
    resting: Option<Waker>,
    /// When the driver ends what is late.
    driven_until: Option<Instant>,
    /// Threads that wait for the outcomes of these tasks, one of which drives next.
    waiting: BTreeMap<u64, Arc<SharedParker>>,
    /// Where the next thread waits, with this number of others.
    parker: Arc<SharedParker>,
    parked: usize,
}

/// How many threads share a parker: they began to wait one after the other, so their answers mostly come together.
const TOGETHER: usize = 16;

/// The next action of a waiting thread.
enum Turn {
    Done(Result<AskAnswer>),
    Drive,
    Park(Arc<SharedParker>, Option<Instant>),
}

impl SharedLink {
    pub(super) fn new(options: ConnectOptions) -> Self {
        let role = client::Link::new(options.clone());
        let state = LinkState {
            role,
            driver: None,
            resting: None,
            driven_until: None,
            waiting: BTreeMap::new(),
            parker: Arc::default(),
            parked: 0,
        };
        let wire = Mutex::new(Wire::to(&options));
        SharedLink { options, state: Mutex::new(state), wire }
    }

    /// Runs a step on the state. Wakers and user code run outside of its lock.
    fn with<T>(&self, step: impl FnOnce(&mut LinkState) -> T) -> T {
        let mut state = lock(&self.state);
        let done = step(&mut state);
        let woken = mem::take(&mut state.role.woken);
        let mut later = mem::take(&mut state.role.later);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        later.run();
        done
    }

    /// Makes a request, and waits for its outcome.
    pub(super) fn run(&self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        let number = self.begin(ask, limit, now())?;
        self.outcome(number)
    }

    /// Makes a request without waiting. Nothing is sent before [`push`](Self::push) or a wait for an outcome.
    pub(super) fn begin(&self, ask: Ask, limit: Limit, now: Instant) -> Result<u64> {
        let (begun, resting) =
            self.with(|state| (state.role.begin(ask, limit, now), state.resting.take()));
        resting.into_iter().for_each(Waker::wake);
        begun
    }

    /// Waits for the outcome of this task.
    pub(super) fn outcome(&self, number: u64) -> Result<AskAnswer> {
        let outcome = self.wait(number);
        let is_left = self.with(|state| match state.waiting.first_key_value() {
            Some((_, parker)) => {
                if state.driver.is_none() {
                    parker.call_one();
                }
                false
            }
            None => state.driver.is_none() && state.role.unfinished > 0,
        });
        if is_left {
            self.push();
        }
        outcome
    }

    fn wait(&self, number: u64) -> Result<AskAnswer> {
        loop {
            match self.with(|state| state.turn(number)) {
                Turn::Done(outcome) => return outcome,
                Turn::Drive => {
                    if let Some(outcome) = self.drive(number) {
                        return outcome;
                    }
                }
                Turn::Park(parker, until) => parker.wait(until),
            }
        }
    }

    /// Moves bytes until the outcome of this task is known, or its limit has passed.
    fn drive(&self, number: u64) -> Option<Result<AskAnswer>> {
        self.as_driver(Some(number), |wire, led| {
            loop {
                // Only its own limit can end an attempt to connect. Once that has passed, the role ends the task.
                let limit = self.with(|state| state.role.limit(number)).filter(|at| *at > now());
                match wire.drive(led, limit, |led| led.outcome.take()) {
                    Drive::Done(outcome) => break Some(outcome),
                    Drive::Late => break None,
                    Drive::Rest(Some(at)) => {
                        let (parker, waker) = Parker::own();
                        if self.with(|state| state.rest(waker)) {
                            parker.wait(earliest([Some(at), limit]));
                        }
                    }
                    Drive::Rest(None) | Drive::Over => {
                        self.with(|state| state.role.leave(number));
                        break Some(Err(Error::lost(io::ErrorKind::NotConnected.into())));
                    }
                }
            }
        })
    }

    /// Writes what was begun, as far as there is a connection that takes it at once, unless another thread moves its
    /// bytes. Returns whether unwritten data is left without a writer.
    pub(super) fn push(&self) -> bool {
        if !self.with(LinkState::lead) {
            return false;
        }
        self.as_driver(None, |wire, led| {
            wire.try_push(led);
            !(wire.io().is_open() && wire.io().is_drained())
        })
    }

    /// Moves bytes as the thread that drives the link, and may wait for a task. It steps down afterwards.
    fn as_driver<T>(
        &self,
        number: Option<u64>,
        step: impl FnOnce(&mut Wire<Error>, &mut LedLink<'_>) -> T,
    ) -> T {
        let mut led = LedLink { link: self, number, outcome: None, later: Later::default() };
        let steps_down = StepDown(self);
        let mut wire = lock(&self.wire);
        let done = step(&mut wire, &mut led);
        drop(wire);
        drop(steps_down);
        led.later.run();
        done
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        self.with(|state| state.role.connection_state(now()))
    }

    /// Notifies the server, as far as possible without waiting.
    pub(super) fn close(&self) {
        self.with(|state| state.role.close());
        self.push();
    }
}

impl LinkState {
    /// Makes this thread the one that moves the bytes, unless another one does.
    fn lead(&mut self) -> bool {
        let is_free = self.driver.is_none();
        if is_free {
            self.driver = Some(thread::current().id());
        }
        is_free
    }

    fn turn(&mut self, number: u64) -> Turn {
        let limit = self.role.limit(number);
        if self.driver.is_some() && limit.is_some_and(|at| at <= now()) {
            // The driver may be connecting.
            self.role.expire(now());
        }
        self.waiting.remove(&number);
        if let Poll::Ready(outcome) = self.role.poll(number, Waker::noop()) {
            return Turn::Done(outcome);
        }
        if self.lead() {
            return Turn::Drive;
        }
        if self.driver == Some(thread::current().id()) {
            self.role.leave(number);
            let why = "a subscriber cannot wait for a push while its thread connects: use enqueue";
            return Turn::Done(Err(Error::invalid(why)));
        }
        let parker = self.parker();
        let _ = self.role.poll(number, &parker.clone().into());
        self.waiting.insert(number, parker.clone());
        // A wait with a limit costs more, and the driver ends what is late in any case, unless it is connecting.
        let is_seen = |at: &Instant| self.driven_until.is_some_and(|until| until <= *at);
        Turn::Park(parker, limit.filter(|at| !self.role.is_open() || !is_seen(at)))
    }

    fn parker(&mut self) -> Arc<SharedParker> {
        if self.parked >= TOGETHER || self.parker.is_woken() {
            (self.parker, self.parked) = (Arc::default(), 0);
        }
        self.parked += 1;
        self.parker.clone()
    }

    /// Whether the driver may wait. A request that begins meanwhile wakes it.
    fn rest(&mut self, waker: Waker) -> bool {
        let may_rest = !self.role.is_urgent;
        self.resting = may_rest.then_some(waker);
        may_rest
    }
}

/// A link as the thread that drives it sees it. What that thread waits for is polled under the same lock.
struct LedLink<'a> {
    link: &'a SharedLink,
    number: Option<u64>,
    outcome: Option<Result<AskAnswer>>,
    /// User code, which may use the link: it runs once this thread has stepped down.
    later: Later,
}

impl Role for LedLink<'_> {
    type Failure = Error;

    fn exchange(&mut self, io: &mut Io<Error>, now: Instant) -> Pulse {
        let mut state = lock(&self.link.state);
        let was_open = state.role.is_open();
        let pulse = state.role.exchange(io, now);
        state.driven_until = pulse.until();
        let is_lost = was_open && !state.role.is_open();
        // This thread may be about to connect, and no longer ends what is late: the others sleep until their limits.
        let parked = if is_lost { mem::take(&mut state.waiting) } else { BTreeMap::new() };
        if let Some(number) = self.number
            && let Poll::Ready(outcome) = state.role.poll(number, Waker::noop())
        {
            self.outcome = Some(outcome);
        }
        drop(state);
        parked.values().for_each(Wake::wake_by_ref);
        io.later.append_to(&mut self.later);
        pulse
    }
}

/// Steps down when dropped, so that another thread can take over.
struct StepDown<'a>(&'a SharedLink);

impl Drop for StepDown<'_> {
    fn drop(&mut self) {
        self.0.with(|state| {
            (state.driver, state.resting) = (None, None);
            if let Some((_, parker)) = state.waiting.first_key_value() {
                parker.call_one();
            }
        });
    }
}

impl Drop for SharedLink {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{SocketAddr, TcpStream},
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use bytes::Bytes;
    use fixtures::{
        adf_queue::Server,
        proxy::{Proxy, Toxics},
    };
    use queue_core::Deadline;

    use super::*;
    use crate::{Address, protocol::Action};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_caller_returns_in_time_while_another_reconnects() {
        let server = Server::builder().queue("/q").start().unwrap();
        let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
        let there: SocketAddr = proxy.address().to_string().parse().unwrap();
        let address: Address = proxy.address().to_string().parse().unwrap();
        let (attempts, (release, released)) = (AtomicUsize::new(0), mpsc::channel());
        let released = std::sync::Mutex::new(released);
        let options = ConnectOptions::new(address).connect_timeout(LONG).blocking_connector(
            move |_, left| {
                if attempts.fetch_add(1, Ordering::SeqCst) > 0 {
                    let released = released.lock().unwrap().recv_timeout(left.unwrap_or(LONG));
                    released.map_err(|_| io::ErrorKind::TimedOut)?;
                }
                TcpStream::connect(there)
            },
        );
        let link = &SharedLink::new(options);
        let begin = |limit: u64| {
            let limit = Limit::of(Deadline::Reply, Some(Duration::from_secs(limit)));
            link.begin(Ask::Plain(Action::Count, "/q".parse().unwrap(), Bytes::new()), limit, now())
        };
        link.outcome(begin(60).unwrap()).unwrap();

        proxy.spoil_replies(Toxics::new().silence());
        let counts = [60, 1, 2].map(|limit| begin(limit).unwrap());
        let wait_until = |is_so: fn(&LinkState) -> bool| {
            while !link.with(|state| is_so(state) || state.role.unfinished == 1) {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let [driver, callers @ ..] = counts.map(|number| {
                let caller = scope.spawn(move || link.outcome(number));
                wait_until(|state| state.driver.is_some());
                caller
            });
            wait_until(|state| state.waiting.len() == 2);
            proxy.heal();
            proxy.reset_connections();
            for caller in callers {
                caller.join().unwrap().unwrap_err();
            }
            release.send(()).unwrap();
            driver.join().unwrap().expect("it was still connecting");
        });
    }
}
