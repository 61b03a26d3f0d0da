//! Roles: the connection logic, and its requests to the pump that moves its bytes.

pub(crate) mod deadlines;
pub(crate) mod epoch;
pub(crate) mod exchange;
pub(crate) mod health;
pub(crate) mod idle_check;
pub(crate) mod io;
pub(crate) mod late_check;
pub(crate) mod later;
pub(crate) mod life;
pub(crate) mod one_call;
pub(crate) mod outage;
pub(crate) mod outgoing;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Instant;

use crate::Io;

/// Makes all decisions about a connection and its successors: what to send, what an answer means, which deadline comes
/// next, when to give up, whether and where to reconnect. It has no socket, no clock, no task and no lock, and calls no
/// user code: its pump may hold a lock. Wakers, and steps that end in observers and subscribers, go into
/// [`Io::wake`] and [`Io::later`].
///
/// Two pumps move roles: `Wire` on tokio, and `blocking::Wire`. A simulation is a third one, without sockets.
///
/// A role's answer is a level, not an event. A pump may ask at any time, even before the moment it was given, and may
/// be dropped between any two exchanges. So a role never remembers its answers to a pump: it compares [`Io::epoch`],
/// [`Io::is_open`] and `now`, and when asked again without news, it says the same. The moment to ask it again, if any,
/// is after `now`: otherwise the pump would ask in a busy loop.
pub trait Role {
    /// The error of a failure to connect.
    type Failure;

    /// Takes what arrived and what was sent, queues what has to be sent, and says what it wants of the connection.
    ///
    /// The order is always the same, so [`exchange`](crate::exchange) knows it: a new connection, received data, the
    /// end, limits of callers, a missing connection or data to send, deadlines.
    fn exchange(&mut self, io: &mut Io<Self::Failure>, now: Instant) -> Pulse;
}

/// What a role wants of its connection. The moment, if any, is the latest time to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// A new connection. A current attempt continues, and an old connection is closed first.
    Dial {
        /// The index of the server.
        server: usize,
        /// The deadline of the attempt.
        by: Option<Instant>,
        /// The latest time to ask again for another reason, which does not end the attempt. A blocking pump cannot do
        /// that.
        ask: Option<Instant>,
    },
    /// Write queued bytes, and read.
    Go(Option<Instant>),
    /// Read what has already arrived, without waiting, and ask again: [`Io::looked_at`] records that. For an answer
    /// that is overdue unless it has arrived.
    Look,
    /// Like `Look`, but a stream that cannot tell whether data has arrived is not read: for a connection that was idle
    /// and is about to be written to, where waiting would cost more than the check is worth.
    Peek,
    /// Like `Go`, but the sending side is closed after the queued bytes, and the role is asked again once that is done.
    HalfClose(Option<Instant>),
    /// Keep the connection, and expect nothing of it: a blocking pump returns to its caller.
    Rest(Option<Instant>),
    /// No connection for now.
    Close(Option<Instant>),
    /// No connection, ever again.
    Over,
}

impl Pulse {
    /// The latest time to ask again.
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

    /// The same, but the role is to be asked again no later than at this moment.
    #[must_use]
    pub fn by(self, moment: Option<Instant>) -> Self {
        let earlier = |until| earliest([until, moment]);
        match self {
            Pulse::Dial { server, by, ask } => Pulse::Dial { server, by, ask: earlier(ask) },
            Pulse::Go(until) => Pulse::Go(earlier(until)),
            Pulse::HalfClose(until) => Pulse::HalfClose(earlier(until)),
            Pulse::Rest(until) => Pulse::Rest(earlier(until)),
            Pulse::Close(until) => Pulse::Close(earlier(until)),
            Pulse::Look | Pulse::Peek | Pulse::Over => self,
        }
    }

    /// Whether there is to be no connection.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn ends(self) -> bool {
        matches!(self, Pulse::Close(_) | Pulse::Over)
    }
}

/// The earliest of these moments, if any.
#[must_use]
pub fn earliest<const N: usize>(moments: [Option<Instant>; N]) -> Option<Instant> {
    moments.into_iter().flatten().min()
}
