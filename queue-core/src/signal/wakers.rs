//! A set of wakers.

use std::{
    collections::{HashMap, hash_map::Entry},
    task::Waker,
};

/// The wakers of tasks that wait for the same event, in order of arrival, without duplicates.
#[derive(Debug, Default)]
pub struct Wakers {
    list: Vec<Waker>,
    /// The position of the waker with this data pointer.
    places: HashMap<usize, usize>,
}

impl Wakers {
    /// Adds a task, unless it is already included.
    pub fn add(&mut self, waker: &Waker) {
        match self.places.entry(waker.data().addr()) {
            Entry::Occupied(place) => {
                if self.list.get(*place.get()).is_some_and(|known| known.will_wake(waker)) {
                    return;
                }
                *place.into_mut() = self.list.len();
            }
            Entry::Vacant(place) => {
                place.insert(self.list.len());
            }
        }
        self.list.push(waker.clone());
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all of them, to be woken outside of any lock.
    pub fn take(&mut self) -> Vec<Waker> {
        self.places.clear();
        std::mem::take(&mut self.list)
    }

    /// Moves all of them to the end of `others`.
    pub fn append_to(&mut self, others: &mut Vec<Waker>) {
        self.places.clear();
        others.append(&mut self.list);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    struct Task {
        name: usize,
        order: Arc<[AtomicUsize; 3]>,
        turn: Arc<AtomicUsize>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.order[self.name]
                .store(self.turn.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_waits_once_and_in_its_turn() {
        let (order, turn) = (Arc::<[AtomicUsize; 3]>::default(), Arc::new(AtomicUsize::new(1)));
        let tasks = [2, 0, 1].map(|name| {
            Waker::from(Arc::new(Task { name, order: order.clone(), turn: turn.clone() }))
        });
        let mut wakers = Wakers::default();
        for _ in 0..1000 {
            tasks.iter().for_each(|task| wakers.add(task));
        }
        assert_eq!(wakers.len(), 3);
        wakers.take().into_iter().for_each(Waker::wake);
        let woken = [0, 1, 2].map(|name| order[name].load(Ordering::Relaxed));
        assert_eq!((woken, turn.load(Ordering::Relaxed)), ([2, 3, 1], 4));
        assert!(wakers.is_empty());
        // A woken task may wait again.
        wakers.add(&tasks[0]);
        let mut all = vec![tasks[1].clone()];
        wakers.append_to(&mut all);
        assert_eq!((all.len(), wakers.len()), (2, 0));
        wakers.add(&tasks[0]);
        assert_eq!(wakers.len(), 1);
    }
}
