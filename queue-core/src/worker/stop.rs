//! Stopping a worker.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use crate::{
    Signal, lock,
    sync::{Mutex, atomic::AtomicU8},
};

/// How a worker stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// It starts nothing new; running jobs may finish within the grace period.
    Gently,
    /// Running jobs are given back at once.
    AtOnce,
}

/// Tells a worker to stop: its handlers through a signal, and its tasks, each of which has its own place here.
#[derive(Debug)]
pub struct Stop {
    asked: AtomicU8,
    signal: Arc<Signal>,
    sleepers: Mutex<Vec<Option<Waker>>>,
}

impl Stop {
    /// For a worker with this many tasks. Threads need no place, because they check periodically.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Stop {
            asked: AtomicU8::new(0),
            signal: Arc::default(),
            sleepers: Mutex::new(vec![None; tasks]),
        }
    }

    /// Asks the worker to stop. A request to stop at once cannot be weakened.
    pub fn ask(&self, haste: Haste) {
        let level = match haste {
            Haste::Gently => 1,
            Haste::AtOnce => 2,
        };
        self.asked.fetch_max(level, Ordering::SeqCst);
        self.signal.set();
        let sleepers: Vec<Waker> =
            lock(&self.sleepers).iter_mut().filter_map(Option::take).collect();
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Whether it was asked, and how.
    #[must_use]
    pub fn asked(&self) -> Option<Haste> {
        match self.asked.load(Ordering::SeqCst) {
            0 => None,
            1 => Some(Haste::Gently),
            _ => Some(Haste::AtOnce),
        }
    }

    /// The signal for handlers.
    #[must_use]
    pub fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// The run of the worker: its end sets the signal, whatever the reason, for those that outlive it.
    pub fn run(&self) -> WorkerRun<'_> {
        WorkerRun(self)
    }

    /// Makes a stop wake the task with this place. Call it before [`asked`](Self::asked), or a stop between the two is
    /// missed.
    pub fn wake(&self, place: usize, task: &Waker) {
        if let Some(sleeper) = lock(&self.sleepers).get_mut(place)
            && !sleeper.as_ref().is_some_and(|known| known.will_wake(task))
        {
            *sleeper = Some(task.clone());
        }
    }
}

/// A run, which ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct WorkerRun<'a>(&'a Stop);

impl Drop for WorkerRun<'_> {
    fn drop(&mut self) {
        self.0.signal.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Woken;

    #[test]
    fn a_stop_wakes_every_task_that_sleeps_and_handlers_once() {
        let tasks = [0, 1, 2].map(|_| Arc::new(Woken::default()));
        let stop = Stop::new(2);
        for (place, task) in tasks.iter().enumerate() {
            // However often it is polled. The last task has no place.
            stop.wake(place, &task.clone().into());
            stop.wake(place, &task.clone().into());
        }
        assert_eq!((stop.asked(), stop.signal().is_set()), (None, false));
        stop.ask(Haste::Gently);
        let woken = || [0, 1, 2].map(|place| tasks[place].count());
        assert_eq!((woken(), stop.signal().is_set()), ([1, 1, 0], true));
        // Tasks that sleep again are woken again.
        stop.wake(0, &tasks[0].clone().into());
        stop.ask(Haste::AtOnce);
        assert_eq!((woken(), stop.asked()), ([2, 1, 0], Some(Haste::AtOnce)));
        stop.ask(Haste::Gently);
        assert_eq!(stop.asked(), Some(Haste::AtOnce));
    }

    #[test]
    fn handlers_learn_of_the_end_of_a_run() {
        let stop = Stop::new(1);
        let run = stop.run();
        assert!(!stop.signal().is_set());
        drop(run);
        assert_eq!((stop.asked(), stop.signal().is_set()), (None, true));
    }
}
