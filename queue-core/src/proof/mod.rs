//! Checks that roles keep their contract: a third pump without sockets, which does everything that a pump may do and a
//! good network does not. And peers for the pumps with sockets: streams and listeners that misbehave by script.

mod by_hand;
#[cfg(feature = "tokio")]
mod choppy;
mod dropped;
#[cfg(all(feature = "tokio", feature = "blocking"))]
mod flood;
#[cfg(feature = "blocking")]
mod listener;
#[cfg(all(feature = "tokio", feature = "blocking"))]
mod scripted;
mod written;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Wake,
    time::{Duration, Instant},
};

#[cfg(test)]
pub(crate) use self::by_hand::bring;
#[cfg(feature = "blocking")]
pub use self::listener::{Scripts, read_bytes, read_line, read_to_end, relay, reset};
pub use self::{by_hand::ByHand, dropped::drop_after};
#[cfg(feature = "tokio")]
pub use self::{choppy::Choppy, dropped::drop_after_turns};
#[cfg(all(feature = "tokio", feature = "blocking"))]
pub use self::{
    flood::Flood,
    scripted::{Scripted, Step},
};
use crate::{End, Io, Pulse, Random, Role};

/// A task that does nothing when it is woken. Its reference count shows whether its waker is kept.
#[derive(Debug)]
pub struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

/// A task that counts how often it is woken.
#[derive(Debug, Default)]
pub struct Woken(AtomicUsize);

impl Woken {
    /// How often it was woken.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The seeds of a test that draws its schedules: the first `usual` ones, or as many times more as the environment
/// variable `PROOFS` says.
#[must_use]
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("PROOFS").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    0..usual.saturating_mul(times)
}

/// A runtime of one thread, with its clock and input/output on.
///
/// # Panics
///
/// When the operating system has no more of what it needs.
#[cfg(feature = "tokio")]
#[must_use]
#[expect(clippy::unwrap_used, reason = "it serves tests, which a failure here ends")]
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Asks a role twice at every exchange, and checks that it says the same again without taking or queueing anything, and
/// that it does not ask to be asked at once, which would keep its pump busy.
#[derive(Debug)]
pub struct Steady<R>(pub R);

impl<R: Role> Role for Steady<R> {
    type Failure = R::Failure;

    /// # Panics
    ///
    /// When the second answer differs, or its moment has come.
    fn exchange(&mut self, io: &mut Io<R::Failure>, now: Instant) -> Pulse {
        let pulse = self.0.exchange(io, now);
        let left =
            |io: &Io<R::Failure>| (io.data().len(), io.unwritten(), io.wake.len(), io.later.len());
        let before = left(io);
        let again = self.0.exchange(io, now);
        assert_eq!(again, pulse, "asked again with nothing new, a role says the same");
        assert_eq!(left(io), before, "asked again with nothing new, a role does nothing");
        let at = match pulse {
            // The pump ends the attempt at that moment, and the role is told.
            Pulse::Dial { ask, .. } => ask,
            pulse => pulse.until(),
        };
        assert!(at.is_none_or(|at| at > now), "with nothing new, a role asks to be asked at once");
        pulse
    }
}

/// The server of a proof.
pub trait Peer {
    /// A connection was made to it; the previous one is gone.
    fn connected(&mut self);

    /// These bytes arrived. Returns whether the connection continues, and appends the answer.
    fn received(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> bool;

    /// The other side has closed its sending side. Returns whether the connection continues, and appends the answer.
    fn half_closed(&mut self, answer: &mut Vec<u8>) -> bool {
        let _ = answer;
        false
    }
}

/// The unreliability of the network: one in this many steps fails, 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The connection breaks.
    pub broken: usize,
    /// An attempt to connect fails.
    pub refused: usize,
    /// The pump is dropped after an exchange, before it does what the role asked for.
    pub dropped: usize,
    /// The role is not asked for an hour.
    pub late: usize,
}

