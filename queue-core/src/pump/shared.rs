//! A role shared by many callers, and the task that moves its bytes.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use tokio::runtime::Handle;

use crate::{Error, Io, Pulse, Role, Wire, lock, sync::Mutex};

/// The current runtime, on which `what`, such as a client, runs its tasks.
///
/// # Errors
///
/// `InvalidInput` outside of a runtime.
pub fn runtime(what: &str) -> Result<Handle, Error> {
    Handle::try_current().map_err(|error| {
        Error::invalid(format!("the async {what} needs tokio's runtime")).with_source(error)
    })
}

/// A role that many callers change under a short lock, while a [`Driver`] moves its bytes. The wire is not under the
/// lock.
#[derive(Debug)]
pub struct Shared<R>(Mutex<SharedState<R>>);

#[derive(Debug)]
struct SharedState<R> {
    role: R,
    /// The waker of the task, while it sleeps.
    driver: Option<Waker>,
}

impl<R: Role> Shared<R> {
    /// Shares a role.
    pub fn new(role: R) -> Arc<Self> {
        Arc::new(Shared(Mutex::new(SharedState { role, driver: None })))
    }

    /// Changes the role. `step` also returns whether its task has to act on that; the task is woken outside the lock.
    pub fn with<T>(&self, step: impl FnOnce(&mut R) -> (T, bool)) -> T {
        let mut inner = lock(&self.0);
        let (outcome, wakes) = step(&mut inner.role);
        let driver = if wakes { inner.driver.take() } else { None };
        drop(inner);
        driver.into_iter().for_each(Waker::wake);
        outcome
    }

    /// As [`Serve::exchange`], for a role with more output than bytes: jobs for handlers, events for observers. After
    /// each exchange `collect` takes that output under the lock, and `deliver` gets it outside of the lock. It may
    /// change the role, which is then asked at once for more output, and for an exchange before anything is written, so
    /// that the results go out with the rest. A role has to bound its output between two exchanges.
    pub fn serve<T>(
        &self,
        task: &Waker,
        io: &mut Io<R::Failure>,
        now: Instant,
        mut collect: impl FnMut(&mut R) -> Option<T>,
        mut deliver: impl FnMut(T),
    ) -> Pulse {
        let mut inner = lock(&self.0);
        // A running task needs no wake.
        let mut driver = inner.driver.take();
        let mut pulse = inner.role.exchange(io, now);
        let mut left = collect(&mut inner.role);
        while left.is_some() {
            while let Some(taken) = left {
                drop(inner);
                io.release();
                deliver(taken);
                inner = lock(&self.0);
                left = collect(&mut inner.role);
            }
            pulse = inner.role.exchange(io, crate::now());
            left = collect(&mut inner.role);
        }
        match &mut driver {
            Some(driver) => driver.clone_from(task),
            none => *none = Some(task.clone()),
        }
        inner.driver = driver;
        pulse
    }
}

/// The subject of a [`Driver`]: a [`Shared`] role, or one of several that share a state under its own lock.
pub trait Serve {
    /// The error of a failure to connect.
    type Failure;

    /// As [`Role::exchange`], under the lock. Stores the task's waker under the same lock that showed nothing more to
    /// do.
    fn exchange(&self, task: &Waker, io: &mut Io<Self::Failure>, now: Instant) -> Pulse;

    /// Whether several others may change the role soon without having been woken by it, such as the handlers of running
    /// jobs.
    fn has_several(&self) -> bool {
        false
    }
}

impl<R: Role> Serve for Arc<Shared<R>> {
    type Failure = R::Failure;

    fn exchange(&self, task: &Waker, io: &mut Io<R::Failure>, now: Instant) -> Pulse {
        self.serve(task, io, now, |_| None::<()>, |()| {})
    }
}

/// The role as seen by its task.
struct Served<'a, S> {
    shared: &'a S,
    task: &'a Waker,
    woken: usize,
}

impl<S: Serve> Role for Served<'_, S> {
    type Failure = S::Failure;

    fn exchange(&mut self, io: &mut Io<S::Failure>, now: Instant) -> Pulse {
        let pulse = self.shared.exchange(self.task, io, now);
        self.woken += io.wake.len();
        pulse
    }
}

/// The task of a shared role; it ends with the role. If it is dropped earlier, it notifies the role in a last exchange
/// ([`End::Abandoned`](crate::End::Abandoned)) and wakes its callers.
#[derive(Debug)]
pub struct Driver<S: Serve> {
    shared: S,
    wire: Wire<S::Failure>,
    /// Whether others should have their turn before the next exchange.
    owes_turn: bool,
    is_over: bool,
}

impl<S: Serve> Driver<S> {
    /// Moves the bytes of `shared` over `wire`.
    #[must_use]
    pub fn new(shared: S, wire: Wire<S::Failure>) -> Self {
        Driver { shared, wire, owes_turn: false, is_over: false }
    }
}

