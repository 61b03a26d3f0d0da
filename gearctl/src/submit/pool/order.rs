//! Events in the order of the jobs, although the jobs run concurrently.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use ctl_core::bulk::Gate;

use super::news::News;
use super::room::Room;

/// Maximum number of jobs submitted before the first of them has ended, because their events must be kept.
const AHEAD: u64 = 1000;

/// How often a waiting thread checks whether to keep waiting.
const SLICE: Duration = Duration::from_millis(50);

/// Keeps the events of a job until all jobs before it have ended.
pub(super) struct Order {
    /// Number of jobs at the front that have ended.
    ended: u64,
    kept: BTreeMap<u64, Vec<News>>,
    ready: VecDeque<News>,
    window: Arc<Window>,
    room: Arc<Room>,
}

/// How far jobs may be ahead of the first one that has not ended.
#[derive(Default)]
pub(super) struct Window {
    counts: Mutex<Counts>,
    moved: Condvar,
}

#[derive(Default)]
struct Counts {
    entered: u64,
    ended: u64,
}

impl Order {
    pub(super) fn new(room: Arc<Room>) -> Self {
        room.turn(1);
        Self {
            ended: 0,
            kept: BTreeMap::new(),
            ready: VecDeque::new(),
            window: Arc::default(),
            room,
        }
    }

    pub(super) fn window(&self) -> Arc<Window> {
        Arc::clone(&self.window)
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
        self.window.ended(self.ended);
        self.room.turn(self.ended + 1);
    }

    /// The event whose turn it is.
    pub(super) fn next(&mut self) -> Option<News> {
        self.ready.pop_front()
    }
}

impl Window {
    /// Waits until one more job may be submitted. Returns false if no more may be submitted.
    pub(super) fn enter(&self, gate: &Gate) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        while counts.entered >= counts.ended + AHEAD {
            if !gate.is_open() {
                return false;
            }
            let waited = self.moved.wait_timeout(counts, SLICE);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        counts.entered += 1;
        true
    }

    fn ended(&self, ended: u64) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).ended = ended;
        self.moved.notify_all();
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
