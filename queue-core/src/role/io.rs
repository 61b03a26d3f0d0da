//! The interface between a role and a pump.

use std::{io, mem, task::Waker, time::Instant};

use bytes::{Buf, Bytes, BytesMut};

use crate::{Later, role::outgoing::KEPT};

/// The bytes and the state of one connection. It outlives calls, futures and connections.
///
/// The receive buffer is initialised memory whose front part is data: a read goes straight into it, and a body is split
/// off without being copied. It grows with received data, never by a length that a peer announced alone: it is filled at
/// most 64 KiB ahead, and allocated at most five times as large as what has arrived.
#[derive(Debug)]
pub struct Io<F> {
    incoming: BytesMut,
    filled: usize,
    wanted: usize,
    limit: usize,
    /// Stays whole until all of it is written, so that a role can take back what was not sent.
    writing: BytesMut,
    /// Written in its place if the role also keeps the bytes.
    kept: Bytes,
    taken: usize,
    sent: u64,
    received: u64,
    epoch: u64,
    is_open: bool,
    written_at: Option<Instant>,
    looked_at: Option<Instant>,
    end: Option<End<F>>,
    /// Wakers to wake once the exchange has ended and no lock is held.
    pub wake: Vec<Waker>,
    /// Steps to run once the exchange has ended and no lock is held.
    pub later: Later,
}

/// Why the connection has ended.
#[derive(Debug)]
pub enum End<F> {
    /// It could not be made.
    NotConnected(F),
    /// It was lost. The end of the stream is `UnexpectedEof`.
    Lost(io::Error),
    /// The pump is gone, and this is the last exchange.
    Abandoned,
}

/// Enough for a small reply, so that one read takes it.
const MIN_READ: usize = 1024;
/// Allocation size.
const CHUNK: usize = 8 << 10;
/// Maximum room for bytes that have not arrived.
const READ_AHEAD: usize = 64 << 10;
/// Memory for the rest of a large message is allocated up to this many times what has arrived of it. Fewer steps mean
/// fewer copies; memory beyond [`READ_AHEAD`] is not touched before bytes arrive for it.
const GROWTH: usize = 4;

impl<F> Default for Io<F> {
    fn default() -> Self {
        Io {
            incoming: BytesMut::new(),
            filled: 0,
            wanted: 0,
            limit: usize::MAX,
            writing: BytesMut::new(),
            kept: Bytes::new(),
            taken: 0,
            sent: 0,
            received: 0,
            epoch: 0,
            is_open: false,
            written_at: None,
            looked_at: None,
            end: None,
            wake: Vec::new(),
            later: Later::default(),
        }
    }
}

/// For roles.
impl<F> Io<F> {
    /// The number of the connection, from 1. If a role knows another number, this is a new connection.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether there is a connection. Data received before its end can still be taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Received bytes that were not taken yet.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.incoming.get(..self.filled).unwrap_or_default()
    }

    /// Takes the first `n` received bytes without copying them; all of them if `n` is greater.
    pub fn take(&mut self, n: usize) -> Bytes {
        let n = n.min(self.filled);
        self.filled -= n;
        self.wanted = 0;
        let taken = self.incoming.split_to(n).freeze();
        if self.filled == 0 && n > KEPT {
            // The memory of a large message is given back with the message.
            self.incoming = BytesMut::new();
        }
        taken
    }

    /// Drops the first `n` received bytes; all of them if `n` is greater.
    pub fn skip(&mut self, n: usize) {
        let n = n.min(self.filled);
        self.filled -= n;
        self.wanted = 0;
        self.incoming.advance(n);
    }

    /// Tells how many bytes are missing for the next whole message, so that one read may bring them all. Only a hint:
    /// within 64 KiB, and until the next [`take`](Self::take).
    pub fn want(&mut self, missing: usize) {
        self.wanted = missing;
    }

    /// Stops the pump from reading on this connection while this many bytes are waiting to be taken. Once everything is
    /// written, a role with that many must take some.
    pub fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Queues bytes after those already queued, and leaves `bytes` empty. They are not copied if everything before them
    /// was written. Without a connection, they are dropped.
    pub fn queue(&mut self, bytes: &mut BytesMut) {
        if self.is_open && self.is_drained() {
            self.kept.clear();
            mem::swap(&mut self.writing, bytes);
            self.taken = 0;
        } else if self.is_open {
            self.own();
            self.writing.extend_from_slice(bytes);
        }
        bytes.clear();
    }

    /// Queues bytes that the role also keeps, replacing everything not sent yet. They are not copied: for a role
    /// that may have to resend unanswered requests. Without a connection, they are dropped.
    pub fn replace(&mut self, bytes: Bytes) {
        self.writing.clear();
        self.taken = 0;
        self.kept = if self.is_open { bytes } else { Bytes::new() };
    }

    /// Takes back the last `n` queued bytes, which were not all sent. Only in the exchange that learns of the end or
    /// requests it: after that, they are gone.
    pub fn take_back(&mut self, n: usize) -> BytesMut {
        self.own();
        let kept = self.writing.len().saturating_sub(n);
        self.taken = self.taken.min(kept);
        self.writing.split_off(kept)
    }

    /// Makes the connection the owner of the queued bytes.
    fn own(&mut self) {
        if !self.kept.is_empty() {
            self.writing = mem::take(&mut self.kept).into();
        }
    }

    fn queued(&self) -> &[u8] {
        if self.kept.is_empty() { &self.writing } else { &self.kept }
    }

    /// Whether everything queued is written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.taken >= self.queued().len()
    }

    /// Number of bytes waiting to be written.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.queued().len().saturating_sub(self.taken)
    }

    /// Total number of bytes that this connection has accepted: a request's fate depends on whether its last byte is
    /// among them.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// When the stream last accepted queued bytes on this connection.
    #[must_use]
    pub fn written_at(&self) -> Option<Instant> {
        self.written_at
    }

    /// Total number of bytes received on this connection.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// When a non-blocking read last found nothing more to read.
    #[must_use]
    pub fn looked_at(&self) -> Option<Instant> {
        self.looked_at
    }

    /// Whether a check since then has found nothing more to read.
    #[must_use]
    pub fn has_looked_since(&self, then: Instant) -> bool {
        self.looked_at.is_some_and(|at| at >= then)
    }

    /// Why the connection ended, or was not made. Reported once. Take all received data first: what was not taken by
    /// then is dropped.
    pub fn take_end(&mut self) -> Option<End<F>> {
        let end = self.take_reason()?;
        self.drop_incoming();
        Some(end)
    }

    /// The same, but what was received can still be taken.
    pub(super) fn take_reason(&mut self) -> Option<End<F>> {
        self.end.take()
    }

    /// Drops what was received and not taken.
    pub(super) fn drop_incoming(&mut self) {
        (self.incoming, self.filled, self.wanted) = (BytesMut::new(), 0, 0);
    }
}

