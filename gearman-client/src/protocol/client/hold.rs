//! When requests are held back so that others can go out with them.
//!
//! A write, and the wake-up that it costs the server, is more expensive than one request. So while many requests are in
//! flight, further ones are held back until they are as many as those still unanswered: half of them travel while the
//! server works on the other half. With few requests in flight, each goes out at once. Both faces do so.

use std::time::{Duration, Instant};

/// Requests are held back only while at least this many are in flight, so that few callers do not wait.
const MANY: usize = 8;

/// Requests are held back only while they have fewer bytes than this.
const WORTH_A_WRITE: usize = 32 * 1024;

/// Maximum time that requests are held back: a near server has answered by then, and for a far one it hardly matters.
const LONGEST: Duration = Duration::from_millis(1);

/// Holds back the requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct RequestHold {
    until: Option<Instant>,
}

/// Requests in flight and waiting on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLoad {
    /// Written and unanswered requests.
    pub(crate) under_way: usize,
    /// Requests waiting to be written.
    pub(crate) waiting: usize,
    /// The bytes of the waiting requests.
    pub(crate) bytes: usize,
}

impl RequestHold {
    /// Until when to hold the requests back, unless checked again earlier; `None` to write them now.
    pub(crate) fn check(&mut self, load: ConnectionLoad, now: Instant) -> Option<Instant> {
        let until = self.until.or_else(|| now.checked_add(LONGEST));
        self.until = until.filter(|until| *until > now && load.is_worth_waiting());
        self.until
    }

    /// Whether requests were held back at the last [check](Self::check), and still would be.
    pub(crate) fn goes_on(&self, load: ConnectionLoad) -> bool {
        self.until.is_some() && load.is_worth_waiting()
    }
}

impl ConnectionLoad {
    fn is_worth_waiting(self) -> bool {
        self.waiting < self.under_way
            && self.under_way >= MANY
            && (1..WORTH_A_WRITE).contains(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(under_way: usize, waiting: usize) -> ConnectionLoad {
        ConnectionLoad { under_way, waiting, bytes: waiting * 100 }
    }

    #[test]
    fn few_requests_never_wait() {
        let mut hold = RequestHold::default();
        for under_way in 0..MANY {
            assert_eq!(hold.check(load(under_way, 1), Instant::now()), None, "{under_way}");
        }
    }

    #[test]
    fn large_requests_never_wait() {
        let large = ConnectionLoad { under_way: 64, waiting: 1, bytes: WORTH_A_WRITE };
        assert_eq!(RequestHold::default().check(large, Instant::now()), None);
    }

    #[test]
    fn no_request_waits_long() {
        let (mut hold, now) = (RequestHold::default(), Instant::now());
        let until = hold.check(load(64, 1), now).unwrap();
        assert_eq!(until - now, LONGEST);
        assert_eq!(hold.check(load(64, 1), until), None);
        assert!(!hold.goes_on(load(64, 1)), "they are written");
        assert_eq!(
            hold.check(load(65, 1), until),
            Some(until + LONGEST),
            "the next ones wait anew"
        );
    }
}
