//! Limits the events waiting for the consumer: a slow reader, or keeping order, delays jobs instead of filling the
//! memory.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctl_core::bulk::Gate;
use ctl_core::repl::guest::lock;

use super::news::News;

/// Maximum number of jobs submitted before the first of them has ended, if order matters, because their events must be
/// kept.
const AHEAD: u64 = 1000;

/// How often a waiting thread checks whether to keep waiting.
const SLICE: Duration = Duration::from_millis(50);

/// Room for the results of waiting jobs. What does not fit waits at the server.
#[derive(Debug)]
pub(super) struct Room {
    /// Capacity in bytes.
    most: usize,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Waiting bytes, by job.
    waiting: BTreeMap<u64, usize>,
    total: usize,
    /// The job whose turn it is, if order matters: those before it have ended.
    turn: Option<u64>,
    /// Number of jobs that may be submitted so far.
    admitted: u64,
    is_closed: bool,
}

impl Room {
    /// Room for this many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), moved: Condvar::new() }
    }

    /// Waits until one more job may be submitted. Returns false if no more may be submitted.
    pub(super) fn admit(&self, gate: &Gate) -> bool {
        let mut state = self.state();
        while !state.is_closed && state.turn.is_some_and(|turn| state.admitted >= turn - 1 + AHEAD)
        {
            if !gate.is_open() {
                return false;
            }
            let waited = self.moved.wait_timeout(state, SLICE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.admitted += 1;
        !state.is_closed
    }

    /// Waits until there is room for the event. The job whose turn it is may always have one waiting, whatever its
    /// size. Returns false if the receiver has gone.
    pub(super) fn enter(&self, news: &News) -> bool {
        let size = news.size();
        let mut state = self.state();
        while !state.is_closed && !state.has_room(news.job, size, self.most) {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if size > 0 {
            state.total += size;
            *state.waiting.entry(news.job).or_default() += size;
        }
        !state.is_closed
    }

    /// The consumer has taken the event.
    pub(super) fn leave(&self, news: &News) {
        let size = news.size();
        if size == 0 {
            return;
        }
        let mut state = self.state();
        state.total = state.total.saturating_sub(size);
        if let Some(waiting) = state.waiting.get_mut(&news.job) {
            *waiting = waiting.saturating_sub(size);
            if *waiting == 0 {
                state.waiting.remove(&news.job);
            }
        }
        self.moved.notify_all();
    }

    /// It is this job's turn.
    pub(super) fn turn(&self, job: u64) {
        self.state().turn = Some(job);
        self.moved.notify_all();
    }

    /// The consumer has gone.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.moved.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn has_room(&self, job: u64, size: usize, most: usize) -> bool {
        let own_turn = || self.turn == Some(job) && !self.waiting.contains_key(&job);
        size == 0 || self.total == 0 || size <= most.saturating_sub(self.total) || own_turn()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use bytes::Bytes;
    use ctl_core::system::signals::Interrupts;
    use gearman_client::JobEvent;

    use super::super::What;
    use super::*;

    fn data(job: u64, size: usize) -> News {
        let what = What::Event(JobEvent::Data(Bytes::from(vec![0; size])));
        News { job, label: String::new(), what }
    }

    fn fits(room: &Room, news: &News) -> bool {
        room.state().has_room(news.job, news.size(), room.most)
    }

    #[test]
    fn the_next_job_always_has_room() {
        let room = Room::new(10);
        room.turn(1);
        assert!(room.enter(&data(2, 10)));
        assert!(!fits(&room, &data(3, 1)));
        assert!(room.enter(&data(1, 100)));
        assert!(!fits(&room, &data(1, 1)), "one piece, then the next when it was taken");
        room.leave(&data(1, 100));
        assert!(room.enter(&data(1, 1)));
        room.leave(&data(1, 1));
        room.turn(3);
        assert!(fits(&room, &data(3, 1)) && !fits(&room, &data(4, 1)));
        room.leave(&data(2, 10));
        assert!(room.enter(&data(4, 1_000)), "the only one, however large");
    }

    #[test]
    fn nobody_waits_for_a_turn_once_the_consumer_has_gone() {
        let (room, gate) = (Room::new(10), Gate::of(&Interrupts::none()));
        room.turn(1);
        assert!((0..AHEAD).all(|_| room.admit(&gate)));
        room.close();
        assert!(!room.admit(&gate));
    }

    #[test]
    fn waiters_wake_for_room_and_at_the_end() {
        let room = Arc::new(Room::new(1));
        assert!(room.enter(&data(1, 1)));
        let waiter = thread::spawn({
            let room = Arc::clone(&room);
            move || (room.enter(&data(2, 1)), room.enter(&data(2, 1)))
        });
        room.leave(&data(1, 1));
        // The first has entered when it is full again.
        while room.state().total == 0 {
            thread::yield_now();
        }
        room.close();
        assert_eq!(waiter.join().unwrap(), (true, false));
    }
}
