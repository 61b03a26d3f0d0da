//! The order of an exchange, written once.
//!
//! A role is made like this:
//!
//! 1. Give it a field `life: `[`Life`]`<Error>`, made with the role's [`Replace`](crate::Replace) and, if they apply,
//!    `left_unread`, `greets`, `first_is_free`, `given`.
//! 2. Write [`role!`](macro@crate::role)`(Name, Error);` (or `impl Role` by hand if something has to happen around each
//!    exchange) and `impl Protocol for Name`.
//! 3. What a connection begins with is `connected`, reading is `receive`, writing is `send`. What a loss or a failed
//!    attempt does to requests is `lost`. Goals and limits of callers are `needs`, which runs before anything is sent.
//! 4. Say `life.served()` once an exchange has succeeded, and `life.answered()` with each answer; [`exchange`] counts
//!    failures. A role or a caller that wants the connection gone says `life.close_with(error)`.
//! 5. A lone caller with a request at a time is a [`OneCall`](crate::OneCall); say `life.asked(now)` as it comes.
//!
//! What to know:
//!
//! * `receive` runs only while there is a connection. Who may have answers behind its end reads them in `needs`.
//! * `ended` sees what was received and not taken; it is dropped afterwards. `Ok` means that the end was expected.
//! * `lost` is called after the loss was counted, once for each connection and each failed attempt; `life.is_open()` is
//!   false then. A role that has to know later why the last one ended keeps `loss.error.share()`.
//! * `needs` is asked again after each loss, in the same exchange. To fail a connection there, call `close_with`, and
//!   return anything; without a connection that does nothing.
//! * `needs` and `send` are asked often with nothing new, and must say the same then: see [`Role`].
//! * An otherwise idle role may send, too: [`Need::Keep`] calls `send`. [`Need::Close`] closes without counting; use it
//!   for a connection that is out of use, and `life.close()` if another one follows in the same exchange.

use std::{
    io, mem,
    time::{Duration, Instant},
};

use crate::{Deadline, End, Error, Fate, Io, LateCheck, Life, Pulse, Role, earliest};

/// A client's error, as far as a connection makes and changes it: see [`wrap_error!`](crate::wrap_error).
pub trait ConnectionError: Sized + From<Error> {
    /// The connection was lost.
    fn lost(why: io::Error) -> Self;

    /// The pump is gone.
    fn abandoned() -> Self;

    /// Whether the server may have acted.
    fn fate(&self) -> Fate;

    /// The same with another fate.
    #[must_use]
    fn with_fate(self, fate: Fate) -> Self;
}

/// What a role says on its connection, and what becomes of its requests: everything but the order, which is that of
/// [`exchange`].
///
/// ```text
/// connected ─► receive ─► ended? ─► lost? ─► needs ─┬─► dial
///                                     ▲             └─► send ─► deadlines
///                                     └──────── a passed deadline, or `close_with`
/// ```
pub trait Protocol: Role<Failure: ConnectionError> {
    /// The state of the connection.
    fn life(&mut self) -> &mut Life<Self::Failure>;

    /// There is a new connection.
    fn connected(&mut self, io: &mut Io<Self::Failure>, now: Instant);

