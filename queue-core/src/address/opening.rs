//! How a client connects to the first of its servers.

use std::{collections::VecDeque, time::Instant};

use crate::{Deadline, Limit};

/// The attempts to connect to one of several servers: each is tried once, and one that takes long is waited for only if
/// no other can be reached.
#[derive(Debug)]
pub struct Opening {
    order: VecDeque<usize>,
    slow: VecDeque<usize>,
    total: Limit,
    /// The server of the last step, and its limit.
    trying: Option<(usize, Limit)>,
}

impl Opening {
    /// `order` holds the indexes of the servers, and `total` is the limit of all attempts.
    pub fn new(order: impl IntoIterator<Item = usize>, total: Limit) -> Self {
        let (order, total) = (order.into_iter().collect(), total.named(Deadline::Connect));
        Opening { order, slow: VecDeque::new(), total, trying: None }
    }

    /// The server to try next, and the limit of that; the last one could not be reached. `None` once all have failed.
    pub fn next_server(&mut self, now: Instant) -> Option<(usize, Limit)> {
        let outlasted = |(_, limit): &(usize, Limit)| limit.has_passed(now);
        if let Some((server, _)) = self.trying.take().filter(outlasted)
            && !self.order.is_empty()
        {
            self.slow.push_back(server);
        }
        let server = self.order.pop_front().or_else(|| self.slow.pop_front())?;
        let untried = self.order.len();
        let limit = self.total.connecting(untried, untried + self.slow.len(), now);
        self.trying = Some((server, limit));
        self.trying
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{SLOW, now};

    #[test]
    fn each_server_is_tried_once_and_all_but_the_last_for_a_short_time() {
        let (minute, start) = (Duration::from_secs(60), now());
        let mut opening = Opening::new([4, 2], Limit::after(Deadline::Total, Some(minute), start));
        let mut next = |now| opening.next_server(now).map(|(server, limit)| (server, limit.at));
        assert_eq!(next(start), Some((4, Some(start + SLOW))));
        let later = start + SLOW / 2;
        assert_eq!(next(later), Some((2, Some(start + minute))), "the first has failed early");
        assert_eq!(next(later), None);
    }

    #[test]
    fn a_slow_server_is_retried_after_the_others() {
        let now = now();
        let past = Limit::until(Deadline::Total, Some(now));
        let mut opening = Opening::new([4, 2, 7], past);
        let tried: Vec<usize> =
            std::iter::from_fn(|| opening.next_server(now)).map(|(server, _)| server).collect();
        assert_eq!(tried, [4, 2, 7, 4, 2]);
    }

    #[test]
    fn the_only_server_has_all_the_time() {
        let (server, limit) = Opening::new([0], Limit::never()).next_server(now()).unwrap();
        assert_eq!((server, limit.at), (0, None));
    }
}