/// A pump without sockets. Bytes move in pieces of any size and time in steps of any length, all derived from a seed.
#[derive(Debug)]
pub struct Proof<R: Role, P> {
    /// The role.
    pub role: Steady<R>,
    /// Its server.
    pub peer: P,
    /// The current faults.
    pub faults: Faults,
    /// Whether time may jump to the moment that the role waits for, ahead of earlier events; true initially.
    pub leaps: bool,
    io: Io<R::Failure>,
    now: Instant,
    random: Random,
    /// Bytes of the peer that the role did not get yet.
    coming: Vec<u8>,
    is_peer_done: bool,
    refuse: fn() -> R::Failure,
}

impl<R: Role, P: Peer> Proof<R, P> {
    /// A role and its server; `refuse` makes the error of a failed attempt to connect.
    pub fn new(role: R, peer: P, refuse: fn() -> R::Failure, seed: u64) -> Self {
        Proof {
            role: Steady(role),
            peer,
            faults: Faults::default(),
            leaps: true,
            io: Io::default(),
            now: crate::now(),
            random: Random::new(seed),
            coming: Vec::new(),
            is_peer_done: false,
            refuse,
        }
    }

    /// The time of the proof.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Asks the role once, and does some of what it asks for.
    pub fn step(&mut self) -> Pulse {
        let pulse = self.role.exchange(&mut self.io, self.now);
        self.io.wake.clear();
        self.io.later.run();
        if self.happens(self.faults.dropped) {
            return pulse;
        }
        match pulse {
            Pulse::Dial { .. } => self.dial(),
            Pulse::Close(_) | Pulse::Over => self.io.closed(),
            Pulse::Look | Pulse::Peek => {
                if !self.read() {
                    self.io.looked(self.now);
                }
            }
            Pulse::Go(_) | Pulse::Rest(_) => self.go(),
            Pulse::HalfClose(_) => {
                self.go();
                if self.io.is_open() && self.io.is_drained() && !self.is_peer_done {
                    self.is_peer_done = !self.peer.half_closed(&mut self.coming);
                }
            }
        }
        self.pass_time(pulse);
        pulse
    }

    fn happens(&mut self, odds: usize) -> bool {
        odds > 0 && self.random.one_in(odds)
    }

    fn dial(&mut self) {
        self.io.closed();
        if self.happens(self.faults.refused) {
            return self.io.ended(End::NotConnected((self.refuse)()));
        }
        // An attempt may take its time.
        if self.random.one_in(2) {
            self.coming.clear();
            self.is_peer_done = false;
            self.peer.connected();
            self.io.opened();
        }
    }

    fn go(&mut self) {
        if !self.io.is_open() {
            return;
        }
        if self.happens(self.faults.broken) {
            return self.io.ended(End::Lost(std::io::ErrorKind::ConnectionReset.into()));
        }
        let n = self.random.below(self.io.unwritten() + 1);
        let written = self.io.unsent().get(..n).unwrap_or_default();
        if !self.is_peer_done && !self.peer.received(written, &mut self.coming) {
            self.is_peer_done = true;
        }
        self.io.took(n, self.now);
        self.read();
    }

    /// Whether something arrived, including the end.
    fn read(&mut self) -> bool {
        if self.coming.is_empty() && self.is_peer_done {
            self.io.ended(End::Lost(std::io::ErrorKind::UnexpectedEof.into()));
            return true;
        }
        if self.io.is_full() {
            return false;
        }
        let n = self.random.below(self.coming.len() + 1);
        let space = self.io.space();
        let n = n.min(space.len());
        for (place, byte) in space.iter_mut().zip(self.coming.drain(..n)) {
            *place = byte;
        }
        self.io.came(n);
        n > 0
    }

    /// Advances the time to before, at, or after the moment that the role gave.
    fn pass_time(&mut self, pulse: Pulse) {
        let hour = Duration::from_secs(3600);
        if self.happens(self.faults.late) {
            self.now += hour;
        } else if let Some(until) = pulse.until().filter(|until| *until < self.now + hour)
            && self.leaps
            && self.random.one_in(4)
        {
            self.now = self.now.max(until);
        } else {
            self.now += Duration::from_micros(self.random.below(5_000) as u64);
        }
    }
}
