//! Late answers that may have arrived unread.

use std::time::Instant;

use crate::Io;

/// A late answer, which may be among bytes that arrived while nothing was being read: those are checked before it
/// counts as missing.
///
/// A server that keeps sending is no reason to keep waiting: an answer that arrived in time has little data before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LateCheck {
    /// Since when the answer is late, and the number of bytes received by then.
    since: Option<(Instant, u64)>,
}

/// More than sockets and TLS buffer.
const MAX_BEHIND: u64 = 8 << 20;

impl LateCheck {
    /// The answer is late. Returns whether it may have arrived already, so that the role should ask for a
    /// [`Look`](crate::Pulse::Look).
    pub fn may_be_here<F>(&mut self, io: &Io<F>, now: Instant) -> bool {
        let (since, received) = *self.since.get_or_insert((now, io.received()));
        !io.has_looked_since(since) && io.received().saturating_sub(received) < MAX_BEHIND
    }

    /// Nothing is late, or the wait was given up.
    pub fn clear(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_late_once_the_socket_is_empty() {
        let (mut io, mut check, now) = (Io::<()>::default(), LateCheck::default(), Instant::now());
        io.opened();
        assert!(check.may_be_here(&io, now) && check.may_be_here(&io, now));
        io.looked(now);
        assert!(!check.may_be_here(&io, now));
        check.clear();
        io.opened();
        assert!(check.may_be_here(&io, now), "it is another one");
    }

    #[test]
    fn a_flood_does_not_postpone_the_end() {
        let (mut io, mut check, now) = (Io::<()>::default(), LateCheck::default(), Instant::now());
        io.opened();
        let mut looks = 0;
        while check.may_be_here(&io, now) {
            let n = io.space().len();
            io.came(n);
            io.take(n);
            looks += 1;
        }
        assert!((2..20_000).contains(&looks), "{looks}");
    }
}
