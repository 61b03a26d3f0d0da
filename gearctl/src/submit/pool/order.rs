//! Events in the order of the jobs, although the jobs run concurrently.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::news::News;
use super::room::Room;

/// Keeps the events of a job until all jobs before it have ended.
pub(super) struct Order {
    /// Number of jobs at the front that have ended.
    ended: u64,
    kept: BTreeMap<u64, Vec<News>>,
    ready: VecDeque<News>,
    room: Arc<Room>,
}

impl Order {
    pub(super) fn new(room: Arc<Room>) -> Self {
        room.turn(1);
        Self { ended: 0, kept: BTreeMap::new(), ready: VecDeque::new(), room }
    }

    /// Takes an event as it arrives.
    pub(super) fn add(&mut self, news: News) {
        if news.job != self.ended + 1 {
            self.kept.entry(news.job).or_default().push(news);
            return;
        }
        let mut is_last = news.is_last();
        self.ready.push_back(news);
        while is_last {
            self.ended += 1;
            let next = self.kept.remove(&(self.ended + 1)).unwrap_or_default();
            is_last = next.last().is_some_and(News::is_last);
            self.ready.extend(next);
        }
        self.room.turn(self.ended + 1);
    }

    /// The event whose turn it is.
    pub(super) fn next(&mut self) -> Option<News> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::pool::What;
    use bytes::Bytes;
    use ctl_core::error::CliError;
    use gearman_client::JobEvent;

    fn add(order: &mut Order, job: u64, what: What) -> Vec<u64> {
        order.add(News { job, label: String::new(), what });
        std::iter::from_fn(|| order.next()).map(|news| news.job).collect()
    }

    #[test]
    fn keeps_the_order_without_waiting_for_failed_jobs() {
        let mut order = Order::new(Arc::new(Room::new(100)));
        let data = || What::Event(JobEvent::Data(Bytes::from_static(b"x")));
        let done = || What::Event(JobEvent::Complete(Bytes::new()));
        assert!(add(&mut order, 2, data()).is_empty());
        assert!(add(&mut order, 3, done()).is_empty());
        assert_eq!(add(&mut order, 1, data()), [1]);
        assert_eq!(add(&mut order, 1, What::Error(CliError::internal("lost"))), [1, 2]);
        assert_eq!(add(&mut order, 2, data()), [2]);
        assert_eq!(add(&mut order, 2, done()), [2, 3]);
        assert_eq!(add(&mut order, 4, data()), [4]);
    }
}