    /// Takes what has arrived.
    ///
    /// # Errors
    ///
    /// The connection cannot be used any longer.
    fn receive(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Result<(), Self::Failure>;

    /// The stream has ended behind what was received, or failed. What is not taken now is dropped.
    ///
    /// # Errors
    ///
    /// The end is a loss. Otherwise it is that of an answer, or of a connection that was to end.
    fn ended(
        &mut self,
        why: io::Error,
        io: &mut Io<Self::Failure>,
        now: Instant,
    ) -> Result<(), Self::Failure> {
        let _ = (io, now);
        Err(Self::Failure::lost(why))
    }

    /// The connection is lost, or could not be made: what becomes of the requests. The loss is already counted.
    fn lost(&mut self, loss: Loss<Self::Failure>, io: &mut Io<Self::Failure>, now: Instant);

    /// Does what is due, and says what it needs now. Asked again after a loss.
    fn needs(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Need;

    /// How to make the connection that is needed: [`Life::dial`], [`Life::attempt`] or [`Call::dial`](crate::Call).
    fn dial(&mut self, now: Instant) -> Pulse {
        self.life().dial(0, now)
    }

    /// Queues what is to be written, and says what is awaited then.
    fn send(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Awaits;

    /// Whether the role has stopped waiting for the late answer, so that the connection may be kept after all.
    fn forgives(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Whether the connection that ends was a good one: see [`Replace`](crate::Replace).
    fn is_good(&mut self, now: Instant) -> bool {
        let _ = now;
        self.life().has_served()
    }
}

/// Implements [`Role`] for a type that implements [`Protocol`] with this error.
#[doc(hidden)]
#[macro_export]
macro_rules! role {
    ($role:ty, $error:ty) => {
        impl $crate::Role for $role {
            type Failure = $error;

            fn exchange(
                &mut self,
                io: &mut $crate::Io<$error>,
                now: std::time::Instant,
            ) -> $crate::Pulse {
                $crate::exchange(self, io, now)
            }
        }
    };
}

/// What a role needs of its connection. The moment, if any, is the latest time to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A connection, to write to and to read from.
    Use(Option<Instant>),
    /// None is made, and an open one is kept.
    Keep(Option<Instant>),
    /// None is made, and an open one is closed, which is no failure.
    Close(Option<Instant>),
    /// What has already arrived is to be read first: [`Pulse::Look`].
    Look,
    /// The same unless that is in doubt: [`Pulse::Peek`].
    Peek,
    /// None, ever again.
    Over,
}

/// The answer that a role waits for after it has sent everything that may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Awaits {
    /// An answer, which the server may hold back for this long: see [`Deadlines::check`](crate::Deadlines::check).
    pub answer: Option<Duration>,
    /// Its own moment.
    pub until: Option<Instant>,
    /// What else the server may send.
    pub expects: Expects,
}

/// The data that the server may send to a role that uses its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expects {
    /// Anything.
    #[default]
    Data,
    /// Nothing, so a pump need not wait for it.
    Nothing,
    /// The end of the stream, after the sending side was closed.
    End,
}

/// A connection that was lost, or an attempt that has failed.
#[derive(Debug)]
pub struct Loss<E> {
    /// Why.
    pub error: E,
    /// What has ended it.
    pub cause: Cause,
    /// How long the server is left alone.
    pub delay: Option<Duration>,
}

/// The cause of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was none: it could not be made.
    NotConnected,
    /// The stream has ended, or failed.
    Ended,
    /// The pump is gone, so no other connection will be made.
    Abandoned,
    /// A deadline has passed.
    Late,
    /// The role has given it up: what the server sent cannot be used, or a caller wants another connection.
    Unusable,
}

/// One exchange of a role with its pump: the only place that knows the order.
pub fn exchange<P: Protocol>(role: &mut P, io: &mut Io<P::Failure>, now: Instant) -> Pulse {
    if role.life().is_new(io, now) {
        role.connected(io, now);
    }
    let mut exchange = Exchange { role, io, now };
    if exchange.life().is_open
        && let Err(error) = exchange.role.receive(exchange.io, now)
    {
        exchange.lose(error, Cause::Unusable);
    }
    exchange.take_end();
    // A connection is lost at most once, an attempt is overdue at most once, and each answer that is forgiven is one
    // request less to wait for.
    loop {
        let need = exchange.role.needs(exchange.io, now);
        let life = exchange.life();
        if let Some(error) = life.closing.take() {
            exchange.lose(error, Cause::Unusable);
            continue;
        }
        let is_open = life.is_open;
        life.is_wanted = !is_open && matches!(need, Need::Use(_));
        if matches!(need, Need::Over | Need::Close(_)) {
            life.close();
        }
        let pulse = match need {
            Need::Over => Some(Pulse::Over),
            Need::Close(until) => Some(Pulse::Close(until)),
            Need::Look if is_open => Some(Pulse::Look),
            Need::Peek if is_open => Some(Pulse::Peek),
            Need::Look | Need::Peek => Some(Pulse::Close(None)),
            Need::Keep(until) | Need::Use(until) if is_open => {
                exchange.keep(matches!(need, Need::Use(_)), until)
            }
            Need::Keep(until) => Some(Pulse::Close(until)),
            Need::Use(until) => exchange.dial(until),
        };
        if let Some(pulse) = pulse {
            return pulse;
        }
    }
}

/// A role and its connection, in the moment of an exchange.
struct Exchange<'a, P: Protocol> {
    role: &'a mut P,
    io: &'a mut Io<P::Failure>,
    now: Instant,
}