/// For pumps, and for tests, which are pumps without sockets.
impl<F> Io<F> {
    /// Wakes the wakers and runs the steps that exchanges have left, while no lock is held.
    pub fn release(&mut self) {
        self.wake.drain(..).for_each(Waker::wake);
        self.later.run();
    }

    /// A connection was made.
    pub fn opened(&mut self) {
        *self = Io {
            epoch: self.epoch + 1,
            is_open: true,
            wake: mem::take(&mut self.wake),
            later: mem::take(&mut self.later),
            ..Io::default()
        };
    }

    /// The connection ended, or could not be made. The role has to be asked before another one is made.
    pub fn ended(&mut self, why: End<F>) {
        self.is_open = false;
        self.end.get_or_insert(why);
    }

    /// The connection was closed as the role asked.
    pub fn closed(&mut self) {
        self.drop_incoming();
        (self.is_open, self.end) = (false, None);
        (self.writing, self.kept, self.taken) = (BytesMut::new(), Bytes::new(), 0);
    }

    /// The pump is gone, whatever else has happened.
    pub fn abandoned(&mut self) {
        (self.is_open, self.end) = (false, Some(End::Abandoned));
    }

    /// The bytes to write now.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.queued().get(self.taken..).unwrap_or_default()
    }

    /// The stream accepted the first `n` bytes of [`unsent`](Self::unsent).
    pub fn took(&mut self, n: usize, now: Instant) {
        self.written_at = Some(now);
        self.taken += n;
        self.sent += n as u64;
        if self.is_drained() && self.writing.capacity() > KEPT {
            (self.writing, self.taken) = (BytesMut::new(), 0);
            self.kept.clear();
        }
    }

    /// Whether the role must take some received bytes before more are read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.filled >= self.limit
    }

    /// Room for the next read, never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let wanted = self.wanted.clamp(MIN_READ, READ_AHEAD);
        if self.incoming.len() - self.filled < wanted {
            self.incoming.truncate(self.filled);
            if self.incoming.capacity() - self.filled < wanted {
                let rest = self.wanted.min(self.filled.saturating_mul(GROWTH));
                self.incoming.reserve(wanted.max(CHUNK).max(rest));
            }
            let room = self.incoming.capacity().min(self.filled + READ_AHEAD);
            self.incoming.resize(room, 0);
        }
        self.incoming.get_mut(self.filled..).unwrap_or_default()
    }

    /// The first `n` bytes of [`space`](Self::space) were read.
    pub fn came(&mut self, n: usize) {
        let n = n.min(self.incoming.len() - self.filled);
        self.filled += n;
        self.received += n as u64;
    }

    /// There was nothing more to read.
    pub fn looked(&mut self, now: Instant) {
        self.looked_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::bring;

    fn open() -> Io<()> {
        let mut io = Io::default();
        io.opened();
        io
    }

    #[test]
    fn reserves_at_most_64_kib_ahead() {
        let mut io = open();
        io.want(usize::MAX);
        assert_eq!(io.space().len(), READ_AHEAD);
        bring(&mut io, &[7; 3 * READ_AHEAD]);
        assert!(io.incoming.len() <= 4 * READ_AHEAD, "{}", io.incoming.len());
        assert_eq!(io.data(), [7; 3 * READ_AHEAD]);
    }

    #[test]
    fn a_large_message_is_seldom_moved() {
        let mut io = open();
        let size = 20 << 20;
        let (mut moves, mut capacity) = (0, 0);
        while io.filled < size {
            io.want(size - io.filled);
            let n = io.space().len().min(size - io.filled);
            assert!(io.incoming.capacity() <= (1 + GROWTH) * io.filled + READ_AHEAD);
            moves += usize::from(io.incoming.capacity() > capacity);
            capacity = io.incoming.capacity();
            io.came(n);
        }
        assert!(moves <= 6, "{moves}");
        assert_eq!((io.take(size).len(), capacity), (size, size));
    }

    #[test]
    fn the_memory_of_a_large_message_goes_with_the_message() {
        let mut io = open();
        bring(&mut io, &vec![7; 2 * KEPT]);
        assert_eq!((io.take(2 * KEPT).len(), io.incoming.capacity()), (2 * KEPT, 0));
        bring(&mut io, b"next");
        assert_eq!(io.take(4), "next");
    }

    #[test]
    fn a_partly_sent_message_can_be_taken_back() {
        let mut io = open();
        io.queue(&mut b"first\n"[..].into());
        io.took(6, Instant::now());
        io.queue(&mut b"second\n"[..].into());
        io.queue(&mut b"third\n"[..].into());
        io.took(3, Instant::now());
        io.ended(End::Lost(io::ErrorKind::ConnectionReset.into()));
        assert_eq!(
            (io.take_back(6), io.take_back(7)),
            (b"third\n"[..].into(), b"second\n"[..].into())
        );
        assert_eq!((io.sent(), io.unwritten(), io.is_drained()), (9, 0, true));
    }

    #[test]
    fn kept_buffers_are_swapped_not_copied() {
        let mut io = open();
        let frames = Bytes::from_static(b"first\nsecond\n");
        io.replace(frames.clone());
        assert_eq!(io.unsent().as_ptr(), frames.as_ptr());
        io.took(6, Instant::now());
        io.replace(frames.slice(6..));
        assert_eq!((io.unsent(), io.sent()), (&b"second\n"[..], 6));
        io.queue(&mut b"third\n"[..].into());
        assert_eq!((io.unsent(), io.unwritten()), (&b"second\nthird\n"[..], 13));
        assert_eq!(io.take_back(6), b"third\n"[..]);
        io.took(7, Instant::now());
        assert!(io.is_drained());
        io.queue(&mut b"fourth\n"[..].into());
        io.replace(Bytes::new());
        assert_eq!((io.is_drained(), io.sent()), (true, 13));
        io.closed();
        io.replace(frames);
        assert!(io.is_drained(), "nothing is queued without a connection");
    }

    #[test]
    fn the_end_is_reported_once_after_the_data() {
        let mut io = open();
        bring(&mut io, b"last");
        io.ended(End::Lost(io::ErrorKind::UnexpectedEof.into()));
        io.ended(End::NotConnected(()));
        assert_eq!((io.data(), io.is_open()), (&b"last"[..], false));
        assert!(matches!(io.take_end(), Some(End::Lost(_))));
        assert!(io.take_end().is_none() && io.data().is_empty());
    }

    #[test]
    fn a_new_connection_starts_clean() {
        let mut io = open();
        io.queue(&mut b"old"[..].into());
        bring(&mut io, b"old");
        io.took(1, Instant::now());
        io.ended(End::Lost(io::ErrorKind::ConnectionReset.into()));
        io.opened();
        assert_eq!((io.epoch(), io.sent(), io.received(), io.unwritten()), (2, 0, 0, 0));
        assert!(io.is_open() && io.data().is_empty() && io.take_end().is_none());
    }

    #[test]
    fn a_limit_holds_for_one_connection() {
        let mut io = open();
        io.limit(4);
        bring(&mut io, b"abc");
        assert!(!io.is_full());
        bring(&mut io, b"def");
        assert!(io.is_full());
        io.take(3);
        assert!(!io.is_full());
        io.opened();
        bring(&mut io, b"abcdef");
        assert!(!io.is_full());
    }

    #[test]
    fn the_memory_of_a_long_write_is_given_back() {
        let mut io = open();
        io.queue(&mut vec![0; 2 * KEPT][..].into());
        io.took(2 * KEPT - 1, Instant::now());
        assert_eq!((io.unwritten(), io.is_drained()), (1, false));
        io.took(1, Instant::now());
        assert_eq!((io.unwritten(), io.is_drained(), io.writing.capacity()), (0, true, 0));
        io.queue(&mut b"next"[..].into());
        assert_eq!(io.unsent(), b"next");
    }

    #[test]
    fn nothing_is_queued_without_a_connection() {
        let mut io = Io::<()>::default();
        let mut bytes = BytesMut::from(&b"lost"[..]);
        io.queue(&mut bytes);
        assert!(bytes.is_empty() && io.is_drained());
    }
}
