//! A role whose connection a test moves manually.

use std::{io, task::Waker, time::Instant};

use super::Steady;
use crate::{End, Io, Pulse, Role};

/// A role and its connection, driven manually: the test decides what arrives, how many unsent bytes are sent, and what
/// time it is.
#[derive(Debug)]
pub struct ByHand<R: Role> {
    /// The role.
    pub role: Steady<R>,
    /// The current time.
    pub now: Instant,
    io: Io<R::Failure>,
}

impl<R: Role> ByHand<R> {
    /// A role without a connection.
    pub fn new(role: R) -> Self {
        ByHand { role: Steady(role), now: crate::now(), io: Io::default() }
    }

    /// Asks the role. Wakers of the last exchange are woken first, so that they can be observed before.
    pub fn turn(&mut self) -> Pulse {
        self.io.wake.drain(..).for_each(Waker::wake);
        let pulse = self.role.exchange(&mut self.io, self.now);
        self.io.later.run();
        pulse
    }

    /// A connection was made.
    pub fn opens(&mut self) {
        self.io.opened();
    }

    /// The connection was closed.
    pub fn closes(&mut self) {
        self.io.closed();
    }

    /// The connection, or the attempt to make one, has ended.
    pub fn ends(&mut self, why: End<R::Failure>) {
        self.io.ended(why);
    }

    /// The connection is lost with this error.
    pub fn loses(&mut self, why: io::ErrorKind) {
        self.ends(End::Lost(why.into()));
    }

    /// The pump is dropped, and another one follows.
    pub fn abandoned(&mut self) {
        self.io.abandoned();
    }

    /// Another pump takes over, without a connection.
    pub fn pump_anew(&mut self) {
        self.io = Io::default();
    }

    /// These bytes arrive.
    pub fn comes(&mut self, bytes: &[u8]) {
        bring(&mut self.io, bytes);
    }

    /// A full read of zero bytes arrives.
    pub fn floods(&mut self) {
        let n = self.io.space().len();
        self.io.came(n);
    }

    /// Everything that has arrived was read.
    pub fn looked(&mut self) {
        self.io.looked(self.now);
    }

    /// The bytes that the role wants to write.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.io.unsent()
    }

    /// The stream accepts this number of bytes.
    pub fn takes(&mut self, n: usize) {
        self.io.took(n, self.now);
    }

    /// The stream accepts all of them.
    pub fn takes_all(&mut self) -> Vec<u8> {
        let all = self.io.unsent().to_vec();
        self.takes(all.len());
        all
    }

    /// The role's view of the connection.
    #[must_use]
    pub fn io(&self) -> &Io<R::Failure> {
        &self.io
    }
}

/// These bytes arrive on a connection.
pub(crate) fn bring<F>(io: &mut Io<F>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let space = io.space();
        let (piece, rest) = bytes.split_at(bytes.len().min(space.len()));
        space.iter_mut().zip(piece).for_each(|(place, byte)| *place = *byte);
        io.came(piece.len());
        bytes = rest;
    }
}
