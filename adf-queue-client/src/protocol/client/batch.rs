//! Pushes that one caller makes together, and their outcomes.

use crate::{
    Error, MessageId, Push, RequestId, Result,
    protocol::{Encoding, session::RequestIds},
};

/// Pushes that one caller makes together.
#[derive(Debug)]
pub(super) struct PushBatch {
    /// The id of the first place; the other places have consecutive ids.
    pub(super) first: u64,
    places: Vec<BatchEntry>,
    /// Number of unfinished pushes.
    pub(super) undone: usize,
    /// Whether the connection has the unfinished ones.
    pub(super) is_sent: bool,
}

#[derive(Debug)]
enum BatchEntry {
    Open(Push),
    Done(Result<MessageId>),
}

impl PushBatch {
    /// Pushes that cannot be sent fail at once, and `refused` is called for each.
    pub(super) fn new(
        pushes: Vec<Push>,
        encoding: Encoding,
        ids: &mut RequestIds,
        mut refused: impl FnMut(&Error),
    ) -> Self {
        let first = ids.run(pushes.len() as u64);
        let mut undone = pushes.len();
        let places = pushes.into_iter().zip(first..).map(|(push, id)| {
            let Err(error) = encoding.check(&push.asked("")) else { return BatchEntry::Open(push) };
            let error = error.with_request(push.action(), &RequestId::of(id));
            undone -= 1;
            refused(&error);
            BatchEntry::Done(Err(error))
        });
        let places = places.collect();
        PushBatch { first, places, undone, is_sent: false }
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        let number = queue_core::decimal(id.as_str().as_bytes());
        let place = number.and_then(|number| number.checked_sub(self.first));
        place.is_some_and(|place| place < self.places.len() as u64)
    }

    /// The unfinished pushes, each at its place.
    pub(super) fn open(&self) -> impl Iterator<Item = Option<&Push>> {
        self.places.iter().map(|place| match place {
            BatchEntry::Open(push) => Some(push),
            BatchEntry::Done(_) => None,
        })
    }

    /// Sets the outcome of the push at a place. Returns the error as reported to its caller.
    pub(super) fn settle(&mut self, place: usize, outcome: Result<MessageId>) -> Option<&Error> {
        let id = self.first + place as u64;
        let place = self.places.get_mut(place)?;
        let BatchEntry::Open(push) = place else { return None };
        let outcome =
            outcome.map_err(|error| error.with_request(push.action(), &RequestId::of(id)));
        self.undone -= 1;
        *place = BatchEntry::Done(outcome);
        match place {
            BatchEntry::Done(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Fails all unfinished pushes with this error; `report` gets it as reported to each caller.
    pub(super) fn fail(&mut self, error: &Error, mut report: impl FnMut(&Error)) {
        for place in 0..self.places.len() {
            self.settle(place, Err(error.share())).into_iter().for_each(&mut report);
        }
    }

    /// The outcomes of all pushes, once all are finished.
    pub(super) fn take_outcomes(&mut self) -> Vec<Result<MessageId>> {
        let over = std::mem::take(&mut self.places).into_iter();
        over.filter_map(|place| match place {
            BatchEntry::Done(outcome) => Some(outcome),
            BatchEntry::Open(_) => None,
        })
        .collect()
    }
}
