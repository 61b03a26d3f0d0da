//! A single caller with one request at a time.

use std::{
    mem,
    time::{Duration, Instant},
};

use crate::{Cause, ConnectionError, Fate, Io, Life, Limit, Loss, Pulse, after, earliest};

/// A request of a [`OneCall`].
pub trait Request<E> {
    /// Adds the request to an error.
    fn name(&self, error: E) -> E;
}

/// The current call of a single caller with the request `Q`, and the outcome `T` of the last one.
#[derive(Debug)]
pub struct OneCall<Q, T, E> {
    call: Option<Call<Q>>,
    outcome: Option<Result<T, E>>,
}

/// A request with its limits, and how far it got.
#[derive(Debug)]
pub struct Call<Q> {
    /// What is asked for.
    pub request: Q,
    /// When the call has to end.
    pub total: Limit,
    /// When there has to be a connection for it.
    pub connected_by: Option<Instant>,
    since: Instant,
    /// How often it may still be retried.
    attempts: u32,
    has_failed: bool,
    /// Its end offset on the connection, once queued.
    end: Option<u64>,
}

impl<Q> Call<Q> {
    /// Whether it was queued on this connection.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it was sent whole.
    #[must_use]
    pub fn is_sent<F>(&self, io: &Io<F>) -> bool {
        self.end.is_some_and(|end| end <= io.sent())
    }

    /// What has become of it if nothing more is heard.
    #[must_use]
    pub fn fate<F>(&self, io: &Io<F>) -> Fate {
        if self.is_sent(io) { Fate::Unknown } else { Fate::NotSent }
    }

    /// Whether the connection, which was idle, has to be checked before the request is written.
    #[must_use]
    pub fn is_unchecked<F>(&self, io: &Io<F>) -> bool {
        self.end.is_none() && !io.has_looked_since(self.since)
    }

    /// It is queued next, with this length.
    pub fn queue<F>(&mut self, len: usize, io: &Io<F>) {
        self.end = Some(io.sent() + io.unwritten() as u64 + len as u64);
    }

    /// How long the server may hold the answer back, if it has the request: for [`Awaits`](crate::Awaits).
    #[must_use]
    pub fn awaits<F>(&self, io: &Io<F>) -> Option<Duration> {
        self.is_sent(io).then_some(Duration::ZERO)
    }

    /// Makes a connection for it.
    pub fn dial<E>(&self, life: &mut Life<E>, now: Instant) -> Pulse {
        let by = earliest([self.total.at, self.connected_by]);
        life.health.dial_for_call(!self.has_failed, by, now)
    }
}

impl<Q, T, E> Default for OneCall<Q, T, E> {
    fn default() -> Self {
        OneCall { call: None, outcome: None }
    }
}

impl<Q: Request<E>, T, E: ConnectionError> OneCall<Q, T, E> {
    /// Begins a call, which may be retried this often. Returns whether the answer to the one before may still come.
    pub fn begin(&mut self, request: Q, total: Limit, attempts: u32, now: Instant) -> bool {
        self.outcome = None;
        let call = Call {
            request,
            total,
            connected_by: None,
            since: now,
            attempts,
            has_failed: false,
            end: None,
        };
        self.call.replace(call).is_some_and(|call| call.is_queued())
    }

    /// The current call.
    #[must_use]
    pub fn call(&self) -> Option<&Call<Q>> {
        self.call.as_ref()
    }

    /// The current call.
    pub fn call_mut(&mut self) -> Option<&mut Call<Q>> {
        self.call.as_mut()
    }

    /// The current call, if it was queued on this connection.
    pub fn queued(&mut self) -> Option<&mut Call<Q>> {
        self.call.as_mut().filter(|call| call.is_queued())
    }

    /// Takes the outcome of the last call.
    pub fn outcome(&mut self) -> Option<Result<T, E>> {
        mem::take(&mut self.outcome)
    }

    /// The outcome of the call for its caller; the request outlives it.
    pub fn report(&mut self, outcome: Result<T, E>) {
        if let Some(call) = &self.call {
            self.outcome = Some(outcome.map_err(|error| call.request.name(error)));
        }
    }

    /// The outcome of the call, which ends.
    pub fn settle(&mut self, outcome: Result<T, E>) {
        self.report(outcome);
        self.call = None;
    }

    /// The error of a call whose limit has passed.
    #[must_use]
    pub fn late<F>(&self, io: &Io<F>, now: Instant) -> Option<E> {
        let call = self.call.as_ref().filter(|call| call.total.has_passed(now))?;
        Some(E::from(call.total.error()).with_fate(call.fate(io)))
    }

    /// The error of the call, with its fate, if the loss concerns it: one that was not queued has lost nothing.
    pub fn failure<F>(&self, loss: Loss<E>, io: &Io<F>) -> Option<E> {
        let call = self.call.as_ref()?;
        match loss.cause {
            Cause::NotConnected => Some(loss.error),
            _ if !call.is_queued() => None,
            Cause::Unusable => Some(loss.error),
            Cause::Ended | Cause::Abandoned | Cause::Late => {
                Some(loss.error.with_fate(call.fate(io)))
            }
        }
    }

    /// Repeats the call on another connection if that is harmless, while retries are allowed; otherwise it fails.
    pub fn repeat(&mut self, error: E, is_harmless: bool, life: &Life<E>, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if call.total.has_passed(now) {
            let late = E::from(call.total.error()).with_fate(error.fate());
            return self.settle(Err(late));
        }
        let next = life.quarantine(now).map_or(now, |delay| after(now, delay));
        let is_last = call.attempts == 0 || call.connected_by.is_some_and(|at| at <= next);
        if !is_harmless || is_last {
            return self.settle(Err(error));
        }
        (call.attempts, call.end, call.has_failed) = (call.attempts - 1, None, true);
    }
}