impl<S: Serve + Send + 'static> Driver<S>
where
    S::Failure: Send,
{
    /// Starts it on the current runtime, where `what`, such as a client, lives. Without a runtime it is dropped, which
    /// notifies waiting callers.
    ///
    /// # Errors
    ///
    /// As [`runtime`].
    pub fn start(self, what: &str) -> Result<(), Error> {
        runtime(what)?.spawn(self);
        Ok(())
    }
}

impl<S: Serve> Unpin for Driver<S> {}

impl<S: Serve> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Driver { shared, wire, owes_turn, is_over } = &mut *self;
        let task = cx.waker();
        if std::mem::take(owes_turn) {
            // Most likely one of them has woken this task, which a runtime with several threads then prefers to the others.
            // One turn later, what all of them want goes out in one write.
            task.wake_by_ref();
            return Poll::Pending;
        }
        let task = task.clone();
        let mut role = Served { shared, task: &task, woken: 0 };
        let polled = wire.poll(cx, &mut role, |_| None::<()>).map(drop);
        *owes_turn = role.woken > 1 || shared.has_several();
        *is_over = polled.is_ready();
        polled
    }
}

impl<S: Serve> Drop for Driver<S> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut role = Served { shared: &self.shared, task: Waker::noop(), woken: 0 };
            self.wire.abandon(&mut role);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        future::poll_fn,
        io, mem,
        net::{SocketAddr, TcpListener},
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        thread::{self, JoinHandle},
    };

    use bytes::BytesMut;
    use tokio::{
        net::TcpStream,
        runtime::Builder,
        task::{JoinSet, yield_now},
    };

    use super::*;
    use crate::proof::Woken;

    /// Callers ask with a byte each; each byte that arrives answers one of them.
    #[derive(Debug, Default)]
    struct Questions {
        unsent: usize,
        waiting: VecDeque<(Arc<AtomicBool>, Waker)>,
        /// How many went out together.
        sent: Vec<usize>,
    }

    impl Role for Questions {
        type Failure = Error;

        fn exchange(&mut self, io: &mut Io<Error>, _now: Instant) -> Pulse {
            let answers = io.data().len();
            io.skip(answers);
            for (is_answered, waker) in self.waiting.drain(..answers) {
                is_answered.store(true, Relaxed);
                io.wake.push(waker);
            }
            let unsent = mem::take(&mut self.unsent);
            if unsent > 0 {
                self.sent.push(unsent);
                io.queue(&mut BytesMut::from(&vec![b'?'; unsent][..]));
            }
            Pulse::Go(None)
        }
    }

    async fn ask(shared: &Shared<Questions>) {
        let is_answered = Arc::new(AtomicBool::default());
        let mut has_asked = false;
        poll_fn(|cx| {
            if !mem::replace(&mut has_asked, true) {
                shared.with(|role| {
                    role.unsent += 1;
                    role.waiting.push_back((is_answered.clone(), cx.waker().clone()));
                    ((), true)
                });
            }
            if is_answered.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// A server that answers with what it gets, until the other side closes.
    fn echo() -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
        });
        (address, answers)
    }

    /// Counts exchanges, for one or more others.
    struct Counted(AtomicUsize, usize);

    impl Serve for Arc<Counted> {
        type Failure = Error;

        fn exchange(&self, _task: &Waker, _io: &mut Io<Error>, _now: Instant) -> Pulse {
            self.0.fetch_add(1, Relaxed);
            Pulse::Rest(None)
        }

        fn has_several(&self) -> bool {
            self.1 > 1
        }
    }

    #[test]
    fn several_tasks_run_before_an_exchange() {
        for (others, expected) in
            [(1, [(1, 0), (2, 0), (3, 0), (4, 0)]), (2, [(1, 0), (1, 1), (2, 1), (2, 2)])]
        {
            let (counted, task) = (Arc::new(Counted(0.into(), others)), Arc::new(Woken::default()));
            let wire = Wire::new(|_, _| unreachable!());
            let (mut driver, waker) = (Driver::new(counted.clone(), wire), task.clone().into());
            let seen = [(); 4].map(|()| {
                assert!(Pin::new(&mut driver).poll(&mut Context::from_waker(&waker)).is_pending());
                (counted.0.load(Relaxed), task.count())
            });
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn callers_answered_together_send_together() {
        const CALLERS: usize = 16;
        const ROUNDS: usize = 10;
        for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
            let (address, server) = echo();
            let sent = runtime.block_on(runtime.spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let shared = Shared::new(Questions::default());
                let mut callers = JoinSet::new();
                for _ in 0..CALLERS {
                    let shared = shared.clone();
                    callers.spawn(async move {
                        for _ in 0..ROUNDS {
                            ask(&shared).await;
                        }
                    });
                }
                while shared.with(|role| (role.unsent, false)) < CALLERS {
                    yield_now().await;
                }
                let wire = Wire::new(|_, _| unreachable!()).over(Box::new(stream));
                Driver::new(shared.clone(), wire).start("caller").unwrap();
                callers.join_all().await;
                shared.with(|role| (role.sent.clone(), false))
            }));
            assert_eq!(sent.unwrap(), [CALLERS; ROUNDS]);
            drop(runtime);
            server.join().unwrap();
        }
    }
}
