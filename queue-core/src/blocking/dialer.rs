//! Where the connections of a [`Wire`](super::Wire) come from.

use std::{
    sync::{Arc, mpsc},
    time::Instant,
};

use super::TimedStream;
use crate::{earliest, now, sync::spawn};

pub(super) enum Dialer<F> {
    /// In the caller's thread. Gets the index of a server, and the deadline.
    Here(Box<dyn FnMut(usize, Option<Instant>) -> Result<TimedStream, F> + Send>),
    DialThread(DialThread<F>),
}

/// Makes connections to one server, each in its own thread, which ends with the attempt.
pub(super) struct DialThread<F> {
    /// Gets the deadline.
    start: Box<dyn Fn(Option<Instant>) -> DialAttempt<F> + Send>,
    /// The attempt under way, and its deadline.
    attempt: Option<(Option<Instant>, DialAttempt<F>)>,
}

type DialAttempt<F> = mpsc::Receiver<Result<TimedStream, F>>;

impl<F> Dialer<F> {
    /// The outcome of an attempt with the deadline `by`, unless it takes longer than `at_most`: then it goes on, if it
    /// is made aside.
    pub(super) fn dial(
        &mut self,
        server: usize,
        by: Option<Instant>,
        at_most: Option<Instant>,
    ) -> Option<Result<TimedStream, F>> {
        match self {
            Dialer::Here(dial) => Some(dial(server, earliest([by, at_most]))),
            Dialer::DialThread(aside) => aside.dial(by, at_most),
        }
    }

    /// The outcome of an attempt that has outlasted an earlier call.
    pub(super) fn ended(&mut self) -> Option<Result<TimedStream, F>> {
        match self {
            Dialer::Here(_) => None,
            Dialer::DialThread(aside) => aside.ended(),
        }
    }
}

/// Makes an attempt to connect in its own thread; where there is none, in this one.
pub(super) fn aside<T: Send + 'static>(
    attempt: impl Fn() -> T + Send + Sync + 'static,
) -> mpsc::Receiver<T> {
    let (outcome, ended) = mpsc::sync_channel(1);
    let (attempt, here) = (Arc::new(attempt), outcome.clone());
    let there = Arc::clone(&attempt);
    // Its caller may be gone.
    let started = spawn("connecting", move || drop(outcome.send(there())));
    if started.is_err() {
        let _ = here.send(attempt());
    }
    ended
}

impl<F> DialThread<F> {
    pub(super) fn new(
        connect: impl Fn(Option<Instant>) -> Result<TimedStream, F> + Send + Sync + 'static,
    ) -> Self
    where
        F: Send + 'static,
    {
        let connect = Arc::new(connect);
        let start = move |by| {
            let connect = connect.clone();
            aside(move || connect(by))
        };
        DialThread { start: Box::new(start), attempt: None }
    }

    fn dial(
        &mut self,
        by: Option<Instant>,
        at_most: Option<Instant>,
    ) -> Option<Result<TimedStream, F>> {
        // An attempt with another deadline is another one.
        let same = self.attempt.take().filter(|(of, _)| *of == by);
        let attempt = same.map_or_else(|| (self.start)(by), |(_, attempt)| attempt);
        // It ends at its own deadline, and its report has to come before the role misses it.
        let outcome = match at_most {
            Some(until) => attempt.recv_timeout(until.saturating_duration_since(now())).ok(),
            None => attempt.recv().ok(),
        };
        if outcome.is_none() {
            self.attempt = Some((by, attempt));
        }
        outcome
    }

    fn ended(&mut self) -> Option<Result<TimedStream, F>> {
        let mut outcome = self.attempt.as_ref()?.1.try_recv().ok()?;
        self.attempt = None;
        // The server may have closed the connection since then.
        let is_closed = |stream: &mut TimedStream| stream.has_input() == Some(true);
        (!outcome.as_mut().is_ok_and(is_closed)).then_some(outcome)
    }
}

#[cfg(not(shuttle))]
#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        sync::Mutex,
        thread::sleep,
        time::Duration,
    };

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    /// Attempts that end when they are let go; tells how many were begun.
    fn attempts(to: &TcpListener) -> (DialThread<String>, mpsc::Sender<()>, mpsc::Receiver<()>) {
        let address = to.local_addr().unwrap();
        let ((go, gate), (begun, begins)) = (mpsc::channel(), mpsc::channel());
        let gate = Mutex::new(gate);
        let connect = move |_| {
            begun.send(()).map_err(|_| "nobody counts")?;
            gate.lock().unwrap().recv().map_err(|_| "not let go")?;
            let stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
            TimedStream::new(Box::new(stream)).map_err(|error| error.to_string())
        };
        (DialThread::new(connect), go, begins)
    }

    #[test]
    fn an_attempt_outlasts_its_call_and_a_later_one_gets_the_outcome() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut aside, go, begins) = attempts(&server);
        let by = Some(now() + Duration::from_secs(3600));
        for _ in 0..3 {
            assert!(aside.dial(by, Some(now())).is_none() && aside.ended().is_none());
        }
        go.send(()).unwrap();
        assert!(aside.dial(by, None).unwrap().is_ok());
        assert_eq!(begins.try_iter().count(), 1);
        assert!(aside.dial(by, Some(now())).is_none());
        go.send(()).unwrap();
        let outcome = std::iter::repeat_with(|| aside.ended()).find_map(|outcome| {
            sleep(MOMENT);
            outcome
        });
        assert!(outcome.unwrap().is_ok());
        assert!(aside.dial(by, Some(now())).is_none());
        assert!(aside.dial(by.map(|at| at + MOMENT), Some(now())).is_none());
        drop(go);
        assert!(aside.dial(by.map(|at| at + MOMENT), None).unwrap().is_err());
        assert_eq!(begins.iter().take(3).count(), 3, "another deadline is another attempt");
    }

    #[test]
    fn a_connection_that_was_closed_meanwhile_is_not_used() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut aside, go, begins) = attempts(&server);
        let by = Some(now() + Duration::from_secs(3600));
        assert!(aside.dial(by, Some(now())).is_none());
        go.send(()).unwrap();
        let (stream, _) = server.accept().unwrap();
        drop(stream);
        // Its end needs a moment to arrive, even here.
        sleep(20 * MOMENT);
        while aside.attempt.is_some() {
            assert!(aside.ended().is_none());
            sleep(MOMENT);
        }
        assert_eq!(begins.try_iter().count(), 1);
    }
}
