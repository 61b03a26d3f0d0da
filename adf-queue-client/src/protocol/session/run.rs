//! Runs of pushes with consecutive ids, stored in a table by place, where all other requests need a map.

use std::collections::VecDeque;

use queue_core::decimal;

use super::Waiting;
use crate::{RequestId, protocol::Action};

/// The runs of a connection that are not completely answered, in the order of their ids.
#[derive(Debug)]
pub(super) struct Runs<W>(VecDeque<PushRun<W>>);

#[derive(Debug)]
struct PushRun<W> {
    waiter: W,
    /// The id of the first place.
    first: u64,
    /// `None` where nothing was sent, or where the answer has arrived.
    places: Vec<Option<UnansweredPush>>,
    unanswered: usize,
}

/// A push of a run that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnansweredPush {
    pub(super) action: Action,
    /// Its number on the connection.
    pub(super) number: u64,
    /// Its end offset on the connection.
    pub(super) end: u64,
}

impl<W> Default for Runs<W> {
    fn default() -> Self {
        Runs(VecDeque::new())
    }
}

impl<W: Clone> Runs<W> {
    /// Adds a run whose first place has this id. No earlier run may have higher ids.
    pub(super) fn add(&mut self, waiter: W, first: u64, places: Vec<Option<UnansweredPush>>) {
        let unanswered = places.iter().flatten().count();
        self.0.push_back(PushRun { waiter, first, places, unanswered });
    }

    /// The run, the place and the number of this id, if its request is in flight.
    fn find(&self, action: Action, id: &[u8]) -> Option<(usize, usize, u64)> {
        let oldest = self.0.front()?;
        let id = decimal(id)?;
        // Usually it is in the oldest run.
        let index = match oldest.place(id) {
            Some(_) => 0,
            None => self.0.partition_point(|run| run.first <= id).checked_sub(1)?,
        };
        let run = self.0.get(index)?;
        let place = run.place(id)?;
        let sent = run.places.get(place)?.filter(|sent| sent.action == action)?;
        Some((index, place, sent.number))
    }

    /// Whether a push with this id is in flight.
    pub(super) fn has(&self, action: Action, id: &RequestId) -> bool {
        self.find(action, id.as_str().as_bytes()).is_some()
    }

    /// Handles the answer for this id: who waits for it, at which place, and its number.
    pub(super) fn answered(&mut self, action: Action, id: &[u8]) -> Option<(W, usize, u64)> {
        let (index, place, number) = self.find(action, id)?;
        let run = self.0.get_mut(index)?;
        *run.places.get_mut(place)? = None;
        run.unanswered -= 1;
        let waiter = run.waiter.clone();
        if run.unanswered == 0 {
            self.0.remove(index);
        }
        Some((waiter, place, number))
    }

    /// The connection has ended. Returns the waiters for answers, with their places.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (Waiting<W>, usize)> + use<'_, W> {
        self.0.drain(..).flat_map(|PushRun { waiter, places, .. }| {
            places.into_iter().enumerate().filter_map(move |(place, sent)| {
                let UnansweredPush { number, end, .. } = sent?;
                Some((Waiting { waiter: waiter.clone(), number, end }, place))
            })
        })
    }
}

impl<W> PushRun<W> {
    fn place(&self, id: u64) -> Option<usize> {
        let place = usize::try_from(id.checked_sub(self.first)?).ok()?;
        (place < self.places.len()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_forgotten_with_its_last_answer() {
        let mut runs = Runs::default();
        let place = |number| Some(UnansweredPush { action: Action::Rpush, number, end: 0 });
        runs.add("caller", 1, vec![place(1), None, place(2)]);
        assert_eq!(runs.answered(Action::Rpush, b"3"), Some(("caller", 2, 2)));
        assert!(!runs.0.is_empty());
        assert_eq!(runs.answered(Action::Rpush, b"1"), Some(("caller", 0, 1)));
        assert!(runs.0.is_empty());
    }
}
