//! What decides about a connection, and what it asks of the pump that moves its bytes.

use std::time::Instant;

use crate::Io;

/// Everything that decides about a connection, and about the ones after it: what is sent, what an answer means, which
/// deadline comes next, when to give up, whether to reconnect and where. It has no socket, no clock, no task and no lock.
///
/// Two pumps move roles: `Wire` on tokio, and `blocking::Wire`. A simulation is a third one, without sockets.
///
/// What a role says is a level, not an event. A pump may ask at any time, may come before the moment that it was given,
/// and may be dropped between any two exchanges. So a role never remembers what it told a pump: it compares
/// [`Io::epoch`], [`Io::is_open`] and `now`, and asked again with nothing new it says the same.
pub trait Role {
    /// Why a connection could not be made.
    type Failure;

    /// Takes what came and what was sent, queues what is to be sent, and says what is wanted of the connection.
    ///
    /// The order is always the same: a new connection, what came, the end, deadlines, a missing connection, what is to be
    /// sent.
    fn exchange(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Pulse;
}

impl<R: Role + ?Sized> Role for &mut R {
    type Failure = R::Failure;

    fn exchange(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Pulse {
        (**self).exchange(io, now)
    }
}

/// What a role wants of its connection. The moment, where there is one, is when to ask again at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A new connection. An attempt under way goes on, and an old connection is closed first.
    Dial {
        /// The number of the server.
        server: usize,
        /// By when the attempt has to have an end.
        by: Option<Instant>,
        /// When to ask again at the latest for another reason, which does not end the attempt. A blocking pump cannot.
        ask: Option<Instant>,
    },
    /// Write what is queued, and read.
    Go(Option<Instant>),
    /// Read what is here already, without waiting, and ask again: [`Io::looked_at`] tells that it was done. For an answer
    /// that is overdue unless it is here.
    Look,
    /// As `Look`, but a stream that cannot tell whether something is here is not read: for a connection that was idle and
    /// is about to be written to, where a wait would cost more than the look is worth.
    Peek,
    /// As `Go`, and the sending side ends behind what is queued. Once it has, the role is asked again.
    HalfClose(Option<Instant>),
    /// The connection stays, and nothing is expected of it: a blocking pump gives the thread back.
    Rest(Option<Instant>),
    /// No connection for now.
    Close(Option<Instant>),
    /// No connection, for ever.
    Over,
}

impl Pulse {
    /// When to ask again at the latest.
    #[must_use]
    pub fn until(self) -> Option<Instant> {
        match self {
            Pulse::Dial { by, ask, .. } => earliest([by, ask]),
            Pulse::Go(until)
            | Pulse::HalfClose(until)
            | Pulse::Rest(until)
            | Pulse::Close(until) => until,
            Pulse::Look | Pulse::Peek | Pulse::Over => None,
        }
    }

    /// Whether there is to be no connection.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn ends(self) -> bool {
        matches!(self, Pulse::Close(_) | Pulse::Over)
    }
}

/// The first of these moments, if there is one.
#[must_use]
pub fn earliest<const N: usize>(moments: [Option<Instant>; N]) -> Option<Instant> {
    moments.into_iter().flatten().min()
}
