//! Wakers that can be taken back.

use std::{collections::BTreeMap, task::Waker};

/// The wakers of tasks that wait for the same event, each by a ticket, with which it leaves again: for an event that may
/// not come while very many tasks begin and end to wait for it.
#[derive(Debug, Default)]
pub struct Tickets {
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Tickets {
    /// A new ticket, with no waiter yet.
    pub fn issue(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The task with this ticket waits with this waker. Returns the one before, to be dropped outside of any lock.
    #[must_use]
    pub fn wait(&mut self, ticket: u64, waker: Waker) -> Option<Waker> {
        self.waiting.insert(ticket, waker)
    }

    /// The task with this ticket waits no more. Returns its waker, to be dropped outside of any lock.
    pub fn leave(&mut self, ticket: u64) -> Option<Waker> {
        self.waiting.remove(&ticket)
    }

    /// Takes all of them, to be woken outside of any lock.
    pub fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::proof::Idle;

    #[test]
    fn a_ticket_has_one_waker_until_dropped() {
        let tasks = [(); 3].map(|()| Arc::new(Idle));
        let wakers = tasks.clone().map(Waker::from);
        let mut tickets = Tickets::default();
        let (first, second) = (tickets.issue(), tickets.issue());
        assert!(tickets.wait(first, wakers[0].clone()).is_none());
        assert!(
            tickets.wait(first, wakers[1].clone()).is_some_and(|one| one.will_wake(&wakers[0]))
        );
        assert!(tickets.wait(second, wakers[2].clone()).is_none());
        assert!(tickets.leave(second).is_some_and(|left| left.will_wake(&wakers[2])));
        assert!(tickets.leave(second).is_none());
        let left: Vec<Waker> = tickets.take().collect();
        assert!(matches!(&left[..], [one] if one.will_wake(&wakers[1])));
        assert_eq!(tickets.take().count(), 0);
    }
}