impl<P: Protocol> Exchange<'_, P> {
    fn life(&mut self) -> &mut Life<P::Failure> {
        self.role.life()
    }

    /// Handles the end of the connection, of the attempt, or of the pump, if one has ended.
    fn take_end(&mut self) {
        let life = self.role.life();
        let (is_open, closing) = (life.is_open, life.closing.take());
        let Some(end) = self.io.take_reason() else {
            if let Some(error) = closing {
                self.lose(error, Cause::Unusable);
            }
            return;
        };
        match (end, closing) {
            (End::NotConnected(error), _) => self.fail(error),
            (End::Abandoned, _) => self.abandon(),
            (End::Lost(_), Some(error)) => self.lose(error, Cause::Unusable),
            (End::Lost(why), None) if is_open => match self.role.ended(why, self.io, self.now) {
                Err(error) => self.lose(error, Cause::Ended),
                Ok(()) => {
                    self.end();
                }
            },
            (End::Lost(_), None) => {}
        }
        self.io.drop_incoming();
    }

    /// The pump is gone: waiters for a connection have to find another pump.
    fn abandon(&mut self) {
        let now = self.now;
        let life = self.life();
        life.is_moved = false;
        life.health.abandoned();
        if life.is_open {
            return self.lose(P::Failure::abandoned(), Cause::Abandoned);
        }
        if life.is_wanted {
            life.failed(now);
            self.notify(P::Failure::abandoned(), Cause::Abandoned);
        }
    }

    /// Counts the end of the connection. Returns whether there was one.
    fn end(&mut self) -> bool {
        let is_good = self.role.is_good(self.now);
        self.role.life().end(is_good, self.now)
    }

    /// The connection, if there is one, cannot be used any longer.
    fn lose(&mut self, error: P::Failure, cause: Cause) {
        if self.end() {
            self.notify(error, cause);
        }
    }

    /// An attempt to connect has failed.
    fn fail(&mut self, error: P::Failure) {
        let life = self.role.life();
        if !life.disregards_attempt() {
            life.failed(self.now);
            self.notify(error, Cause::NotConnected);
        }
    }

    fn notify(&mut self, error: P::Failure, cause: Cause) {
        let life = self.role.life();
        life.ends += 1;
        life.is_wanted = false;
        let delay = life.quarantine(self.now);
        self.role.lost(Loss { error, cause, delay }, self.io, self.now);
    }

    /// Has a connection made. `None` if the last attempt to has taken too long.
    fn dial(&mut self, until: Option<Instant>) -> Option<Pulse> {
        let health = &self.role.life().health;
        // The pump gives an attempt its whole time, so the pump's report comes first.
        if health.is_overdue(self.now) {
            let error = health.overdue().into();
            self.fail(error);
            return None;
        }
        let pulse = self.role.dial(self.now);
        self.life().is_pausing = matches!(pulse, Pulse::Close(Some(_)));
        Some(match pulse {
            Pulse::Dial { server, by, ask } => {
                // At the deadline of the attempt, the role is asked anyway.
                let ask = earliest([ask, until]).filter(|ask| by.is_none_or(|by| *ask < by));
                Pulse::Dial { server, by, ask }
            }
            other => other.by(until),
        })
    }

    /// Sends, and keeps the connection until the next deadline. `None` if one has passed.
    fn keep(&mut self, is_used: bool, until: Option<Instant>) -> Option<Pulse> {
        let awaits = self.role.send(self.io, self.now);
        let life = self.role.life();
        if life.ready_by.is_some_and(|at| at <= self.now) {
            let error = life.health.overdue().into();
            self.lose(error, Cause::Late);
            return None;
        }
        let answered = mem::take(&mut life.has_answers);
        let late = match life.deadlines.check(self.io, awaits.answer, answered, self.now) {
            Ok(due) => {
                life.late_check.as_mut().into_iter().for_each(LateCheck::clear);
                let until = earliest([due, awaits.until, until, life.ready_by]);
                return Some(match awaits.expects {
                    Expects::End => Pulse::HalfClose(until),
                    Expects::Data if is_used => Pulse::Go(until),
                    Expects::Data | Expects::Nothing => Pulse::Rest(until),
                });
            }
            Err(late) => late,
        };
        if late == Deadline::Reply {
            if life.late_check.as_mut().is_some_and(|check| check.may_be_here(self.io, self.now)) {
                return Some(Pulse::Look);
            }
            if self.role.forgives(self.now) {
                return None;
            }
        }
        let error = self.life().deadlines.error(late).into();
        self.lose(error, Cause::Late);
        None
    }
}

#[cfg(test)]
mod tests;
